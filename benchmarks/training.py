"""What the training step of multi30k-rnnsearch gains over the naive loop, in real tokens a second.

The naive loop: sentences as they come, every batch padded to its longest, logits for the padding
too, embedding and output layer apart and not tied, every gradient by TensorFlow's autodiff. Ours:
batches by length, padding dropped before the output layer, loss and its gradient made together,
shared and tied embeddings, recurrent loops with gradients written by hand.

    KERAS_ATTN_DATA=... python benchmarks/training.py

Both see the same sentences of Multi30k in the same subwords and have layers of the same widths.
They run in turn, `--rounds` times so many seconds each; the table has medians.
"""

import argparse
import itertools
import statistics
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from report import write_result

from keras_attn.data.pair_store import PairStore, Sequences
from keras_attn.data.sequence_pairs import model_batch
from keras_attn.layers import AttentionRNN
from keras_attn.layers.recurrent_layer import RecurrentLayer
from keras_attn.models import RNNSearch
from keras_attn.recipes import make_recipe
from keras_attn.training import (
    RunDirectory,
    make_strategy,
    projected_token_objective,
    token_objective,
)
from keras_attn.training.replica_step import make_replica_step
from keras_attn.training.train_step import make_train_step

NAIVE_SENTENCES = 64


def naive_batches(store: PairStore) -> tf.data.Dataset:
    """Batches of sentences in the order of the file, padded to the longest."""
    blocks = zip(*map(store.block, range(store.number_of_blocks)), strict=True)
    sources, targets = (_ragged(Sequences.concatenated(side)) for side in blocks)
    rows = tf.data.Dataset.range(len(store)).batch(NAIVE_SENTENCES, drop_remainder=True)
    return rows.map(lambda r: model_batch(tf.gather(sources, r), tf.gather(targets, r))).repeat()


def _ragged(side) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(side.ids, side.lengths)


class Contender:
    """A model, its batches and its training step, timed in slices."""

    def __init__(self, model, objective, batches):
        optimizer = keras.optimizers.Adam(1e-3)
        optimizer.build(model.trainable_variables)
        replica_step = make_replica_step(model, optimizer, objective, clip_norm=1.0)
        self._step = make_train_step(make_strategy("none"), replica_step, batches.element_spec)
        self._batches = iter(batches)
        self.speeds = []
        self.padding = []
        for batch in itertools.islice(self._batches, 3):
            self._step(batch)

    def run(self, seconds: float) -> None:
        """Train for so long and note the real target tokens a second."""
        tokens, started = 0.0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            batch = next(self._batches)
            _, count = self._step(batch)
            tokens += float(count)
            self.padding.append(1 - float(count) / batch[1].shape[0] / batch[1].shape[1])
        self.speeds.append(tokens / (time.perf_counter() - started))


def without_own_gradients(model: RNNSearch) -> RNNSearch:
    """The same model with every recurrent loop differentiated by TensorFlow."""
    for layer in model._flatten_layers():
        if isinstance(layer, AttentionRNN | RecurrentLayer):
            layer.has_own_gradient = lambda *_, **__: False
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    recipe = make_recipe("multi30k-rnnsearch")
    with tempfile.TemporaryDirectory() as directory:
        run = RunDirectory(directory)
        recipe.prepare(run)
        store = PairStore(run.path / "pairs.bin")
        ours = recipe.build(run)
        settings = {**ours.settings, "tie_embeddings": False, "share_embeddings": False}
        naive = without_own_gradients(RNNSearch(**settings))
        contenders = {
            "naive": Contender(naive, token_objective(0.1), naive_batches(store)),
            "ours": Contender(ours, projected_token_objective(0.1), recipe.batches(run)),
            "ours, autodiff loops": Contender(
                without_own_gradients(RNNSearch(**ours.settings)),
                projected_token_objective(0.1),
                recipe.batches(run),
            ),
        }
        for _ in range(arguments.rounds):
            for contender in contenders.values():
                contender.run(arguments.seconds)
    speeds = {name: statistics.median(each.speeds) for name, each in contenders.items()}
    figures = {
        name: {
            "real_target_tokens_per_second": round(speeds[name]),
            "ratio_to_naive": round(speeds[name] / speeds["naive"], 2),
            "target_padding": round(float(np.mean(contenders[name].padding)), 3),
        }
        for name in contenders
    }
    for name, row in figures.items():
        print(name, row)
    write_result("training", figures, "target: ours at least 2.5 times the naive loop")


if __name__ == "__main__":
    main()
