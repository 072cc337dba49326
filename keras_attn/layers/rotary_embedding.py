"""Rotary position embedding as a Keras layer."""

import copy

import keras

from keras_attn.ops.angles import (
    exact_dtype,
    require_sequences_of_vectors,
    token_positions,
)
from keras_attn.ops.rotation import require_rotation, rotate, turning_features
from keras_attn.saved import registered


@registered
class RotaryEmbedding(keras.layers.Layer):
    """Turn pairs of features of queries and keys by angles in proportion to their positions.

    The product of a turned query and a turned key depends on the distance of their positions
    alone. See `keras_attn.ops.rotate` for the equation. Angles and rotation are float64 under the
    policy float64, and float32 under every other. The layer has no weights.

    Args:
        base: Wavelengths run from 2 pi to 2 pi base positions. Defaults to `10000.0`.
        convention: `"half_split"` pairs features i and i + d / 2, `"interleaved"` 2i and 2i + 1.
            `keras_attn.ops.permute_features` moves trained projections from one to the other.
            Defaults to `"half_split"`.
        scaling: `None`, or a dict whose `"type"` is `"linear"`, `"ntk"`, `"dynamic"`, `"yarn"`,
            `"llama3"`, `"longrope"` or `"default"`, with the entries that `keras_attn.ops.rotate`
            lists for it. The `rope_scaling` or `rope_parameters` of a configuration of Hugging
            Face's is understood as it is, `rope_theta` in it as `base`. Under `"dynamic"` and
            `"longrope"`, which go by the length of the sequence, keys in a cache keep the
            frequencies of the length at which they were written. Defaults to `None`.
        rotary_dim: Even number of leading features to turn. Defaults to all of them.

    Call arguments:
        inputs: (B, T, d) or (B, T, ..., d), such as (B, T, N, d) for N heads.
        positions: (T,) or (B, T), integers or float32. Defaults to `start_index` and onwards.
        start_index: Position of the first token, a scalar or (B,). Defaults to `0`.

    Returns:
        As `inputs`.

    Raises:
        ValueError: an odd number of features to turn, an unknown convention, an unknown, incomplete
            or contradictory scaling, positions in half precision or of the wrong shape.

    Example:

    >>> import keras
    >>> from keras_attn.layers import RotaryEmbedding
    >>> tuple(RotaryEmbedding()(keras.ops.ones((2, 3, 4, 8)), start_index=5).shape)
    (2, 3, 4, 8)

    Reference:
        Su et al. 2021, "RoFormer", https://arxiv.org/abs/2104.09864
    """

    def __init__(
        self,
        base: float = 10000.0,
        convention: str = "half_split",
        scaling: dict | None = None,
        rotary_dim: int | None = None,
        **kwargs,
    ):
        require_rotation(base, convention, scaling, rotary_dim)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.base = base
        self.convention = convention
        self.scaling = copy.deepcopy(scaling)
        self.rotary_dim = rotary_dim
        self.built = True

    def call(self, inputs, positions=None, start_index=0):
        self.compute_output_shape(inputs.shape)
        if positions is None:
            length = keras.ops.shape(inputs)[1]
            positions = token_positions(length, start_index, exact_dtype(self.compute_dtype))
        if not keras.backend.is_float_dtype(inputs.dtype):
            inputs = keras.ops.cast(inputs, self.compute_dtype)
        return rotate(inputs, positions, self.base, self.convention, self.scaling, self.rotary_dim)

    def compute_output_shape(self, input_shape):
        require_sequences_of_vectors(input_shape)
        if input_shape[-1] is not None:
            turning_features(input_shape[-1], self.rotary_dim)
        return input_shape

    def compute_output_spec(self, *args, **kwargs):
        # From `call`, so that a model is refused while it is built and not when it runs.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "base": self.base,
            "convention": self.convention,
            "scaling": None if self.scaling is None else copy.deepcopy(dict(self.scaling)),
            "rotary_dim": self.rotary_dim,
        }


def rotary_of(rotary, key_dim, dtype):
    """The layer that `rotary` stands for, checked against the features of a head if known."""
    if rotary is None or rotary is False:
        return None
    if isinstance(rotary, dict) and "class_name" in rotary:
        rotary = keras.saving.deserialize_keras_object(rotary)
    elif isinstance(rotary, dict):
        rotary = RotaryEmbedding(**{"dtype": dtype, **rotary})
    elif isinstance(rotary, str):
        rotary = RotaryEmbedding(convention=rotary, dtype=dtype)
    elif rotary is True:
        rotary = RotaryEmbedding(dtype=dtype)
    if not isinstance(rotary, RotaryEmbedding):
        raise ValueError(
            "`rotary` must be None, True, a convention, a dict of RotaryEmbedding's arguments or a "
            f"RotaryEmbedding. Received: rotary={rotary!r}"
        )
    if key_dim is None:
        return rotary
    if key_dim % 2 if rotary.rotary_dim is None else rotary.rotary_dim > key_dim:
        raise ValueError(
            "Rotary positions need an even `key_dim`, or a `rotary_dim` of at most `key_dim`. "
            f"Received: key_dim={key_dim}, rotary_dim={rotary.rotary_dim}"
        )
    return rotary
