"""How fast the recurrent layers are.

The claim: with the gradient written by hand, and compiled where that pays, our layers train faster
than Keras' default layers on the same weights, and cells with peepholes faster than in Keras' RNN.

    python benchmarks/recurrent.py                      # everything, an hour on one core
    python benchmarks/recurrent.py --units lstm --shapes 0 1 --runs 3

All candidates of a row are run in turn in one process, the median of the runs is taken. Peak
memory is that of a fresh process, above what it held before the first call, so that the memory of
tracing and compiling is in it (it is read from /proc, on Linux). `matmuls` is what the
matrix products of the pass take alone, so no implementation can be faster. Torch is timed if it is
installed. Prints a table and writes benchmarks/results/recurrent.json.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf
from measuring import medians, memory_in_fresh_process, own_peak_memory
from report import write_result

from keras_attn.layers import GRU, LSTM, PeepholeLSTM, PeepholeLSTMCell

SHAPES = [(32, 100, 128, 128), (1, 200, 128, 256), (32, 50, 256, 512), (64, 400, 2, 128)]
PASSES = ("forward", "forward + backward")
FULL = {"peepholes": "full"}
PAIRS = {
    "lstm": (keras.layers.LSTM, LSTM),
    "gru, reset after": (keras.layers.GRU, lambda units, **o: GRU(units, reset_after=True, **o)),
    "gru, Cho": (lambda units, **o: keras.layers.GRU(units, reset_after=False, **o), GRU),
    "lstm, diagonal peepholes": (
        lambda units, **o: keras.layers.RNN(PeepholeLSTMCell(units), **o),
        PeepholeLSTM,
    ),
    "lstm, full peepholes": (
        lambda units, **o: keras.layers.RNN(PeepholeLSTMCell(units, **FULL), **o),
        lambda units, **o: PeepholeLSTM(units, **FULL, **o),
    ),
}
"""By name, the layer of Keras and ours."""

TARGETS = {
    ("lstm", 0): (1.5, 1.5),
    ("lstm", 1): (3, 8),
    ("lstm", 2): (1.0, 1.4),
    ("lstm", 3): (1.2, 1.1),
    ("lstm, diagonal peepholes", 0): (None, 1.5),
    ("lstm, diagonal peepholes", 1): (None, 8),
    ("lstm, full peepholes", 0): (None, 1.3),
    ("lstm, full peepholes", 1): (None, 6),
    ("gru, reset after", 0): (None, 1.8),
    ("gru, reset after", 1): (None, 12),
    ("gru, Cho", 0): (None, 3),
    ("gru, Cho", 1): (None, 40),
}
"""How often Keras' time of the forward pass, and of both passes, should hold ours."""


def layers_of(name, shape):
    """Keras' layer and ours, with the same weights."""
    _, _, features, units = shape
    theirs, ours = (make(units, return_sequences=True) for make in PAIRS[name])
    for layer in (theirs, ours):
        layer.build((None, None, features))
    ours.set_weights(theirs.get_weights())
    return theirs, ours


def inputs_of(shape):
    batch, length, features, _ = shape
    rng = np.random.default_rng(0)
    inputs = tf.constant(rng.standard_normal((batch, length, features)), tf.float32)
    ends = rng.integers(length // 2, length + 1, (batch, 1))
    return inputs, tf.constant(np.arange(length) < ends)


def compiled(layer, inputs, with_gradient, jit_compile=None, mask=None):
    """A function without arguments that runs the layer, and waits for the result."""
    weights = [v.value for v in layer.trainable_variables]

    @tf.function(jit_compile=jit_compile, autograph=False)
    def run(inputs):
        if not with_gradient:
            return layer(inputs, mask=mask, training=False)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(layer(inputs, mask=mask, training=True)))
        return tape.gradient(loss, [inputs, *weights])

    return lambda: tf.nest.flatten(run(inputs))[0].numpy()


def matmuls(name, shape, with_gradient):
    """The matrix products of a pass, and nothing else."""
    batch, length, features, units = shape
    width = (3 if name.startswith("gru") else 4) * units + (3 * units if "full" in name else 0)
    fed = (3 if name.startswith("gru") else 4) * units
    rng = np.random.default_rng(0)
    random = lambda *shape: tf.constant(rng.standard_normal(shape) * 0.01, tf.float32)  # noqa: E731
    inputs, kernel = random(batch * length, features), random(features, fed)
    hidden, recurrent = random(batch, units), random(units, width)
    turned, sums = random(width, units), random(batch * length, width)

    @tf.function(autograph=False)
    def run():
        def steps(a, b):
            return tf.while_loop(
                lambda n, _: n < length,
                lambda n, total: (n + 1, total + tf.matmul(a + total[:1, :1], b)),
                (0, tf.zeros([batch, b.shape[1]])),
            )[1]

        results = [tf.matmul(inputs, kernel), steps(hidden, recurrent)]
        if with_gradient:
            states = tf.tile(hidden, [length, 1])
            results += [
                steps(sums[:batch], turned),
                tf.matmul(states, sums, transpose_a=True),
                tf.matmul(inputs, sums[:, :fed], transpose_a=True),
                tf.matmul(sums[:, :fed], kernel, transpose_b=True),
            ]
        return results

    return lambda: [result.numpy() for result in run()]


