"""How fast attention is, and how its time and memory grow with the length.

The claim: causal attention is faster than Keras' in a fraction of its memory, attention with a
window takes linear time, and where there is nothing to skip nothing is lost.

    python benchmarks/attention.py                      # everything, half an hour on one core
    python benchmarks/attention.py --cases layer short --runs 5 --no-growth

All candidates of a row are run in turn in one process, the median of the runs is taken. `matmuls`
is what the matrix products of the visible keys take alone, so no implementation can be faster.
Torch, its `scaled_dot_product_attention`, is timed if it is installed. Peak memory is that of a
fresh process, above what it held before the first call, so that the memory of tracing and compiling
is in it (it is read from /proc, on Linux). Prints a table and writes
benchmarks/results/attention.json and attention.png.
"""

import argparse
import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import keras
import numpy as np
import tensorflow as tf
from measuring import medians, memory_in_fresh_process, own_peak_memory
from report import RESULTS, write_result

from keras_attn.layers import MultiHeadAttention
from keras_attn.ops import dot_product_attention

PASSES = ("forward", "forward + backward")
FLOOR_BLOCK = 256


@dataclass(frozen=True)
class Case:
    """What is attended to: a whole layer, or projected heads; ours against Keras' full attention.

    `faster` says how often Keras' time should hold ours, in the forward pass and in both, `memory`
    how often its memory should, in both.
    """

    length: int
    heads: int
    causal: bool = True
    window: int | None = None
    batch: int = 1
    layer: bool = False
    features: int = 64  # of a head
    faster: tuple = (None, None)
    memory: float | None = None


CASES = {
    "layer": Case(2048, 8, layer=True, faster=(1.5, 1.15)),
    "core": Case(8192, 2, faster=(2.5, 1.5), memory=10),
    "window": Case(8192, 2, window=256, faster=(None, 7)),
    "short": Case(128, 8, causal=False, batch=16, layer=True, faster=(0.95, 0.95)),
    "short core": Case(512, 8, causal=False, batch=4, faster=(0.95, 0.95)),
    "middle": Case(512, 8, batch=4, layer=True),
}
TRAINING = Case(16384, 8, layer=True)
"""One layer whose training step should fit in 1 GB."""

GROWTH = {
    "keras, causal": ("keras", Case(0, 2), 8192),
    "ours, causal": ("ours", Case(0, 2), 32768),
    "ours, window 256": ("ours", Case(0, 2, window=256), 32768),
}
"""Curves: whose attention of what, and the longest length that is tried."""


def inputs_of(case: Case):
    """Tokens (B, L, N * d) for a layer, or query, key and value (B, L, N, d)."""
    shape = (case.batch, case.length, case.heads, case.features)
    rng = np.random.default_rng(0)
    heads = [tf.constant(rng.standard_normal(shape), tf.float32) for _ in range(3)]
    return [tf.reshape(heads[0], [*shape[:2], -1])] if case.layer else heads


def attention_of(who: str, case: Case):
    """The function of the inputs, and the weights that it reads."""
    if not case.layer:
        options = {"is_causal" if who == "keras" else "causal": case.causal}
        if who == "ours":
            options["window"] = case.window
        attend = keras.ops.dot_product_attention if who == "keras" else dot_product_attention
        return lambda *inputs: attend(*inputs, **options), []
    if who == "keras":
        layer = keras.layers.MultiHeadAttention(case.heads, case.features)
    else:
        layer = MultiHeadAttention(case.heads, case.features, window=case.window)
    tokens = keras.KerasTensor((case.batch, case.length, case.heads * case.features))
    layer.build(tokens.shape, tokens.shape)
    weights = [variable.value for variable in layer.trainable_variables]
    return lambda x: layer(x, x, use_causal_mask=case.causal), weights


def runner(who: str, case: Case, with_gradient: bool, jit_compile=None):
    """A function without arguments that runs the passes once and waits for the result."""
    attend, weights = attention_of(who, case)
    inputs = inputs_of(case)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def run(*inputs):
        if not with_gradient:
            return attend(*inputs)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(tf.square(attend(*inputs)))
        return tape.gradient(loss, [*inputs, *weights])

    return lambda: tf.nest.flatten(run(*inputs))[0].numpy()


