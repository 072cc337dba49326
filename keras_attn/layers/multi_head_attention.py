"""Multi-head attention with grouped heads, rotary positions, a window and a cache."""

import keras
from keras import constraints, initializers, ops, regularizers

from keras_attn.layers import attention_axes as axes_of
from keras_attn.layers import attention_settings as settings
from keras_attn.layers.attention_checks import (
    require_call,
    require_inputs,
    require_projectable,
    require_projected_memory,
)
from keras_attn.layers.head_projection import head_projection
from keras_attn.layers.quantized import plain_policy, quantized_dtype
from keras_attn.layers.rotary_embedding import rotary_of
from keras_attn.layers.single_row import project_row
from keras_attn.ops import cache as kv_cache
from keras_attn.ops import masks
from keras_attn.ops.angles import token_positions
from keras_attn.ops.attention import dot_product_attention, require_method
from keras_attn.ops.attention_shapes import scores_shape
from keras_attn.saved import registered


@registered
class MultiHeadAttention(keras.layers.Layer):
    """Attention of several heads, each with its own projections.

    `head_i = softmax(Q W_i^Q (K W_i^K)^T / sqrt(key_dim)) V W_i^V`, the heads are concatenated and
    projected by `W^O`. The arguments stand in Keras' order, and the weights have the order, shapes
    and names of `keras.layers.MultiHeadAttention` and, with `num_key_value_heads`, of
    `keras.layers.GroupQueryAttention`: `set_weights` takes theirs, and so does `load_weights` where
    the file has the layer under the same name (in functional models that of its class). The
    projections are `query_dense`, `key_dense`, `value_dense` and `output_dense`.

    A query with no key left, or masked itself, gets weights and an output of exactly 0, without
    the output bias. A key hidden from every query has no influence whatever it holds.

    Masks. `query_mask`, `value_mask` and `key_mask` are taken from the Keras masks of the inputs
    where they are not given, also inside a `tf.function` around the whole model. A Keras mask is an
    attribute of a tensor and is lost where a tensor enters a `tf.function` of its own
    (`tf.function(layer)(x, x)`): pass the masks there.

    Cache. `cache` holds the keys and values of positions seen before, `initial_cache` makes an
    empty one. The T new tokens are written from `cache_position` on, and attend to what is written;
    with `use_causal_mask` also among themselves in order. The cache must be long enough for all
    positions: where it is not, an eager call raises, a graph on a CPU stops, and XLA drops what
    does not fit. Only with `window`, a cache of at least `window + T - 1` slots is used as a ring:
    position p lies in slot p mod L, and the run may be of any length, exactly as if all of it were
    kept. (T new tokens for which it is too short are written without going round.)
    With a cache, `value_mask` and `key_mask` are (B, T) for the new tokens (so is a mask whose
    length a traced graph does not know) or (B, M) for positions 0 to M, as is the last axis of
    `attention_mask`; positions they do not reach are visible.
    Left-padded examples pass (B, M) at every call. Right-padded ones continue at their own
    `cache_position` (B,).

    Args:
        num_heads: Number N of query heads.
        key_dim: Features of a query and key head.
        value_dim: Features of a value head. Defaults to `key_dim`.
        dropout: Probability that a weight is dropped in training. Defaults to `0.0`.
        use_bias: Whether the projections have biases. Defaults to `True`.
        output_shape: Features of the output, an integer or a tuple. Defaults to those of the query.
        attention_axes: Axes attended over. Defaults to all but the batch and the features.
        sliding_window: Keras' name of `window`. Defaults to `None`.
        flash_attention: `None` or `False`: TensorFlow has no fused kernel; `method="blockwise"` is
            what saves the memory here. Defaults to `None`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: Regularizer of the kernels. Defaults to `None`.
        bias_regularizer: Regularizer of the biases. Defaults to `None`.
        activity_regularizer: Regularizer of the outputs of the projections. Defaults to `None`.
        kernel_constraint: Constraint of the kernels. Defaults to `None`.
        bias_constraint: Constraint of the biases. Defaults to `None`.
        use_gate: Whether the heads are multiplied by a gate of the query, `sigmoid(Q W^G)`, before
            they are projected. Defaults to `False`.
        seed: Seed of the dropout. Defaults to `None`.
        num_key_value_heads: Number Nkv of key and value heads, a divisor of `num_heads`; each
            serves N / Nkv adjacent query heads. Defaults to `num_heads`.
        rotary: `True`, a convention, a dict of `RotaryEmbedding`'s arguments or a `RotaryEmbedding`
            to turn queries and keys by their positions. Positions count from 0, or from
            `cache_position`; the last query stands at the last key. Defaults to `None`.
        window: A query sees positions at a distance below `window`. Defaults to `None`.
        method: How to attend, see `ops.dot_product_attention`: `"dense"`, `"blockwise"`, which
            cannot return weights, or the better of the two by the sizes. Defaults to `"auto"`.

    Call arguments:
        query: (B|1, T, Dq); a batch of 1 is shared by all examples, as learned queries are.
        value: (B, S, Dv). With a cache, the new tokens.
        key: (B, S, Dk). Defaults to `value`.
        query_mask: Boolean (B, T): queries that exist.
        value_mask: Boolean (B, S): values that exist.
        key_mask: Boolean (B, S): keys that exist.
        attention_mask: Boolean (T, S), (B|1, T, S) or (B|1, N|1, T, S), True where a query may
            attend.
        return_attention_scores: Whether to return the weights, before dropout. Defaults to
            `False`.
        training: Whether to apply dropout.
        use_causal_mask: Whether query t sees keys up to t + S - T only. Defaults to `False`.
        cache: (B, 2, L, Nkv, key_dim), keys first.
        cache_position: Position of the first new token, a scalar or (B,).

    Returns:
        Output (B, T, features of the query) [, weights (B, N, T, S), with a cache (B, N, T, L) in
        the order of the slots] [, the new cache].

    Raises:
        ValueError: heads that are not a multiple of key-value heads, an odd rotary dimension, a
            bad window, a dropout that is no probability (as the number of key-value heads in its
            place), `flash_attention=True`, inputs that do not go together, a mask that is not
            boolean or does not fit, a cache without position or of the wrong shape.

    Examples:

    >>> import keras
    >>> from keras_attn.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(num_heads=4, key_dim=8, num_key_value_heads=2, rotary=True)
    >>> tokens = keras.random.normal((2, 5, 16))
    >>> tuple(layer(tokens, tokens, use_causal_mask=True).shape)
    (2, 5, 16)

    One token after the other:

    >>> cache = layer.initial_cache(batch_size=2, length=5)
    >>> for position in range(5):
    ...     token = tokens[:, position : position + 1]
    ...     output, cache = layer(token, token, cache=cache, cache_position=position)
    >>> tuple(output.shape)
    (2, 1, 16)

    References:
        Vaswani et al. 2017, "Attention is all you need", https://arxiv.org/abs/1706.03762
        Ainslie et al. 2023, "GQA", https://arxiv.org/abs/2305.13245
        Qiu et al. 2025, the gate, https://arxiv.org/abs/2505.06708
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape=None,
        attention_axes=None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        num_key_value_heads: int | None = None,
        rotary=None,
        window: int | None = None,
        method: str = "auto",
        **kwargs,
    ):
        value_dim = key_dim if value_dim is None else value_dim
        num_key_value_heads = num_heads if num_key_value_heads is None else num_key_value_heads
        num_heads, key_dim, value_dim, num_key_value_heads = settings.require_heads(
            num_heads, key_dim, value_dim, num_key_value_heads
        )
        dropout = settings.require_dropout(dropout)
        settings.require_no_flash_attention(flash_attention)
        require_method(method)
        window = settings.one_window(window, sliding_window)
        super().__init__(**kwargs)
        self.supports_masking = True
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self._output_shape = settings.as_tuple(output_shape)
        self.attention_axes = settings.as_tuple(attention_axes)
        self.flash_attention = flash_attention
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self._projection_regularizer = regularizers.get(activity_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.use_gate = use_gate
        self.seed = seed
        self.num_key_value_heads = num_key_value_heads
        self.rotary = rotary_of(rotary, key_dim, self.dtype_policy)
        self.window = window
        self.method = method
        self._dropout_layer = keras.layers.Dropout(dropout, seed=seed, dtype=self.dtype_policy)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        require_inputs(self, query_shape, value_shape, key_shape)
        query, key, value = (shape[-1:] for shape in (query_shape, key_shape, value_shape))
        self.features = {"query": query[0], "key": key[0], "value": value[0]}
        groups = self.num_key_value_heads
        heads = (self.num_heads, self.value_dim)
        self._query_dense = self._dense("query", query, (self.num_heads, self.key_dim))
        self._key_dense = self._dense("key", key, (groups, self.key_dim))
        if self.use_gate:
            self._gate_dense = self._dense("gate", query, heads, activation="sigmoid")
        self._value_dense = self._dense("value", value, (groups, self.value_dim))
        features = self._output_shape or query
        self._output_dense = self._dense("attention_output", heads, features)
        self.built = True

    def _dense(self, name, input_sizes, output_sizes, activation=None):
        return head_projection(
            name,
            input_sizes,
            output_sizes,
            use_bias=self.use_bias,
            activation=activation,
            dtype=plain_policy(self.dtype_policy, f"{self.path}/{name}"),
            # Copies, for one initializer gives the same numbers each time it is asked.
            kernel_initializer=initializers.get(initializers.serialize(self.kernel_initializer)),
            bias_initializer=initializers.get(initializers.serialize(self.bias_initializer)),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            activity_regularizer=self._projection_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
        )

    # Weights are saved under the names of attributes, the public ones first: with these they lie
    # where Keras' layer has them, and files that have them under the private names still load.

    @property
    def query_dense(self):
        """The projection of the queries; its kernel is (Dq, N, key_dim)."""
        return self._query_dense

    @property
    def key_dense(self):
        """The projection of the keys; its kernel is (Dk, Nkv, key_dim)."""
        return self._key_dense

    @property
    def value_dense(self):
        """The projection of the values; its kernel is (Dv, Nkv, value_dim)."""
        return self._value_dense

    @property
    def output_dense(self):
        """The projection of the concatenated heads; its kernel is (N, value_dim, features)."""
        return self._output_dense

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
        cache=None,
        cache_position=None,
    ):
        key = value if key is None else key
        key_masks = {
            "value_mask": value_mask,
            "key_mask": key_mask,
            "attention_mask": attention_mask,
        }
        axes = require_call(self, query, value, key, query_mask, key_masks, cache, cache_position)
        query, key, value = (ops.cast(x, self.compute_dtype) for x in (query, key, value))
        folded = [axes_of.fold(tensor, axes) for tensor in (query, key, value)]
        query_mask = axes_of.fold_padding(query_mask, query, axes, "query_mask")
        key_masks = {
            "value_mask": axes_of.fold_padding(value_mask, value, axes, "value_mask"),
            "key_mask": axes_of.fold_padding(key_mask, key, axes, "key_mask"),
            "attention_mask": axes_of.fold_attention_mask(
                attention_mask, query, value, self.num_heads, axes
            ),
        }
        steps = {"training": training, "return_weights": return_attention_scores}
        if cache is None:
            output, weights = self._call_plain(
                *folded, query_mask, key_masks, use_causal_mask, steps
            )
        else:
            output, weights, cache = self._call_cached(
                *folded, query_mask, key_masks, use_causal_mask, steps, cache, cache_position
            )
        results = [axes_of.unfold(output, query, axes)]
        if return_attention_scores:
            results.append(axes_of.unfold_weights(weights, query, value, axes))
        if cache is not None:
            results.append(cache)
        return tuple(results) if len(results) > 1 else results[0]

    def _call_plain(self, query, key, value, query_mask, key_masks, causal, steps):
        shape = self._scores_shape(query, key)
        query_mask = masks.padding(query_mask, (shape[0], shape[2]), "query_mask")
        mask = masks.of_call(shape, **key_masks)
        # Cleared before it is projected: a hidden NaN must not reach the kernels' gradients either.
        seen = masks.seen_keys(mask)
        query = masks.clear_hidden(query, query_mask)
        gate = self._gate(query)
        query = self._query_dense(query)
        key = self._key_dense(masks.clear_hidden(key, seen))
        value = self._value_dense(masks.clear_hidden(value, seen))
        if self.rotary is not None:
            query = self.rotary(query, start_index=ops.convert_to_tensor(shape[3] - shape[2]))
            key = self.rotary(key)
        return self._attend(query, key, value, gate, query_mask, mask, causal, self.window, **steps)

    def _call_cached(
        self, query, key, value, query_mask, key_masks, causal, steps, cache, cache_position
    ):
        length = ops.shape(query)[1]
        batch = ops.shape(cache)[0]
        query_mask = masks.padding(query_mask, (batch, length), "query_mask")
        query = masks.clear_hidden(query, query_mask)
        gate = self._gate(query)
        query = project_row(self._query_dense, query)
        key, value = project_row(self._key_dense, key), project_row(self._value_dense, value)
        position = kv_cache.first_positions(cache_position)
        wrap = kv_cache.wraps(cache, self.window, length)
        kv_cache.require_room(cache, position, length, wrap)
        if self.rotary is not None:
            positions = token_positions(length, position)
            query, key = self.rotary(query, positions), self.rotary(key, positions)
        cache = kv_cache.write(ops.cast(cache, self.compute_dtype), key, value, position, wrap)
        mask = kv_cache.visible(
            cache,
            position,
            length,
            (key_masks["value_mask"], key_masks["key_mask"]),
            key_masks["attention_mask"],
            causal,
            self.window,
        )
        output, weights = self._attend(
            query, cache[:, 0], cache[:, 1], gate, query_mask, mask,
            causal=False, window=None, **steps,
        )  # fmt: skip
        return output, weights, cache

    def _gate(self, query):
        return project_row(self._gate_dense, query) if self.use_gate else None

    def _attend(
        self, query, key, value, gate, query_mask, mask, causal, window, training, return_weights
    ):
        """Attend with projected heads, and project their outputs."""
        drops = self.dropout > 0 and training
        heads = dot_product_attention(
            query,
            key,
            value,
            mask,
            causal,
            window,
            method=self.method,
            return_weights=return_weights,
            dropout=self.dropout if drops else 0.0,
            seed=self._dropout_layer.seed_generator.next() if drops else None,
        )
        heads, weights = heads if return_weights else (heads, None)
        heads = heads if gate is None else heads * gate
        if return_weights and query_mask is not None:
            weights = _clear_rows(weights, query_mask)
        seeing = masks.seeing_queries(scores_shape(query, key), mask, causal, window)
        return masks.clear_hidden(
            project_row(self._output_dense, heads), masks.combine(query_mask, seeing)
        ), weights

    def initial_cache(self, batch_size, length: int):
        """An empty cache (batch_size, 2, length, Nkv, key_dim) in the compute dtype."""
        heads = self.num_key_value_heads
        return ops.zeros((batch_size, 2, length, heads, self.key_dim), self.compute_dtype)

    def project_memory(self, memory, mask=None):
        """Project a memory to the keys and values that `attend` takes, once for all steps.

        Args:
            memory: (B, S, D), value and key at once.
            mask: Boolean (B, S), or None. Positions that do not exist are cleared first.

        Returns:
            A cache (B, 2, S, Nkv, key_dim).

        Raises:
            ValueError: the layer has rotary positions or a window, which a query of unknown
                position cannot honour, or values of another size than the keys.
        """
        require_projectable(self, memory)
        memory = masks.clear_padding(ops.cast(memory, self.compute_dtype), mask)
        return ops.stack([self._key_dense(memory), self._value_dense(memory)], axis=1)

    def attend(self, query, memory, mask=None, query_mask=None, training=None, return_weights=True):
        """Attend to a memory from `project_memory`.

        Args:
            query: (B|1, T, Dq).
            memory: (B, 2, S, Nkv, key_dim).
            mask: Boolean (B, S), (B|1, T, S) or (B|1, N|1, T, S), True where a query may attend.
            query_mask: Boolean (B, T): queries that exist.
            training: Whether to apply dropout.
            return_weights: Whether to return the weights, or None in their place.

        Returns:
            Output (B, T, features) and weights (B, N, T, S).
        """
        require_projected_memory(self, memory)
        query_mask = masks.padding(query_mask, tuple(query.shape)[:2], "query_mask")
        query = masks.clear_hidden(ops.cast(query, self.compute_dtype), query_mask)
        # Not by slices: the gradient of one is written into zeros of the size of the whole.
        key, value = ops.unstack(ops.cast(memory, self.compute_dtype), 2, axis=1)
        return self._attend(
            project_row(self._query_dense, query), key, value, self._gate(query), query_mask, mask,
            causal=False, window=None, training=training, return_weights=return_weights,
        )  # fmt: skip

    def _scores_shape(self, query, key):
        batch = masks.broadcast_batch(query, key)
        return batch, self.num_heads, ops.shape(query)[1], ops.shape(key)[1]

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        require_inputs(self, query_shape, value_shape, key_shape)
        features = self._output_shape or (query_shape[-1],)
        batch = masks.broadcast_size(query_shape[0], value_shape[0])
        return (batch, *query_shape[1:-1], *features)

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
        cache=None,
        cache_position=None,
    ):
        key = value if key is None else key
        key_masks = {
            "value_mask": value_mask,
            "key_mask": key_mask,
            "attention_mask": attention_mask,
        }
        axes = require_call(self, query, value, key, query_mask, key_masks, cache, cache_position)
        shapes = [self.compute_output_shape(query.shape, value.shape, key.shape)]
        if return_attention_scores:
            keys = value.shape if cache is None else (cache.shape[0], cache.shape[2])
            shapes.append(axes_of.weights_shape(query.shape, keys, self.num_heads, axes))
        if cache is not None:
            shapes.append(cache.shape)
        specs = tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes)
        return specs if len(specs) > 1 else specs[0]

    def get_config(self):
        return {
            **super().get_config(),
            **quantized_dtype(self),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self._output_shape,
            "attention_axes": self.attention_axes,
            "sliding_window": self.window,
            "flash_attention": self.flash_attention,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "kernel_regularizer": regularizers.serialize(self.kernel_regularizer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "activity_regularizer": regularizers.serialize(self._projection_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "use_gate": self.use_gate,
            "seed": self.seed,
            "num_key_value_heads": self.num_key_value_heads,
            "rotary": keras.saving.serialize_keras_object(self.rotary),
            "window": self.window,
            "method": self.method,
        }


def _clear_rows(weights, query_mask):
    """Put 0 in the rows of queries that do not exist: weights (B, N, T, S), query_mask (B|1, T)."""
    return ops.where(query_mask[:, None, :, None], weights, ops.zeros_like(weights))
