"""What our training steps gain over others, in real target tokens a second.

    KERAS_ATTN_DATA=... python benchmarks/training.py --model transformer [--profile]
    KERAS_ATTN_DATA=... python benchmarks/training.py --model rnnsearch

transformer: the recipe `multi30k-pieces` against the same model in KerasHub's blocks, whose
attention is Keras' MHA, trained with the plain loss, and in PyTorch's nn.Transformer. All see the
same batches, by length.

rnnsearch: the recipe `multi30k-rnnsearch` against a naive loop: sentences as they come, every batch
padded to its longest, logits for the padding too, embedding and output layer apart and not tied,
every gradient by TensorFlow's autodiff. Both see the same sentences and have layers of the same
widths.

The contenders run in turn, `--rounds` times so many seconds each; the table has medians. They keep
the memory that they free, as `keras-attn train` does; kept_memory.py says what it gains. "torch" is
PyTorch in a process of its own, which hands memory back as a user's does.
"""

import argparse
import contextlib
import functools
import itertools
import multiprocessing
import statistics
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from one_device_step import one_device_step
from report import write_result
from step_profile import kernel_times
from training_rivals import keras_hub_blocks, torch_transformer

from keras_attn.data.pair_store import PairStore, Sequences
from keras_attn.data.sequence_pairs import model_batch
from keras_attn.kept_memory import keep_freed_memory
from keras_attn.layers import AttentionRNN
from keras_attn.layers.recurrent_layer import RecurrentLayer
from keras_attn.models import RNNSearch
from keras_attn.recipes import make_recipe
from keras_attn.training import (
    RunDirectory,
    projected_token_objective,
    token_objective,
)

NAIVE_SENTENCES = 64
TARGETS = {
    "rnnsearch": "target: ours at least 2.5 times the naive loop",
    "transformer": "target: ours at least 1.2 times KerasHub, 1.7 times torch",
}


def naive_batches(store: PairStore) -> tf.data.Dataset:
    """Batches of sentences in the order of the file, padded to the longest."""
    blocks = zip(*map(store.block, range(store.number_of_blocks)), strict=True)
    sources, targets = (_ragged(Sequences.concatenated(side)) for side in blocks)
    rows = tf.data.Dataset.range(len(store)).batch(NAIVE_SENTENCES, drop_remainder=True)
    return rows.map(lambda r: model_batch(tf.gather(sources, r), tf.gather(targets, r))).repeat()


def _ragged(side) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(side.ids, side.lengths)


class Contender:
    """A training step and its batches, timed in slices."""

    def __init__(self, step, batches):
        self._step = step
        self._batches = iter(batches)
        self.speeds = []
        self.padding = []
        for batch in itertools.islice(self._batches, 3):
            self._step(batch)

    @classmethod
    def of_model(cls, model, objective, batches) -> "Contender":
        optimizer = keras.optimizers.Adam(1e-3)
        return cls(one_device_step(model, optimizer, objective, 1.0, batches.element_spec), batches)

    def run(self, seconds: float) -> None:
        """Train for so long and note the real target tokens a second."""
        tokens, started = 0.0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            batch = next(self._batches)
            _, count = self._step(batch)
            tokens += float(count)
            self.padding.append(1 - float(count) / batch[1].shape[0] / batch[1].shape[1])
        self.speeds.append(tokens / (time.perf_counter() - started))

    def profile(self) -> dict[str, float]:
        """Milliseconds of each kind of kernel for a step."""
        times = kernel_times(lambda: self._step(next(self._batches)), 10)
        return {name: round(time, 2) for name, time in itertools.islice(times.items(), 25)}


class ContenderApart:
    """A contender in a process of its own, whose memory is managed as a user's is."""

    def __init__(self, make):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        context.Process(target=_run_apart, args=(theirs, make), daemon=True).start()
        self.speeds = []
        self.padding = []
        self._connection.recv()  # when it is warm

    def run(self, seconds: float) -> None:
        """Have it train for so long and note the real target tokens a second."""
        self._connection.send(seconds)
        speed, padding = self._connection.recv()
        self.speeds.append(speed)
        self.padding.append(padding)


