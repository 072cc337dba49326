"""Additive attention (Bahdanau et al. 2014) as a Keras layer."""

import keras
import numpy as np
from keras import constraints, initializers, ops, regularizers

from keras_attn._upstream import own_precision
from keras_attn.checks import require_rate, require_size
from keras_attn.layers import single_head
from keras_attn.ops import masks
from keras_attn.ops.additive_attention import additive_attention, project
from keras_attn.saved import registered


@registered
class AdditiveAttention(keras.layers.Layer):
    """Attention whose score is a network with one hidden layer.

    `e_ts = v . tanh(W_q q_t + W_k k_s [+ b])`, `a_t = softmax(e_t)`, `c_t = sum_s a_ts value_s`.
    With `normalize=True` the vector `v` is replaced by `g v / |v|` and the bias is always there, as
    in TensorFlow Addons' `BahdanauAttention(normalize=True)`. A query with no key left gets
    weights and a context of exactly 0.

    The weights are `query_kernel` (Dq, units), `key_kernel` (Dk, units), `score_vector` (units,)
    [, `bias` (units,)] [, `score_scale` ()].

    A call holds (B, T, S, units) numbers: 64 examples of 50 queries, 50 keys and 512 units take
    328 MB in float32. A recurrent decoder does not call the layer, it projects the memory once with
    `project_memory` and calls `attend` at each step, which holds (B, S, units).

    Args:
        units: Positive integer, the width of the hidden layer.
        use_bias: Whether the hidden layer has a bias. Defaults to `False`.
        normalize: Whether the score vector is normalised and scaled. Defaults to `False`.
        kernel_initializer: Initializer of both kernels and the score vector. Defaults to
            `"glorot_uniform"`. The paper draws the kernels with a deviation of 0.001 and starts
            `v` at zero.
        kernel_regularizer: Regularizer of both kernels. Defaults to `None`.
        kernel_constraint: Constraint of both kernels. Defaults to `None`.
        dropout: Probability that a weight is dropped in training. Defaults to `0.0`.
        seed: Seed of the dropout. Defaults to `None`.

    Call arguments:
        query: (B|1, T, Dq).
        value: (B, S, Dv).
        key: (B, S, Dk). Defaults to `value`.
        query_mask: Boolean (B, T): queries that exist; the others get a context of 0. Taken from
            the Keras mask of `query` if not given.
        value_mask: Boolean (B, S), in the same way.
        key_mask: Boolean (B, S), in the same way.
        attention_mask: Boolean (T, S) or (B|1, T, S), True where a query may attend.
        return_attention_scores: Whether to return the weights too, before dropout. Defaults to
            `False`.
        training: Whether to apply dropout.
        use_causal_mask: Whether query t sees keys up to t + S - T only. Defaults to `False`.

    Returns:
        Contexts (B, T, Dv) [, weights (B, T, S)].

    Raises:
        ValueError: `units` is not a positive integer; the dropout lies outside [0, 1); inputs do
            not go together; a mask is not boolean or does not fit.

    Example:

    >>> import keras
    >>> from keras_attn.layers import AdditiveAttention
    >>> layer = AdditiveAttention(8)
    >>> context, weights = layer(
    ...     keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6)), return_attention_scores=True
    ... )
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 3, 6), (2, 3, 5))

    Step by step, as a decoder does:

    >>> memory = keras.ops.ones((2, 5, 6))
    >>> keys = layer.project_memory(memory)
    >>> context, weights = layer.attend(keras.ops.ones((2, 4)), keys, memory)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 6), (2, 5))

    Reference:
        Bahdanau, Cho, Bengio 2014, "Neural machine translation by jointly learning to align and
        translate", https://arxiv.org/abs/1409.0473
    """

    def __init__(
        self,
        units: int,
        use_bias: bool = False,
        normalize: bool = False,
        kernel_initializer="glorot_uniform",
        kernel_regularizer=None,
        kernel_constraint=None,
        *,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        units, dropout = require_size("units", units), require_rate("dropout", dropout)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.units = units
        self.use_bias = use_bias
        self.normalize = normalize
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.dropout = dropout
        self.seed = seed
        if dropout:
            self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        single_head.require_inputs(self, query_shape, value_shape, key_shape)
        self.features = {"query": query_shape[-1], "key": key_shape[-1]}
        self.query_kernel = self._add_kernel("query_kernel", query_shape[-1])
        self.key_kernel = self._add_kernel("key_kernel", key_shape[-1])
        self.score_vector = self.add_weight(
            name="score_vector", shape=(self.units,), initializer=self.kernel_initializer
        )
        self.bias = self.score_scale = None
        if self.use_bias or self.normalize:
            self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        if self.normalize:
            self.score_scale = self.add_weight(
                name="score_scale",
                shape=(),
                # A NumPy number, for Keras rounds those of Python to float32 on the way.
                initializer=initializers.Constant(np.float64(self.units**-0.5)),
            )
        self.built = True

    def _add_kernel(self, name, features):
        return self.add_weight(
            name=name,
            shape=(features, self.units),
            initializer=initializers.get(initializers.serialize(self.kernel_initializer)),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        context, weights = single_head.call(
            self, query, value, key, query_mask, value_mask, key_mask, attention_mask,
            use_causal_mask, training,
        )  # fmt: skip
        return (context, weights) if return_attention_scores else context

    def project_memory(self, memory, mask=None):
        """Project a memory to the keys that `attend` takes, once for all steps.

        Args:
            memory: (B, S, Dk).
            mask: Boolean (B, S), or None. Positions that do not exist are cleared first, so that
                not even a NaN there reaches the gradient of the kernel.

        Returns:
            Keys (B, S, units).
        """
        memory = masks.clear_padding(ops.cast(memory, self.compute_dtype), mask)
        with own_precision(self):
            return project(memory, self.key_kernel)

    def attend(self, query, keys, values, mask=None, training=None):
        """Attend with projected keys, for one query an example or for several.

        Args:
            query: (B, Dq), or (B|1, T, Dq).
            keys: (B, S, units) from `project_memory`.
            values: (B, S, Dv), the memory itself as a rule.
            mask: Boolean (B, S), True where a query may attend; with T queries also (B|1, T, S).
            training: Whether to apply dropout.

        Returns:
            Contexts and weights: (B, Dv) and (B, S), or (B, T, Dv) and (B, T, S).
        """
        with own_precision(self):
            return single_head.attend_step_or_sequence(
                self._attend, query, keys, values, mask, training
            )

    def _attend(self, query, keys, values, mask=None, training=None, causal=False):
        return additive_attention(
            project(ops.cast(query, self.compute_dtype), self.query_kernel),
            ops.cast(keys, self.compute_dtype),
            ops.cast(values, self.compute_dtype),
            self.score_vector,
            bias=self.bias,
            score_scale=self.score_scale,
            mask=mask,
            causal=causal,
            **single_head.dropout_of_call(self, training),
        )

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        single_head.require_inputs(self, query_shape, value_shape, key_shape)
        return single_head.output_shapes(query_shape, value_shape)[0]

    def compute_output_spec(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        all_masks = query_mask, value_mask, key_mask, attention_mask
        return single_head.output_spec(self, query, value, key, all_masks, return_attention_scores)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "normalize": self.normalize,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "dropout": self.dropout,
            "seed": self.seed,
        }
