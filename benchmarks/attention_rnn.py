"""What the gradient written by hand gains for a recurrent network that attends over a memory.

The claim: forward and backward pass together take at most two thirds of the time of the same layer
run step by step and differentiated by TensorFlow, on the same weights; with an LSTM, whose products
of matrices take more of the time of both, at most one in 1.4.

    python benchmarks/attention_rnn.py

64 sequences of 30 steps over a memory of 30 positions, everything 256 wide. Both run in turn in
one process, the median counts. Writes benchmarks/results/attention_rnn.json.
"""

import argparse
import itertools
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from measuring import medians
from report import write_result

from keras_attn.layers import (
    AdditiveAttention,
    AttentionRNN,
    GRUCell,
    LSTMCell,
    LuongAttention,
    PeepholeLSTMCell,
)

BATCH, STEPS, SOURCE, WIDTH = 64, 30, 30, 256
# The name of each cell before that of the attention, and what the ratio should be at least.
CELLS = {
    "": (lambda: GRUCell(WIDTH), 1.5),
    "LSTM, ": (lambda: LSTMCell(WIDTH), 1.4),
    "peephole LSTM, ": (lambda: PeepholeLSTMCell(WIDTH), 1.4),
}
ATTENTIONS = {
    "additive": lambda: AdditiveAttention(WIDTH),
    "Luong, general": lambda: LuongAttention("general"),
    "Luong, dot": lambda: LuongAttention("dot"),
}


def training_passes(layer, by_hand: bool, memory_mask):
    """A function without arguments that runs both passes, and waits for the result."""
    rng = np.random.default_rng(0)
    inputs, memory = (
        tf.constant(rng.standard_normal((BATCH, length, WIDTH)), tf.float32)
        for length in (STEPS, SOURCE)
    )
    weights = [variable.value for variable in layer.trainable_variables]
    run = layer._run_by_hand if by_hand else layer._run_cell

    @tf.function(autograph=False)
    def step(inputs, memory):
        states = layer.cell.get_initial_state(batch_size=BATCH)
        with tf.GradientTape() as tape:
            tape.watch([inputs, memory])
            outputs, _, _ = run(inputs, memory, None, memory_mask, states, True)
            loss = tf.reduce_sum(tf.square(outputs))
        return tape.gradient(loss, [inputs, memory, *weights])

    return lambda: step(inputs, memory)[0].numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--note", default="", help="written beside the figures")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    ends = np.random.default_rng(1).integers(SOURCE // 2, SOURCE + 1, (BATCH, 1))
    memory_masks = {"no mask": None, "memory mask": tf.constant(np.arange(SOURCE) < ends)}
    figures = {}
    for (cell, (make_cell, target)), (name, make) in itertools.product(
        CELLS.items(), ATTENTIONS.items()
    ):
        layer = AttentionRNN(make_cell(), make())
        layer.build((BATCH, STEPS, WIDTH), (BATCH, SOURCE, WIDTH))
        for kind, mask in memory_masks.items():
            runs = {
                "by hand": training_passes(layer, True, mask),
                "autodiff": training_passes(layer, False, mask),
            }
            times = medians(runs, options.rounds)
            times = {which: round(time, 2) for which, time in times.items()}
            ratio = round(times["autodiff"] / times["by hand"], 2)
            figure = {"milliseconds": times, "ratio": ratio, "target": target}
            figures[f"{cell}{name}, {kind}"] = figure
            print(f"{cell}{name}, {kind}: {ratio} (target {target})  {times}", flush=True)
    write_result("attention_rnn", figures, options.note)


if __name__ == "__main__":
    main()