def torch_runner(case: Case, with_gradient: bool):
    """Torch's attention, in a layer with four projections; None without torch or with a window."""
    try:
        import torch
    except ImportError:
        return None
    if case.window is not None:
        return None
    torch.set_num_threads(tf.config.threading.get_intra_op_parallelism_threads())
    inputs = [torch.tensor(x.numpy(), requires_grad=True) for x in inputs_of(case)]
    width = case.heads * case.features
    projections = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(4))

    def attend(query, key, value):  # (B, L, N, d)
        heads = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in (query, key, value)), is_causal=case.causal
        )
        return heads.transpose(1, 2)

    def run():
        with torch.set_grad_enabled(with_gradient):
            if case.layer:
                shape = (case.batch, case.length, case.heads, case.features)
                heads = attend(*(project(inputs[0]).view(shape) for project in projections[:3]))
                outputs = projections[3](heads.reshape(case.batch, case.length, width))
            else:
                outputs = attend(*inputs)
            if with_gradient:
                outputs.square().sum().backward()

    return run


def matmuls(case: Case, with_gradient: bool):
    """The matrix products with the visible keys, 2 and 6 of each block, and the projections."""
    size = min(FLOOR_BLOCK, case.length)
    seen = case.length / size
    if case.window is not None:
        seen = min(seen, (case.window if case.causal else 2 * case.window) / size)
    elif case.causal:
        seen = (seen + 1) / 2
    blocks = max(1, round(case.length / size * seen))
    ones = lambda *shape: tf.ones(shape) * 1e-3  # noqa: E731
    query = ones(case.batch, case.heads, size, case.features)
    width = case.heads * case.features
    tokens, kernel = ones(case.batch * case.length, width), ones(width, width)

    @tf.function(autograph=False)
    def run():
        def block(n, total):
            query_ = query + total[..., :1, :1]
            scores = tf.matmul(query_, query, transpose_b=True)
            total += tf.matmul(scores, query)
            if with_gradient:
                d_scores = tf.matmul(total, query, transpose_b=True)
                total += tf.matmul(d_scores, query)
                total += tf.matmul(d_scores, query, transpose_a=True)
                total += tf.matmul(scores, query, transpose_a=True)
            return n + 1, total

        results = [tf.while_loop(lambda n, _: n < blocks, block, (0, tf.zeros_like(query)))[1]]
        if case.layer:
            for number in range(4):
                results.append(tf.matmul(tokens + number, kernel))
                if with_gradient:
                    results.append(tf.matmul(tokens + number, kernel, transpose_b=True))
                    results.append(tf.matmul(tokens + number, tokens, transpose_a=True))
        return results

    return lambda: [result.numpy() for result in run()]


def peak_memory(who: str, case: Case) -> float:
    """MB that a training step adds to the peak of a fresh process."""
    description = json.dumps(dataclasses.asdict(case))
    return memory_in_fresh_process(__file__, who, description)


def print_own_peak_memory(who: str, description: str):
    """What `peak_memory` runs in a process of its own."""
    run = runner(who, Case(**json.loads(description)), with_gradient=True)
    before = own_peak_memory()
    for _ in range(2):
        run()
    print(own_peak_memory() - before)


def measure(name: str, case: Case, repetitions: int, with_memory: bool) -> list[dict]:
    """One row for each pass."""
    rows = []
    for with_gradient, which in enumerate(PASSES):
        runs = {
            "keras": runner("keras", case, bool(with_gradient)),
            "ours": runner("ours", case, bool(with_gradient)),
            "torch": torch_runner(case, bool(with_gradient)),
            "matmuls": matmuls(case, bool(with_gradient)),
        }
        times = medians({k: run for k, run in runs.items() if run is not None}, repetitions)
        row = {
            "case": name,
            **dataclasses.asdict(case),
            "pass": which,
            "milliseconds": {column: round(ms, 2) for column, ms in times.items()},
            "times faster than keras": round(times["keras"] / times["ours"], 2),
            "target": case.faster[with_gradient],
        }
        if with_memory and with_gradient:
            peak = {who: peak_memory(who, case) for who in ("keras", "ours")}
            row["peak MB"] = {who: round(mb) for who, mb in peak.items()}
            row["times less memory"] = round(peak["keras"] / max(peak["ours"], 1), 1)
        rows.append(row)
        print_row(row)
    return rows


