"""adding: the sum of two marked numbers in a long stream, which only a memory can tell."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_attn.analysis import plot_cell_states, states_over_time
from keras_attn.data.adding import adding_batches
from keras_attn.data.seekable import SeekableBatches
from keras_attn.errors import UserError
from keras_attn.layers import GRU, LSTM, PeepholeLSTM
from keras_attn.recipes.settings import AddingSettings, resolved
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

_EVALUATED = 50  # streams of a batch


class Adding:
    """One recurrent layer and a linear output, trained on the adding problem.

    Args:
        settings: of `settings.AddingSettings`, those that are not to be their defaults.

    Raises:
        UserError: a setting that there is not, or a value that it cannot have.
    """

    name = "adding"
    budget = Budget(steps=6_000)
    clip_norm = 1.0
    validations = 12
    averaged = 0
    prepared_files = ()
    tokenizer_files = ()
    samples = ("0.9 *0.2 0.4 0.1 *0.5 0.3", "*0.1 0.7 0.3 0.8 0.5 *0.9")

    def __init__(self, **settings):
        self.settings = resolved(AddingSettings, settings, "The recipe adding")

    def packages(self, run: RunDirectory) -> Sequence[str]:
        return ()

    def prepare(self, run: RunDirectory) -> None:
        """Nothing: the data are made as they are needed."""

    def build(self, run: RunDirectory) -> keras.Model:
        keras.utils.set_random_seed(self.settings["seed"])
        sequences = keras.Input((None, 2), name="sequences")
        layer = CELLS[self.settings["cell"]](self.settings["units"], name="recurrent")
        total = keras.layers.Dense(1, name="sum")(layer(sequences))
        return keras.Model(sequences, total)

    def batches(self, run: RunDirectory) -> SeekableBatches:
        return adding_batches(
            self.settings["length"], self.settings["batch_size"], self.settings["seed"]
        )

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        return self.batches(run)

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam()

    def learning_rate(self, used: float, step: int) -> float:
        return self.settings["learning_rate"]

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

    def texts_to_show(self, count: int) -> Sequence[str]:
        return self.samples[:count]

    def plot(self, text_model: "AddingModel", texts: Sequence[str | bytes]):
        """The cell states over each stream, its marked numbers beside them."""
        model, streams = text_model.model, [parsed(text) for text in texts]
        cell, total = model.get_layer("recurrent").cell, model.get_layer("sum")
        outputs, memories = zip(*(states_over_time(cell, s) for s in streams), strict=True)
        readings = [total(output).numpy()[:, 0] for output in outputs]
        return plot_cell_states([stream[:, 1] for stream in streams], memories, readings)

    def _squared_error(self, text_model: "AddingModel", seed_offset: int, batches: int = 20):
        seed = self.settings["seed"] + seed_offset
        data = adding_batches(self.settings["length"], _EVALUATED, seed)
        errors = [
            tf.reduce_mean(tf.square(text_model.add(sequences) - sums[:, 0]))
            for sequences, sums in data.take(batches)
        ]
        return float(np.mean(errors))


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

    def answer(self, texts: Iterable[str | bytes]) -> Iterator[str]:
        """The sum for each stream, in order."""
        for text in texts:
            yield f"{float(self.add(parsed(text)[None])[0]):.3f}"


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