def torch_layer(name, shape, with_gradient):
    """Torch's layer of this kind, or None where there is no torch or no such layer."""
    kinds = {"lstm": "LSTM", "gru, reset after": "GRU"}
    try:
        import torch
    except ImportError:
        return None
    if name not in kinds:
        return None
    torch.set_num_threads(tf.config.threading.get_intra_op_parallelism_threads())
    _, _, features, units = shape
    layer = getattr(torch.nn, kinds[name])(features, units, batch_first=True)
    inputs = torch.tensor(inputs_of(shape)[0].numpy(), requires_grad=True)

    def run():
        with torch.set_grad_enabled(with_gradient):
            outputs, _ = layer(inputs)
            if with_gradient:
                layer.zero_grad()
                outputs.square().sum().backward()

    return run


def candidates(name, shape, with_gradient) -> dict:
    """By name of the column, a function that runs the pass once."""
    theirs, ours = layers_of(name, shape)
    inputs, mask = inputs_of(shape)
    found = {
        "keras": compiled(theirs, inputs, with_gradient),
        "ours": compiled(ours, inputs, with_gradient),
        "ours, masked": compiled(ours, inputs, with_gradient, mask=mask),
        "keras + XLA": compiled(theirs, inputs, with_gradient, jit_compile=True),
        "torch": torch_layer(name, shape, with_gradient),
        "matmuls": matmuls(name, shape, with_gradient),
    }
    return {column: run for column, run in found.items() if run is not None}


def peak_memory(name, number, column) -> float:
    """MB that a training step adds to the peak of a fresh process."""
    return memory_in_fresh_process(__file__, name, str(number), column)


def print_own_peak_memory(name, number, column):
    """What `peak_memory` runs in a process of its own."""
    shape = SHAPES[int(number)]
    theirs, ours = layers_of(name, shape)
    run = compiled(theirs if column == "keras" else ours, inputs_of(shape)[0], True)
    before = own_peak_memory()
    for _ in range(3):
        run()
    print(own_peak_memory() - before)


def measure(name, number, repetitions, with_memory) -> list[dict]:
    """One row for each pass."""
    shape, rows = SHAPES[number], []
    for with_gradient, which in enumerate(PASSES):
        milliseconds = medians(candidates(name, shape, bool(with_gradient)), repetitions)
        target = TARGETS.get((name, number), (None, None))[with_gradient]
        row = {
            "unit": name,
            "batch, length, features, units": shape,
            "pass": which,
            "milliseconds": {k: round(v, 2) for k, v in milliseconds.items()},
            "times faster than keras": round(milliseconds["keras"] / milliseconds["ours"], 2),
            "target": target,
            "cost of a mask": round(milliseconds["ours, masked"] / milliseconds["ours"] - 1, 3),
        }
        if with_memory and with_gradient:
            row["peak MB"] = {
                column: round(peak_memory(name, number, column)) for column in ("keras", "ours")
            }
        rows.append(row)
        print_row(row)
    return rows


def print_row(row):
    times = "  ".join(f"{column} {ms:.1f}" for column, ms in row["milliseconds"].items())
    target = f" (target {row['target']})" if row["target"] else ""
    print(f"{row['unit']}, {row['batch, length, features, units']}, {row['pass']}:")
    print(f"    {row['times faster than keras']}x{target}; ms: {times}")
    if "peak MB" in row:
        print(f"    peak memory, MB: {row['peak MB']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--shapes", nargs="+", type=int, default=[0, 1, 2, 3])
    parser.add_argument("--runs", type=int, default=7, help="runs of which the median is taken")
    parser.add_argument("--threads", type=int, default=1, help="of TensorFlow and torch")
    parser.add_argument("--no-memory", action="store_true", help="leave out peak memory")
    parser.add_argument("--note", default="", help="written beside the figures")
    parser.add_argument("--memory-of", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    if options.memory_of:
        print_own_peak_memory(*options.memory_of)
        return
    rows = []
    for name in options.units:
        for number in options.shapes:
            rows += measure(name, number, options.runs, not options.no_memory)
    write_result("recurrent", {"threads": options.threads, "rows": rows}, options.note)


if __name__ == "__main__":
    main()