def print_row(row):
    times = "  ".join(f"{column} {ms:.1f}" for column, ms in row["milliseconds"].items())
    target = f" (target {row['target']})" if row["target"] else ""
    print(f"{row['case']}, length {row['length']}, {row['pass']}:")
    print(f"    {row['times faster than keras']}x{target}; ms: {times}", flush=True)
    if "peak MB" in row:
        target = f" (target {row['memory']})" if row["memory"] else ""
        print(f"    {row['times less memory']}x less memory{target}; MB: {row['peak MB']}")


def growth(lengths: list[int], repetitions: int) -> dict:
    """By curve, lengths with the milliseconds and MB of a training step."""
    curves = {name: [] for name in GROWTH}
    for length in lengths:
        points = {
            name: (who, dataclasses.replace(case, length=length))
            for name, (who, case, longest) in GROWTH.items()
            if length <= longest
        }
        times = medians({name: runner(*point, True) for name, point in points.items()}, repetitions)
        for name, point in points.items():
            memory = peak_memory(*point)
            curves[name].append([length, round(times[name], 2), round(memory)])
            print(f"{name}, length {length}: {times[name]:.1f} ms, {memory:.0f} MB", flush=True)
    return curves


def plot(curves: dict, path: Path):
    """Time and memory over the length, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axis, column, label in zip(axes, (1, 2), ("milliseconds", "peak MB"), strict=True):
        for name, points in curves.items():
            if points:
                axis.plot([p[0] for p in points], [p[column] for p in points], "o-", label=name)
        axis.set(xscale="log", yscale="log", xlabel="length", ylabel=label)
        axis.set_xscale("log", base=2)
        axis.grid(alpha=0.3)
    axes[0].set_title("forward + backward, 2 heads of 64 features", fontsize=9)
    axes[1].legend()
    figure.savefig(path, dpi=120)
    print(f"Wrote {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--lengths", nargs="+", type=int,
                        default=[512, 1024, 2048, 4096, 8192, 16384, 32768],
                        help="of the growth curves")  # fmt: skip
    parser.add_argument("--shrink", type=int, default=1, help="divide the lengths, to try it out")
    parser.add_argument("--runs", type=int, default=7, help="runs of which the median is taken")
    parser.add_argument("--threads", type=int, default=1, help="of TensorFlow and torch")
    parser.add_argument("--no-memory", action="store_true", help="leave out peak memory")
    parser.add_argument("--no-growth", action="store_true", help="leave out the curves")
    parser.add_argument("--note", default="", help="written beside the figures")
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    if options.memory_of:
        print_own_peak_memory(*options.memory_of)
        return

    def shrunk(case):
        return dataclasses.replace(case, length=case.length // options.shrink)

    figures = {"threads": options.threads, "rows": []}
    for name in options.cases:
        case = shrunk(CASES[name])
        figures["rows"] += measure(name, case, options.runs, not options.no_memory)
    if not options.no_memory:
        peak = peak_memory("ours", shrunk(TRAINING))
        figures["training step of a layer"] = {
            **dataclasses.asdict(shrunk(TRAINING)), "peak MB": round(peak), "target": 1024,
        }  # fmt: skip
        print(f"training step of a layer, length {shrunk(TRAINING).length}: {peak:.0f} MB")
    if not options.no_growth:
        lengths = [length // options.shrink for length in options.lengths]
        figures["growth: length, ms, MB"] = growth(lengths, options.runs)
        plot(figures["growth: length, ms, MB"], RESULTS / "attention.png")
    write_result("attention", figures, options.note)


if __name__ == "__main__":
    main()
