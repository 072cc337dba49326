"""Which parts of an LSTM matter, on the characters of tinyshakespeare.

Greff et al. 2015 removed one part at a time from the LSTM with peepholes and found that the forget
gate and the output activation matter most, and that coupled gates and no peepholes do no harm. The
same is done here: every variant is trained for as many steps on the same batches, three times.

    python benchmarks/lstm_variants.py --text tinyshakespeare.txt

The first nine tenths of the text are trained on, the loss is the mean over the rest, in nats a
character. Prints a table and writes benchmarks/results/lstm_variants.json.

Reference: https://arxiv.org/abs/1503.04069
"""

import argparse
import os
import statistics
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from report import write_result

from keras_attn.layers import LSTM
from keras_attn.training import fit, token_objective

VARIANTS = {
    "V (with peepholes)": {"peepholes": "diagonal"},
    "NIG (no input gate)": {"peepholes": "diagonal", "variant": "NIG"},
    "NFG (no forget gate)": {"peepholes": "diagonal", "variant": "NFG"},
    "NOG (no output gate)": {"peepholes": "diagonal", "variant": "NOG"},
    "NIAF (no input activation)": {"peepholes": "diagonal", "variant": "NIAF"},
    "NOAF (no output activation)": {"peepholes": "diagonal", "variant": "NOAF"},
    "CIFG (coupled gates)": {"peepholes": "diagonal", "variant": "CIFG"},
    "NP (no peepholes)": {},
    "FGR (full gate recurrence)": {"peepholes": "diagonal", "variant": "FGR"},
}
LENGTH, BATCH = 50, 32


def batches(ids: np.ndarray, seed: int):
    """Endless random pieces of the text: (inputs, labels, mask), the labels one character on."""
    starts = len(ids) - LENGTH - 1
    text = tf.constant(ids, tf.int32)

    def batch(number):
        first = tf.random.stateless_uniform([BATCH, 1], [seed, number], 0, starts, tf.int32)
        pieces = tf.gather(text, first + tf.range(LENGTH + 1))  # (B, T + 1)
        return pieces[:, :-1], pieces[:, 1:], tf.ones([BATCH, LENGTH], tf.bool)

    return tf.data.Dataset.range(2**31 - 1).map(batch).prefetch(4)


def language_model(vocabulary: int, units: int, options: dict) -> keras.Model:
    characters = keras.Input((None,), dtype="int32")
    hidden = keras.layers.Embedding(vocabulary, 32)(characters)
    hidden = LSTM(units, return_sequences=True, **options)(hidden)
    return keras.Model(characters, keras.layers.Dense(vocabulary)(hidden))


def validation_loss(model, ids: np.ndarray) -> float:
    """Nats a character over the whole text, cut into pieces that start with an empty memory."""
    count = (len(ids) - 1) // LENGTH
    inputs = ids[: count * LENGTH].reshape(count, LENGTH)
    labels = ids[1 : count * LENGTH + 1].reshape(count, LENGTH)

    @tf.function
    def total(inputs, labels):
        logits = model(inputs)
        return tf.reduce_sum(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )

    sums = [
        float(total(tf.constant(inputs[n : n + 128]), tf.constant(labels[n : n + 128])))
        for n in range(0, count - count % 128, 128)
    ]
    return sum(sums) / (len(sums) * 128 * LENGTH)


def loss_of(options, seed, training, validation, vocabulary, units, steps) -> tuple[float, int]:
    """The validation loss after training, and the number of the layer's parameters."""
    keras.utils.set_random_seed(seed)
    model = language_model(vocabulary, units, options)
    fit(
        model,
        batches(training, seed),
        steps,
        optimizer=keras.optimizers.Adam(2e-3),
        objective=token_objective(),
        clip_norm=1.0,
    )
    return validation_loss(model, validation), model.layers[2].count_params()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--note", default="", help="written beside the figures")
    arguments = parser.parse_args()
    text = arguments.text.read_text(encoding="utf-8")
    characters = sorted(set(text))
    number_of = {character: number for number, character in enumerate(characters)}
    ids = np.array([number_of[character] for character in text], np.int32)
    cut = len(ids) * 9 // 10
    figures = {}
    for name, options in VARIANTS.items():
        losses = []
        for seed in arguments.seeds:
            loss, parameters = loss_of(
                options, seed, ids[:cut], ids[cut:], len(characters), arguments.units,
                arguments.steps,
            )  # fmt: skip
            losses.append(round(loss, 4))
        figures[name] = {
            "parameters": parameters,
            "validation losses": losses,
            "mean": round(statistics.mean(losses), 4),
        }
        print(f"{name:30s} {parameters:7d}  {figures[name]['mean']:.4f}  {losses}", flush=True)
    settings = f"{arguments.steps} steps, {arguments.units} units, batches of {BATCH} x {LENGTH}"
    write_result("lstm_variants", figures, f"{settings}. {arguments.note}".strip())


if __name__ == "__main__":
    main()