def _run_apart(connection, make) -> None:
    contender = make()
    connection.send("warm")
    with contextlib.suppress(EOFError):  # when the benchmark is done
        while True:
            contender.run(connection.recv())
            connection.send((contender.speeds[-1], np.mean(contender.padding)))


def without_own_gradients(model: RNNSearch) -> RNNSearch:
    """The same model with every recurrent loop differentiated by TensorFlow."""
    for layer in model._flatten_layers():
        if isinstance(layer, AttentionRNN | RecurrentLayer):
            layer.has_own_gradient = lambda *_, **__: False
    return model


def rnn_search_contenders(run: RunDirectory) -> dict[str, Contender]:
    recipe = make_recipe("multi30k-rnnsearch")
    recipe.prepare(run)
    store = PairStore(run.path / "pairs.bin")
    ours = recipe.build(run)
    settings = {**ours.settings, "tie_embeddings": False, "share_embeddings": False}
    naive = without_own_gradients(RNNSearch(**settings))
    fast, plain = projected_token_objective(0.1), token_objective(0.1)
    return {
        "ours": Contender.of_model(ours, fast, recipe.batches(run)),
        "naive": Contender.of_model(naive, plain, naive_batches(store)),
        "ours, autodiff loops": Contender.of_model(
            without_own_gradients(RNNSearch(**ours.settings)), fast, recipe.batches(run)
        ),
    }


def transformer_contenders(run: RunDirectory) -> dict[str, Contender]:
    """Ours, ours with the plain loss, and those of the other libraries that are installed."""
    recipe = transformer_recipe(run)
    batches, ours = recipe.batches(run), recipe.build(run)
    contenders = {
        "ours": Contender.of_model(ours, projected_token_objective(0.1), batches),
        "ours, plain loss": Contender.of_model(recipe.build(run), token_objective(0.1), batches),
    }
    rivals = {
        "KerasHub": functools.partial(rival, keras_hub_blocks, run),
        "torch, freed memory kept": functools.partial(rival, torch_transformer, run),
        "torch": lambda: ContenderApart(functools.partial(rival, torch_transformer, run)),
    }
    for name, make in rivals.items():
        try:
            contenders[name] = make()
        except ImportError as error:
            print(f"{name} is not run: {error}")
        except EOFError:
            print(f"{name} is not run: its process ended, see above")
    return contenders


def transformer_recipe(run: RunDirectory):
    recipe = make_recipe("multi30k-pieces", model="transformer")
    recipe.prepare(run)
    return recipe


def rival(make_step, run: RunDirectory) -> Contender:
    """The model of another library, built in this process."""
    recipe = transformer_recipe(run)
    batches = recipe.batches(run)
    return Contender(make_step(recipe.build(run).settings, batches.element_spec), batches)


CONTENDERS = {"rnnsearch": rnn_search_contenders, "transformer": transformer_contenders}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=CONTENDERS, default="transformer")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="say where the time of ours goes")
    parser.add_argument("--try-out", action="store_true", help="write no result")
    arguments = parser.parse_args()
    memory_is_kept = keep_freed_memory()
    with tempfile.TemporaryDirectory() as directory:
        contenders = CONTENDERS[arguments.model](RunDirectory(directory))
        for _ in range(arguments.rounds):
            for contender in contenders.values():
                contender.run(arguments.seconds)
        profile = contenders["ours"].profile() if arguments.profile else None
    speeds = {name: statistics.median(each.speeds) for name, each in contenders.items()}
    figures = {
        name: {
            "real_target_tokens_per_second": round(speeds[name]),
            "ours over it": round(speeds["ours"] / speeds[name], 2),
            "target_padding": round(float(np.mean(contenders[name].padding)), 3),
        }
        for name in contenders
    }
    figures["freed memory kept"] = memory_is_kept
    if profile:
        figures["milliseconds of a step of ours, summed over threads, by kernel"] = profile
    for name, row in figures.items():
        print(name, row)
    if not arguments.try_out:
        name = {"rnnsearch": "training", "transformer": "training_transformer"}[arguments.model]
        write_result(name, figures, TARGETS[arguments.model])


if __name__ == "__main__":
    main()
