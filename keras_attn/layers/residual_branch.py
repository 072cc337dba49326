"""Normalisation, dropout and addition around a sublayer of a Transformer block."""

import keras

from keras_attn.layers.fast_parts import Dropout, LayerNormalization

NORMALIZATIONS = {
    "layer": LayerNormalization,
    "rms": keras.layers.RMSNormalization,
}


def require_normalization(normalization):
    """Raise `ValueError` unless `normalization` is known."""
    if normalization not in NORMALIZATIONS:
        raise ValueError(
            f"`normalization` must be one of {tuple(NORMALIZATIONS)}. "
            f"Received: normalization={normalization!r}"
        )


class ResidualBranch(keras.layers.Layer):
    """The two halves of a residual connection, before and after its sublayer F.

    Post-norm, as published: `Norm(x + Dropout(F(x)))`. Pre-norm: `x + Dropout(F(Norm(x)))`.

    Args:
        normalization: `"layer"` or `"rms"`.
        normalize_first: whether to normalise before the sublayer.
        epsilon: added to the variance.
        dropout: probability that a feature of F is dropped in training.
        seed: of the dropout.
    """

    def __init__(self, normalization, normalize_first, epsilon, dropout, seed, **kwargs):
        super().__init__(**kwargs)
        self.normalize_first = normalize_first
        self._norm = NORMALIZATIONS[normalization](
            epsilon=epsilon, name="norm", dtype=self.dtype_policy
        )
        self._dropout = Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, input_shape):
        self._norm.build(input_shape)
        self.built = True

    def enter(self, inputs):
        """What the sublayer is given."""
        return self._norm(inputs) if self.normalize_first else inputs

    def leave(self, inputs, outputs, training=None):
        """The input of the branch and the output of its sublayer, added."""
        total = inputs + self._dropout(outputs, training=training)
        return total if self.normalize_first else self._norm(total)
