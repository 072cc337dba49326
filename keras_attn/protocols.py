"""What the parts of the library ask of one another, and of yours: the methods, their shapes.

Whatever has the methods is accepted; nothing needs to inherit. Searches, export and serving know a
model by `SequenceModel` alone, an attentional decoder knows its attention by `Attention` and its
cell by `RecurrentCell`. A name that begins with `Supports` is something that a part may have beside
what it must have, and that is used where it is there.

Shapes: B examples, S source and T target tokens, N hypotheses, V ids, N_h heads.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

Tensor = Any
"""A tensor of TensorFlow, eager or in a graph; layers and models also take symbolic ones."""

__all__ = [
    "Attention",
    "Exportable",
    "FeatureModel",
    "LossScaler",
    "RecurrentCell",
    "ScannedCell",
    "SeekableDataset",
    "SequenceModel",
    "StepFunction",
    "SupportsAlignment",
    "SupportsAttentionMaps",
    "SupportsBeam",
    "SupportsCells",
    "SupportsComputeDtype",
    "SupportsDropoutMasks",
    "SupportsDropoutReset",
    "SupportsGrid",
    "SupportsInitialState",
    "SupportsMasksByBlock",
    "SupportsMaxLength",
    "SupportsOutputSize",
    "SupportsSavedStep",
    "SupportsWarmup",
    "Tokenizer",
]


class StepFunction(Protocol):
    """One step of a model that writes, as `keras_attn.decoding` calls it.

    Example:
        >>> from keras_attn.protocols import StepFunction
        >>> def step(tokens, state):  # a chain of two tokens that ignores its past
        ...     return [[0.0, 1.0]] * len(tokens), state
        >>> chosen: StepFunction = step
    """

    def __call__(self, tokens: Tensor, state: Any) -> tuple:
        """Read a token each and say what may follow.

        Args:
            tokens: (N,) int32, the tokens chosen last.
            state: a nest of tensors with the leading dimension N. In a dict, what lies under
                `"memory"` belongs to the example: it is the same for all its hypotheses.

        Returns:
            `(logits, state)` or `(logits, state, attention)`: logits (N, V), the state in the
            structure, shapes and dtypes in which it was given, attention (N, S).
        """


@runtime_checkable
class SequenceModel(Protocol):
    """A model that reads a source once and writes a target token by token.

    `step(·, state)` after `initial_state(encode(inputs))` says the same as a call of the model with
    the whole target.

    Example:
        >>> from keras_attn.protocols import SequenceModel
        >>> from keras_attn.models import RNNSearch
        >>> issubclass(RNNSearch, SequenceModel)
        True
    """

    def encode(self, inputs: Mapping[str, Tensor]) -> Any:
        """What the decoder may look at, a nest of tensors with the leading dimension B.

        Args:
            inputs: the model's inputs by name, without `target`: of a text `source` (B, S) ids and
                `source_lengths` (B,).
        """

    def initial_state(self, memory: Any) -> Any:
        """The state before the first token; in a dict, the memory lies under `"memory"`."""

    def step(self, tokens: Tensor, state: Any) -> tuple:
        """A `StepFunction`: tokens (N,) -> logits (N, V), the next state, attention (N, S).

        A model without attention has None in its place (`SupportsAlignment`).
        """


@runtime_checkable
class SupportsMaxLength(Protocol):
    """A model that can write only so many tokens, as one with caches of a fixed size.

    Attributes:
        max_length: the most tokens.

    Example:
        >>> from keras_attn.models import RNNSearch, Transformer
        >>> [hasattr(model, "max_length") for model in (Transformer, RNNSearch)]
        [True, False]
    """

    max_length: int


@runtime_checkable
class SupportsAlignment(Protocol):
    """A model that says whether its steps return an alignment; others are taken to return one.

    Attributes:
        aligns: False for a model without attention.

    Example:
        >>> from keras_attn.models import RNNEncoderDecoder
        >>> RNNEncoderDecoder.aligns
        False
    """

    aligns: bool


@runtime_checkable
class SupportsAttentionMaps(Protocol):
    """A model that shows the weights of all its heads.

    Example:
        >>> from keras_attn.protocols import SupportsAttentionMaps
        >>> from keras_attn.models import RNNSearch, Transformer
        >>> [issubclass(model, SupportsAttentionMaps) for model in (Transformer, RNNSearch)]
        [True, False]
    """

    def attention_maps(self, inputs: Mapping[str, Tensor]) -> dict[str, list[Tensor]]:
        """The weights (B, N_h, T, S) of every block, by the name of the attention.

        Args:
            inputs: as in a call of the model.
        """


@runtime_checkable
class SupportsGrid(Protocol):
    """A sequence model that reads `images`, and whose attention is over the places of a grid.

    Attributes:
        image_shape: (height, width, channels) of the images, which are in [0, 1].
        grid: (h, w): S = h * w, row by row.

    Example:
        >>> from keras_attn.models import ShowAttendTell
        >>> from keras_attn.protocols import SupportsGrid
        >>> model = ShowAttendTell(9, (8, 8, 1), embedding_dim=8, decoder_units=8,
        ...                        attention_units=8, filters=(4,))
        >>> isinstance(model, SupportsGrid), model.grid
        (True, (4, 4))
    """

    image_shape: tuple[int, int, int]
    grid: tuple[int, int]


class FeatureModel(Protocol):
    """A model whose logits are one product, `features(inputs) @ output_table^T`.

    `keras_attn.training.projected_token_objective` makes loss and gradient of the two together.

    Attributes:
        output_table: float weights (V, d). A model of quantised weights has none and raises
            `ValueError`.

    Example:
        >>> from keras_attn.models import Transformer
        >>> all(hasattr(Transformer, name) for name in ("features", "output_table"))
        True
    """

    output_table: Tensor

    def features(self, inputs: Mapping[str, Tensor], training: bool | None = None) -> Tensor:
        """What the output layer reads of every target token, (B, T, d)."""


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids and back, inside a graph.

    Ids 0 to 3 are padding, start, end and unknown (`keras_attn.text`).

    Attributes:
        vocabulary_size: the number of ids.

    Example:
        >>> from keras_attn.protocols import Tokenizer
        >>> from keras_attn.text import CharacterTokenizer
        >>> isinstance(CharacterTokenizer("0123456789-"), Tokenizer)
        True
    """

    vocabulary_size: int

    def split(self, texts: Tensor) -> Any:
        """The pieces of the texts: (B,) strings -> ragged (B, None) strings."""

    def tokenize(self, texts: Tensor) -> Any:
        """Their ids, without start and end: (B,) strings -> ragged (B, None) int32."""

    def detokenize(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The texts that the first `lengths` ids spell: (B, T), (B,) -> (B,) strings."""

    def pieces(self, ids: Tensor) -> Tensor:
        """What each id stands for, readable: (B, T) integers -> (B, T) strings."""


@runtime_checkable
class Attention(Protocol):
    """An attention that a decoder steps with: the memory is projected once, and read every step.

    Example:
        >>> from keras_attn.protocols import Attention
        >>> from keras_attn.layers import LuongAttention
        >>> isinstance(LuongAttention(), Attention)
        True
    """

    def project_memory(self, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """The keys that `attend` reads, (B, S, units), of a memory (B, S, m)."""

    def attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """`(context (B, m), weights (B, S))` of a query (B, D), keys and the values (B, S, m).

        The mask is boolean (B, S), True = attend.
        """


@runtime_checkable
class RecurrentCell(Protocol):
    """The core of a recurrent network, all that Keras asks of one.

    `call` may take `training` too.

    Attributes:
        state_size: the features of its state, or a nest of those of its states.

    Example:
        >>> from keras_attn.protocols import RecurrentCell
        >>> from keras_attn.layers import GRUCell
        >>> isinstance(GRUCell(4), RecurrentCell)
        True
    """

    state_size: Any

    def call(self, inputs: Tensor, states: Any) -> tuple[Tensor, Any]:
        """One step: inputs (B, D) and states, each (B, size) -> output (B, units), new states."""


@runtime_checkable
class SupportsInitialState(Protocol):
    """A cell that makes its own states before the first step; others begin at 0.

    Example:
        >>> from keras_attn.layers import LSTMCell
        >>> [tuple(state.shape) for state in LSTMCell(4).get_initial_state(2)]
        [(2, 4), (2, 4)]
    """

    def get_initial_state(self, batch_size: Any = None) -> Any:
        """The states, each (B, size)."""


@runtime_checkable
class SupportsOutputSize(Protocol):
    """A cell whose output has other features than its first state.

    Attributes:
        output_size: how many; None for those of the first state.

    Example:
        >>> from keras_attn.layers import GRUCell
        >>> GRUCell(4).output_size
        4
    """

    output_size: int | None


@runtime_checkable
class SupportsComputeDtype(Protocol):
    """A cell with a precision of its own, as every Keras layer has.

    Attributes:
        compute_dtype: the name of the dtype.

    Example:
        >>> from keras_attn.layers import GRUCell
        >>> GRUCell(4, dtype="mixed_bfloat16").compute_dtype
        'bfloat16'
    """

    compute_dtype: str


@runtime_checkable
class SupportsCells(Protocol):
    """A cell that stacks others, as `keras.layers.StackedRNNCells` does.

    Attributes:
        cells: from the inputs upwards.

    Example:
        >>> from keras_attn.protocols import SupportsCells
        >>> from keras.layers import StackedRNNCells
        >>> from keras_attn.layers import GRUCell
        >>> isinstance(StackedRNNCells([GRUCell(4)]), SupportsCells)
        True
    """

    cells: Sequence[RecurrentCell]


@runtime_checkable
class SupportsDropoutReset(Protocol):
    """A cell that drops the same at every step of a sequence, until it is told to forget.

    Example:
        >>> from keras_attn.protocols import SupportsDropoutReset
        >>> from keras_attn.layers import AdditiveAttention, AttentionCell, GRUCell
        >>> isinstance(AttentionCell(GRUCell(4), AdditiveAttention(4)), SupportsDropoutReset)
        True
    """

    def reset_dropout_mask(self) -> None:
        """Forget which inputs are dropped."""

    def reset_recurrent_dropout_mask(self) -> None:
        """Forget which states are dropped."""


@runtime_checkable
class SupportsDropoutMasks(Protocol):
    """A cell whose dropout masks can be drawn before its first step, as those of Keras' cells.

    Example:
        >>> from keras_attn.protocols import SupportsDropoutMasks
        >>> import keras
        >>> isinstance(keras.layers.LSTMCell(4), SupportsDropoutMasks)
        True
    """

    def get_dropout_mask(self, step_input: Tensor) -> Any:
        """Factors of the inputs (B, D): one tensor, or one for each block of the kernel."""

    def get_recurrent_dropout_mask(self, step_input: Tensor) -> Any:
        """Factors of the first state (B, units)."""


@runtime_checkable
class SupportsMasksByBlock(Protocol):
    """A Keras cell that draws a dropout mask for each block of its kernel.

    It has the attribute only where it does so.

    Attributes:
        dropout_mask_count: how many blocks.

    Example:
        >>> from keras_attn.protocols import SupportsMasksByBlock
        >>> from keras_attn.layers import LSTMCell
        >>> [isinstance(LSTMCell(4, recurrent_dropout=rate), SupportsMasksByBlock)
        ...  for rate in (0.0, 0.5)]
        [False, True]
    """

    dropout_mask_count: int


class ScannedCell(RecurrentCell, Protocol):
    """A cell of which a layer takes all steps at once: what our recurrent layers run.

    Beside these methods it has what a Keras cell has.

    Attributes:
        required_states: how many states an `initial_state` must hold at least; the rest is zero.

    Example:
        >>> from keras_attn.layers import GRUCell
        >>> GRUCell(4).required_states
        1
    """

    required_states: int

    def project(self, inputs: Tensor, training: bool | None) -> Tensor:
        """What the inputs add to all blocks: (B, [T,] features) -> (B, [T,] blocks * units)."""

    def step_function(self, states: Sequence[Tensor], training: bool | None) -> Any:
        """A function `(projected, states) -> (output, states)`, its output the first state."""

    def scan(
        self,
        inputs: Tensor,
        states: Sequence[Tensor],
        mask: Tensor | None,
        reverse: bool,
        jit_compile: Any,
        saves: bool,
    ) -> tuple[Tensor, list[Tensor]]:
        """All steps, with the gradient written by hand: outputs (B, T, units), last states."""

    def require_own_form(self, shapes: Sequence) -> None:
        """Raise `ValueError` if weights of these shapes are those of another form of the cell."""


@runtime_checkable
class Exportable(Protocol):
    """What `keras_attn.serving.export` writes.

    Attributes:
        resources: the variables and modules that the functions read.

    Example:
        >>> from keras_attn.serving import TextModel
        >>> all(hasattr(TextModel, name) for name in ("resources", "signatures"))
        True
    """

    resources: Sequence

    def signatures(self) -> dict[str, Any]:
        """`tf.function`s with an input signature, by name."""


@runtime_checkable
class SupportsWarmup(Protocol):
    """An `Exportable` that knows requests for a server to trace before people ask.

    Example:
        >>> from keras_attn.protocols import SupportsWarmup
        >>> from keras_attn.serving import TextModel
        >>> issubclass(TextModel, SupportsWarmup)
        True
    """

    def warmup_requests(self) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """The name of a signature and the values of its inputs, each."""


@runtime_checkable
class SupportsBeam(Protocol):
    """A model that answers by a search, of which another may be asked for.

    Example:
        >>> from keras_attn.protocols import SupportsBeam
        >>> from keras_attn.serving import TextModel
        >>> issubclass(TextModel, SupportsBeam)
        True
    """

    def with_beam(self, beam_width: int, length_penalty: float = 0.0, n_best: int | None = None):
        """The same model with a beam."""


@runtime_checkable
class SeekableDataset(Protocol):
    """A `tf.data.Dataset` of which several workers read their own rows, from any step on.

    Attributes:
        identity: what content and order follow from: numbers by name.

    Example:
        >>> from keras_attn.protocols import SeekableDataset
        >>> from keras_attn.data.adding import adding_batches
        >>> isinstance(adding_batches(length=5, batch_size=2, seed=1), SeekableDataset)
        True
    """

    identity: Mapping[str, float]

    def from_step(self, step: int) -> Any:
        """The whole batches of that step and of those that follow."""

    def parts(self, step: int, index: int, number: int) -> Any:
        """`(rows, first, total, digest)` of what falls to worker `index` of `number`."""


@runtime_checkable
class SupportsSavedStep(Protocol):
    """A callback that keeps checkpoints.

    Attributes:
        saved_step: of the last checkpoint.

    Example:
        >>> from keras_attn.protocols import SupportsSavedStep
        >>> import types
        >>> isinstance(types.SimpleNamespace(saved_step=3), SupportsSavedStep)
        True
    """

    saved_step: int


@runtime_checkable
class LossScaler(Protocol):
    """An optimiser that scales the loss for another one, as Keras' `LossScaleOptimizer`.

    Attributes:
        inner_optimizer: the optimiser that applies the gradients.

    Example:
        >>> from keras_attn.protocols import LossScaler
        >>> import keras
        >>> adam = keras.optimizers.Adam()
        >>> [isinstance(each, LossScaler)
        ...  for each in (adam, keras.optimizers.LossScaleOptimizer(adam))]
        [False, True]
    """

    inner_optimizer: Any

    def scale_loss(self, loss: Any) -> Any:
        """The loss as it is differentiated."""
