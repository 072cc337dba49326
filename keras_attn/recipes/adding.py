"""adding: the sum of two marked numbers in a long stream, which only a memory can tell."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict

import keras
import numpy as np
import tensorflow as tf

from keras_attn.analysis import plot_cell_states, states_over_time
from keras_attn.data.adding import adding_batches
from keras_attn.data.seekable import SeekableBatches
from keras_attn.errors import UserError
from keras_attn.layers import GRU, LSTM, PeepholeLSTM
from keras_attn.recipes.adding_settings import AddingSettings
from keras_attn.recipes.settings import made
from keras_attn.serving.answers import Answer, Search
from keras_attn.training import (
    NO_LIMITS,
    Budget,
    RunDirectory,
    ValidationLimits,
    squared_error_objective,
)

CELLS = {
    "lstm": LSTM,
    "lstm-forgetful": lambda units, **options: LSTM(units, unit_forget_bias=False, **options),
    "peephole": PeepholeLSTM,
    "gru": GRU,
    "rnn": keras.layers.SimpleRNN,
}
"""Recurrent layers by name; the forgetful LSTM starts with a forget bias of 0."""


class Adding:
    """One recurrent layer and a linear output, trained on the adding problem.

    Args:
        settings: those of `AddingSettings`, by name.

    Raises:
        UserError: an unknown setting or cell, or a number out of its bounds.
    """

    name = "adding"
    budget = Budget(steps=AddingSettings.default_steps)
    averaged = 0
    prepared_files = ()
    vocabulary_files = ()
    samples = ("0.9 *0.2 0.4 0.1 *0.5 0.3", "*0.1 0.7 0.3 0.8 0.5 *0.9")
    test_data = "1,000 streams that were drawn for this alone."

    def __init__(self, **settings):
        self._settings = made(AddingSettings, settings, "The recipe adding")
        self.settings = asdict(self._settings)
        self.clip_norm = self._settings.clip_norm
        self.validations = self._settings.validations

    def packages(self, run: RunDirectory) -> Sequence[str]:
        return ()

    def prepare(self, run: RunDirectory) -> None:
        """Nothing: the data are made as they are needed."""

    def build(self, run: RunDirectory) -> keras.Model:
        keras.utils.set_random_seed(self._settings.seed)
        sequences = keras.Input((None, 2), name="sequences")
        layer = CELLS[self._settings.cell](self._settings.units, name="recurrent")
        total = keras.layers.Dense(1, name="sum")(layer(sequences))
        return keras.Model(sequences, total)

    def batches(self, run: RunDirectory) -> SeekableBatches:
        return adding_batches(self._settings.length, self._settings.batch_size, self._settings.seed)

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        return self.batches(run)

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam()

    def learning_rate(self, used: float, step: int) -> float:
        return self._settings.learning_rate

    def objective(self) -> Callable:
        return squared_error_objective()

    def text_model(self, model: keras.Model, run: RunDirectory) -> "AddingModel":
        return AddingModel(model)

    def validate(
        self, text_model: "AddingModel", limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """It takes a second, whatever the limits."""
        error = self._squared_error(text_model, seed_offset=1)
        # Higher is better, for a run keeps its best checkpoint by the first metric.
        return {"negative_squared_error": -error}

    def evaluate(self, text_model: "AddingModel") -> dict[str, float]:
        """The mean squared error on streams never trained on; always answering 1 has 0.167."""
        return {"squared_error": self._squared_error(text_model, seed_offset=2)}

    def score(self, answers: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """The mean squared error of sums as text."""
        errors = [
            (_number(answer) - _number(reference)) ** 2
            for answer, reference in zip(answers, references, strict=True)
        ]
        return {"squared_error": float(np.mean(errors))}

    def validation_texts(self, count: int | None = None) -> tuple[list[str], list[str]]:
        """Streams as text and their sums."""
        streams, sums = [], []
        for sequences, totals in self._streams(seed_offset=1):
            streams += [_spelled(sequence) for sequence in sequences.numpy()]
            sums += [f"{total:.3f}" for total in totals.numpy()[:, 0]]
        return streams[:count], sums[:count]

    def plot(self, text_model: "AddingModel", texts: Sequence[str | bytes]):
        """The cell states over each stream, its marked numbers beside them."""
        model, streams = text_model.model, [parsed(text) for text in texts]
        cell, total = model.get_layer("recurrent").cell, model.get_layer("sum")
        outputs, memories = zip(*(states_over_time(cell, s) for s in streams), strict=True)
        readings = [total(output).numpy()[:, 0] for output in outputs]
        return plot_cell_states([stream[:, 1] for stream in streams], memories, readings)

    def _squared_error(self, text_model: "AddingModel", seed_offset: int):
        errors = [
            tf.reduce_mean(tf.square(text_model.add(sequences) - sums[:, 0]))
            for sequences, sums in self._streams(seed_offset)
        ]
        return float(np.mean(errors))

    def _streams(self, seed_offset: int) -> SeekableBatches:
        """Batches that are not those of the training: 1,000 streams."""
        seed = self._settings.seed + seed_offset
        return adding_batches(self._settings.length, 50, seed).take(20)


class AddingModel:
    """A trained model that reads streams as text, `0.9 *0.2 0.4 *0.5`, and as numbers.

    Args:
        model: from sequences (B, T, 2), numbers and markers, to sums (B, 1).
    """

    def __init__(self, model: keras.Model):
        self.model = model
        spec = tf.TensorSpec([None, None, 2], tf.float32, name="sequences")
        self.add = tf.function(lambda sequences: model(sequences)[:, 0], input_signature=[spec])
        self._signature = tf.function(
            lambda sequences: {"sum": self.add(sequences)}, input_signature=[spec]
        )

    @property
    def resources(self) -> list[tf.Variable]:
        return [variable.value for variable in self.model.variables]

    def signatures(self) -> dict:
        """What an exported model answers: `serving_default`, from `sequences` to their `sum`."""
        return {"serving_default": self._signature}

    def warm_up(self) -> None:
        """Compile what answers."""
        self.add(parsed("0.1 *0.2")[None])

    def with_search(self, search: Search) -> "AddingModel":
        """Itself, for greedy search, which is none; there is one answer."""
        if not search.is_greedy:
            raise UserError(
                "The recipe adding searches nothing; leave the options of the search out, such as "
                "--beam-width."
            )
        return self

    def answer(self, texts: Iterable[str | bytes], batch_size: int = 64) -> Iterator[str]:
        """The sum for each stream, in order; nothing for no number."""
        del batch_size  # streams are of any length, and are read one by one
        for text in texts:
            stream = parsed(text)
            yield f"{float(self.add(stream[None])[0]):.3f}" if len(stream) else ""

    def answers(self, texts: Sequence[str | bytes]) -> list[Answer]:
        """The sums, which have no score."""
        return [Answer((text,)) for text in self.answer(texts)]


def parsed(text: str | bytes) -> np.ndarray:
    """A stream as text, numbers between spaces and the marked ones behind a star: (T, 2).

    Raises:
        UserError: what is not a number.
    """
    words = (text.decode(errors="replace") if isinstance(text, bytes) else text).split()
    try:
        rows = [(float(word.removeprefix("*")), float(word.startswith("*"))) for word in words]
    except ValueError as error:
        raise UserError(
            "A stream is numbers between spaces, the marked ones behind a star, as in "
            f"'0.9 *0.2 0.4 *0.5'. Received: {' '.join(words)!r}."
        ) from error
    return np.array(rows, np.float32).reshape(-1, 2)


def _spelled(stream: np.ndarray) -> str:
    """A stream (T, 2) as `parsed` reads it."""
    return " ".join(f"{'*' if marked else ''}{number:.3f}" for number, marked in stream)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UserError(f"A sum is a number. Received: {text!r}.") from error
