"""Learned positions as a Keras layer."""

import keras
from keras import ops

from keras_attn.checks import require_size
from keras_attn.ops.angles import (
    along_axis_1,
    require_positions,
    require_sequences_of_vectors,
    token_positions,
)
from keras_attn.ops.position_table import position_rows
from keras_attn.saved import registered


@registered
class PositionEmbedding(keras.layers.Layer):
    """A learned vector for each position, to be added to embedded tokens.

    `output[b, t] = embeddings[position of token t]`. The layer returns the vectors alone. Its only
    weight is `embeddings` (max_length, dim).

    Args:
        max_length: Number of positions that have a vector, 0 to `max_length - 1`.
        embeddings_initializer: Initializer of the table. Defaults to `"glorot_uniform"`.
        embeddings_regularizer: Regularizer of the table. Defaults to `None`.
        embeddings_constraint: Constraint of the table. Defaults to `None`.

    Call arguments:
        inputs: (B, T, dim) or (B, T, ..., dim), of which only the shape is used. Positions run
            along axis 1; all entries of the axes between have the position of their row.
        positions: (T,) or (B, T), integers. Defaults to `start_index` and onwards.
        start_index: Position of the first token, an integer or integers (B,). Defaults to `0`.

    Returns:
        Vectors of the shape of `inputs` in the layer's compute dtype.

    Raises:
        ValueError: a `max_length` that is not positive, positions that are no integers, of the
            wrong shape, or outside the table. In a graph, where they may be unknown, positions
            outside the table stop the run with an error; XLA, which has no such stop, takes another
            row of the table for them.

    Example:

    >>> import keras
    >>> from keras_attn.layers import PositionEmbedding
    >>> tokens = keras.ops.ones((2, 3, 8))
    >>> tuple((tokens + PositionEmbedding(max_length=16)(tokens)).shape)
    (2, 3, 8)

    References:
        Gehring et al. 2017, "Convolutional sequence to sequence learning", section 3.1,
            https://arxiv.org/abs/1705.03122
        Devlin et al. 2018, "BERT", https://arxiv.org/abs/1810.04805
    """

    def __init__(
        self,
        max_length: int,
        embeddings_initializer="glorot_uniform",
        embeddings_regularizer=None,
        embeddings_constraint=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.max_length = require_size("max_length", max_length)
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)
        self.embeddings_regularizer = keras.regularizers.get(embeddings_regularizer)
        self.embeddings_constraint = keras.constraints.get(embeddings_constraint)

    def build(self, inputs_shape):
        if inputs_shape[-1] is None:
            raise ValueError(
                "A table of positions needs to know the number of features. "
                f"Received: inputs.shape={tuple(inputs_shape)}"
            )
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_length, inputs_shape[-1]),
            initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
        )

    def call(self, inputs, positions=None, start_index=0):
        self._require_features(inputs.shape)
        if positions is None:
            positions = token_positions(ops.shape(inputs)[1], start_index)
        require_positions(inputs.shape, positions, "inputs")
        rows = position_rows(self.embeddings, positions)  # (T, dim) or (B, T, dim)
        rows = along_axis_1(ops.cast(rows, self.compute_dtype), len(inputs.shape))
        return ops.broadcast_to(rows, ops.shape(inputs))

    def _require_features(self, input_shape):
        require_sequences_of_vectors(input_shape)
        if self.built and input_shape[-1] != self.embeddings.shape[-1]:
            raise ValueError(
                f"The table was built for {self.embeddings.shape[-1]} features. "
                f"Received: inputs.shape={tuple(input_shape)}"
            )

    def compute_output_shape(self, input_shape):
        self._require_features(input_shape)
        if input_shape[1] is not None and input_shape[1] > self.max_length:
            raise ValueError(
                f"The table has {self.max_length} positions: raise `max_length` or shorten the "
                f"sequences. Received: inputs.shape={tuple(input_shape)}"
            )
        return input_shape

    def compute_output_spec(self, *args, **kwargs):
        # From `call`, so that a model is refused while it is built and not when it runs.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "max_length": self.max_length,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
            "embeddings_regularizer": keras.regularizers.serialize(self.embeddings_regularizer),
            "embeddings_constraint": keras.constraints.serialize(self.embeddings_constraint),
        }
