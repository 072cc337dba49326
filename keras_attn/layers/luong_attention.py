"""Multiplicative attention (Luong et al. 2015) as a Keras layer."""

import keras
from keras import constraints, initializers, ops, regularizers

from keras_attn._upstream import own_precision
from keras_attn.checks import require_choice, require_rate
from keras_attn.layers import single_head
from keras_attn.ops import masks
from keras_attn.ops.additive_attention import project
from keras_attn.ops.attention import dot_product_attention
from keras_attn.saved import registered

SCORES = ("dot", "general", "scaled")


@registered
class LuongAttention(keras.layers.Layer):
    """Attention whose score is a product of the query and the key.

    `a_t = softmax(e_t)`, `c_t = sum_s a_ts value_s` with the score

    - `"dot"`: `e_ts = q_t . k_s`, for queries and keys of one size, without weights;
    - `"general"`: `e_ts = q_t . (W k_s)`, weight `key_kernel` (Dk, Dq);
    - `"scaled"`: `e_ts = g q_t . (W k_s)`, a further weight `score_scale` (), as in TensorFlow
      Addons' `LuongAttention(scale=True)`.

    A query with no key left gets weights and a context of exactly 0. A recurrent decoder projects
    the memory once with `project_memory` and calls `attend` at each step.

    Args:
        score: `"dot"`, `"general"` or `"scaled"`. Defaults to `"general"`.
        kernel_initializer: Initializer of the kernel. Defaults to `"glorot_uniform"`.
        kernel_regularizer: Regularizer of the kernel. Defaults to `None`.
        kernel_constraint: Constraint of the kernel. Defaults to `None`.
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
        ValueError: an unknown score; `"dot"` with queries and keys of different sizes; a dropout
            outside [0, 1); inputs that do not go together; a mask that is not boolean or does not
            fit.

    Example:

    >>> import keras
    >>> from keras_attn.layers import LuongAttention
    >>> layer = LuongAttention("general")
    >>> query, memory = keras.ops.ones((2, 3, 4)), keras.ops.ones((2, 5, 6))
    >>> tuple(layer(query, memory).shape)
    (2, 3, 6)
    >>> context, weights = layer.attend(query[:, 0], layer.project_memory(memory), memory)
    >>> tuple(context.shape), tuple(weights.shape)
    ((2, 6), (2, 5))

    Reference:
        Luong, Pham, Manning 2015, "Effective approaches to attention-based neural machine
        translation", https://arxiv.org/abs/1508.04025
    """

    def __init__(
        self,
        score: str = "general",
        kernel_initializer="glorot_uniform",
        kernel_regularizer=None,
        kernel_constraint=None,
        *,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs,
    ):
        require_choice("score", score, SCORES)
        dropout = require_rate("dropout", dropout)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.score = score
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
        self.key_kernel = self.score_scale = None
        if self.score == "dot":
            _require_one_size(query_shape, key_shape)
        else:
            self.key_kernel = self.add_weight(
                name="key_kernel",
                shape=(key_shape[-1], query_shape[-1]),
                initializer=self.kernel_initializer,
                regularizer=self.kernel_regularizer,
                constraint=self.kernel_constraint,
            )
        if self.score == "scaled":
            self.score_scale = self.add_weight(name="score_scale", shape=(), initializer="ones")
        self.built = True

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
            mask: Boolean (B, S), or None. Positions that do not exist are cleared first.

        Returns:
            Keys (B, S, Dq).
        """
        memory = masks.clear_padding(ops.cast(memory, self.compute_dtype), mask)
        if self.key_kernel is None:
            return memory
        with own_precision(self):
            return project(memory, self.key_kernel)

    def attend(self, query, keys, values, mask=None, training=None):
        """Attend with projected keys, for one query an example or for several.

        Args:
            query: (B, Dq), or (B|1, T, Dq).
            keys: (B, S, Dq) from `project_memory`.
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
        context, weights = dot_product_attention(
            ops.cast(query, self.compute_dtype)[:, :, None],  # (B, T, 1, Dq)
            ops.cast(keys, self.compute_dtype)[:, :, None],
            ops.cast(values, self.compute_dtype)[:, :, None],
            mask,
            causal,
            scale=1.0 if self.score_scale is None else self.score_scale,
            return_weights=True,
            **single_head.dropout_of_call(self, training),
        )
        return context[:, :, 0], weights[:, 0]

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        single_head.require_inputs(self, query_shape, value_shape, key_shape)
        if self.score == "dot":
            _require_one_size(query_shape, value_shape if key_shape is None else key_shape)
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
            "score": self.score,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "dropout": self.dropout,
            "seed": self.seed,
        }


def _require_one_size(query_shape, key_shape):
    if query_shape[-1] != key_shape[-1]:
        raise ValueError(
            "The score 'dot' needs queries and keys of one size; 'general' does not. Received: "
            f"query_shape={tuple(query_shape)}, key_shape={tuple(key_shape)}"
        )
