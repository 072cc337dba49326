"""One layer of a Transformer decoder."""

import keras

from keras_attn.layers import transformer_parts as parts
from keras_attn.layers.attention_checks import require_projected_memory
from keras_attn.layers.quantized import quantized_dtype
from keras_attn.layers.shape_checks import require_features, require_one_batch
from keras_attn.ops import masks
from keras_attn.saved import registered


@registered
class TransformerDecoderBlock(keras.layers.Layer):
    """Causal self-attention, attention to a memory and a feed-forward network.

    A block that is first called without a memory has no attention to one, and is a block of a
    decoder-only model: the same as `TransformerEncoderBlock` with `use_causal_mask=True`.

    Each of the parts has a residual connection, `Norm(x + Dropout(F(x)))` as published or,
    pre-norm, `x + Dropout(F(Norm(x)))`; the memory is not normalised here. A stack of pre-norm
    blocks ends in a normalisation of its own, and so does the encoder that makes the memory.

    Rotary positions and the window are those of the self-attention. Step by step, the memory is
    projected once with `project_memory`, and the cache holds the tokens so far.

    Args:
        num_heads: Number of query heads.
        intermediate_dim: Width of the feed-forward network.
        key_dim: Features of a head. Defaults to those of the input, shared out.
        num_key_value_heads: Number of key and value heads. Defaults to `num_heads`.
        rotary: As in `MultiHeadAttention`. Defaults to `None`.
        window: As in `MultiHeadAttention`. Defaults to `None`.
        normalization: `"layer"` or `"rms"`. Defaults to `"layer"`.
        normalize_first: Whether the block is pre-norm. Defaults to `False`.
        activation: Of the feed-forward network, any that `FeedForward` takes, the gated ones
            included. Defaults to `"relu"`.
        dropout: Probability of the residual dropout. Defaults to `0.0`.
        attention_dropout: Probability that an attention weight is dropped. Defaults to `0.0`.
        use_bias: Whether the projections have biases. Defaults to `True`.
        epsilon: Added to the variance in the normalisation. Defaults to `1e-6`.
        kernel_initializer: Initializer of the kernels. Defaults to `"glorot_uniform"`.
        bias_initializer: Initializer of the biases. Defaults to `"zeros"`.
        seed: Seed of the dropouts. Defaults to `None`.

    Call arguments:
        inputs: (B, T, D); integers and booleans are cast.
        memory: (B, S, Dm), the output of the encoder; or give `memory_cache`. Neither in a
            decoder-only block.
        mask: Boolean (B, T): tokens that exist. Taken from the Keras mask of `inputs` if not given.
            With a cache also (B, M), for positions 0 to M.
        memory_mask: Boolean (B, S): positions of the memory that exist. Taken from the Keras mask
            of `memory` if not given.
        attention_mask: Boolean (T, T), (B|1, T, T) or (B|1, N|1, T, T) for the self-attention.
        use_causal_mask: Whether a token sees no later one. Defaults to `True`.
        return_attention_scores: Whether to return the weights too. Defaults to `False`.
        training: Whether to apply dropout.
        cache: (B, 2, L, Nkv, key_dim), see `MultiHeadAttention`.
        cache_position: Position of the first new token, a scalar or (B,).
        memory_cache: (B, 2, S, Nkv, key_dim) from `project_memory`, in the place of `memory`.

    Returns:
        Outputs (B, T, D) [, weights of the tokens (B, N, T, T), where there is a memory weights of
        it (B, N, T, S)] [, the new cache].

    Raises:
        ValueError: an unknown normalisation or activation, both of `memory` and `memory_cache`,
            neither of them for a block that was built with a memory, one of them for a block that
            was built without, and what `MultiHeadAttention` refuses.

    Examples:

    >>> import keras
    >>> from keras_attn.layers import TransformerDecoderBlock
    >>> block = TransformerDecoderBlock(4, 32)
    >>> tokens, memory = keras.ops.ones((2, 3, 16)), keras.ops.ones((2, 5, 24))
    >>> tuple(block(tokens, memory).shape)
    (2, 3, 16)

    One token after the other:

    >>> cache, memory_cache = block.initial_cache(2, 3), block.project_memory(memory)
    >>> for position in range(3):
    ...     token = tokens[:, position : position + 1]
    ...     output, cache = block(
    ...         token, memory_cache=memory_cache, cache=cache, cache_position=position
    ...     )
    >>> tuple(output.shape)
    (2, 1, 16)

    References:
        Vaswani et al. 2017, "Attention is all you need", https://arxiv.org/abs/1706.03762
        Xiong et al. 2020, pre-norm, https://arxiv.org/abs/2002.04745
    """

    def __init__(
        self,
        num_heads: int,
        intermediate_dim: int,
        key_dim: int | None = None,
        num_key_value_heads: int | None = None,
        rotary=None,
        window: int | None = None,
        normalization: str = "layer",
        normalize_first: bool = False,
        activation="relu",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        use_bias: bool = True,
        epsilon: float = 1e-6,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        seed: int | None = None,
        **kwargs,
    ):
        options = parts.BlockOptions.of(
            rotary=rotary,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            num_heads=num_heads,
            intermediate_dim=intermediate_dim,
            key_dim=key_dim,
            num_key_value_heads=num_key_value_heads,
            window=window,
            normalization=normalization,
            normalize_first=normalize_first,
            activation=activation,
            dropout=dropout,
            attention_dropout=attention_dropout,
            use_bias=use_bias,
            epsilon=epsilon,
            seed=seed,
        )
        super().__init__(**kwargs)
        self.supports_masking = True
        self.options = options

    def build(self, inputs_shape, memory_shape=None, memory_cache_shape=None):
        if memory_shape is None and memory_cache_shape is not None:
            raise ValueError(
                "The block is built for the features of its memory: call it with `memory` before "
                "`memory_cache`, or build it. Received: memory_shape=None"
            )
        options, dtype, features = self.options, self.dtype_policy, inputs_shape[-1]
        options.require_inputs(inputs_shape)
        self.features = features
        has_memory = memory_shape is not None
        if has_memory:
            self._require_memory_shape(inputs_shape, memory_shape)
        self.self_attention = options.self_attention(features, dtype)
        self.memory_attention = (
            options.attention(features, dtype, "memory_attention", 1) if has_memory else None
        )
        self.feed_forward = options.feed_forward(dtype)
        self.self_attention_branch = options.branch(dtype, "self_attention_branch", 2)
        self.memory_attention_branch = (
            options.branch(dtype, "memory_attention_branch", 3) if has_memory else None
        )
        self.feed_forward_branch = options.branch(dtype, "feed_forward_branch", 4)
        self.self_attention.build(inputs_shape, inputs_shape)
        if has_memory:
            self.memory_attention.build(inputs_shape, memory_shape)
            self.memory_attention_branch.build(inputs_shape)
        for layer in (self.feed_forward, self.self_attention_branch, self.feed_forward_branch):
            layer.build(inputs_shape)
        self.built = True

    def call(
        self,
        inputs,
        memory=None,
        mask=None,
        memory_mask=None,
        attention_mask=None,
        use_causal_mask=True,
        return_attention_scores=False,
        training=None,
        cache=None,
        cache_position=None,
        memory_cache=None,
    ):
        self.compute_output_shape(inputs.shape)
        self._require_memory(inputs, memory, memory_cache, memory_mask)
        mask = parts.mask_of_tokens(inputs, mask)
        inputs = parts.clear_missing(inputs, mask, self.compute_dtype)
        outputs, weights, cache = parts.attend_to_self(
            self.self_attention,
            self.self_attention_branch,
            inputs,
            mask,
            {
                "attention_mask": attention_mask,
                "use_causal_mask": use_causal_mask,
                "return_attention_scores": return_attention_scores,
                "training": training,
                "cache": cache,
                "cache_position": cache_position,
            },
        )
        memory_weights = None
        if self.memory_attention is not None:
            outputs, memory_weights = self._attend_to_memory(
                outputs,
                parts.own_mask(inputs, mask),
                memory,
                memory_cache,
                memory_mask,
                training,
                return_attention_scores,
            )
        hidden = self.feed_forward(self.feed_forward_branch.enter(outputs))
        outputs = self.feed_forward_branch.leave(outputs, hidden, training)
        results = tuple(x for x in (outputs, weights, memory_weights, cache) if x is not None)
        return results if len(results) > 1 else outputs

    def _attend_to_memory(
        self, inputs, mask, memory, memory_cache, memory_mask, training, return_weights
    ):
        entered = self.memory_attention_branch.enter(inputs)
        if memory_cache is None:
            memory_cache = self.memory_attention.project_memory(memory, memory_mask)
        output, weights = self.memory_attention.attend(
            entered,
            memory_cache,
            memory_mask,
            query_mask=mask,
            training=training,
            return_weights=return_weights,
        )
        return self.memory_attention_branch.leave(inputs, output, training), weights

    def initial_cache(self, batch_size, length: int):
        """An empty cache of `length` positions for the built block."""
        return self.self_attention.initial_cache(batch_size, length)

    def project_memory(self, memory, mask=None):
        """Project a memory (B, S, Dm) to the `memory_cache` of the call, once for all steps."""
        if self.memory_attention is None:
            raise _built_without_memory(f"memory.shape={tuple(memory.shape)}")
        return self.memory_attention.project_memory(memory, mask)

    def compute_mask(self, inputs, previous_mask):
        # Keras would hang a nested list on the outputs as it was given.
        return None if previous_mask is None else masks.require_boolean(previous_mask)

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        self.options.require_inputs(inputs_shape, self.features if self.built else None)
        if memory_shape is not None:
            self._require_memory_shape(inputs_shape, memory_shape)
            batch = masks.broadcast_size(inputs_shape[0], memory_shape[0])
            return (batch, *inputs_shape[1:])
        return tuple(inputs_shape)

    def compute_output_spec(
        self,
        inputs,
        memory=None,
        mask=None,
        memory_mask=None,
        attention_mask=None,
        use_causal_mask=True,
        return_attention_scores=False,
        training=None,
        cache=None,
        cache_position=None,
        memory_cache=None,
    ):
        shape = self.compute_output_shape(inputs.shape)
        self._require_memory(inputs, memory, memory_cache, memory_mask)
        mask = parts.mask_of_tokens(inputs, mask)
        results = self.self_attention.compute_output_spec(
            inputs,
            inputs,
            query_mask=parts.own_mask(inputs, mask),
            value_mask=mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            cache=cache,
            cache_position=cache_position,
        )
        outputs = keras.KerasTensor(shape, dtype=self.compute_dtype)
        if not isinstance(results, tuple):
            return outputs
        own = list(results[1:])
        if return_attention_scores and self.memory_attention is not None:
            shape = self._memory_scores_shape(inputs, memory, memory_cache)
            own.insert(1, keras.KerasTensor(shape, dtype=self.compute_dtype))
        return (outputs, *own)

    def _require_memory(self, inputs, memory, memory_cache, memory_mask):
        """Raise `ValueError` unless there is the memory that the block was built for."""
        shapes = [None if x is None else tuple(x.shape) for x in (memory, memory_cache)]
        received = f"memory.shape={shapes[0]}, memory_cache.shape={shapes[1]}"
        given = 2 - shapes.count(None)
        if self.memory_attention is None:
            if given:
                raise _built_without_memory(received)
            return
        if given != 1:
            raise ValueError(
                "The block was built for a memory and attends to `memory` or, projected before, to "
                "`memory_cache`: give one of them. For a decoder-only model take a block that was "
                "never given a memory, or a TransformerEncoderBlock called with "
                f"use_causal_mask=True. Received: {received}"
            )
        if memory is not None:
            self._require_memory_shape(inputs.shape, memory.shape)
            masks.padding(memory_mask, tuple(memory.shape)[:2], "memory_mask")
        else:
            require_projected_memory(self.memory_attention, memory_cache)
            require_one_batch(inputs=inputs.shape, memory_cache=memory_cache.shape)
            shape = self._memory_scores_shape(inputs, memory, memory_cache)
            masks.expand(memory_mask, shape, "memory_mask")

    def _require_memory_shape(self, inputs_shape, memory_shape):
        if self.built and self.memory_attention is None:
            raise _built_without_memory(f"memory_shape={tuple(memory_shape)}")
        features = self.memory_attention.features["key"] if self.built else None
        require_features("memory", memory_shape, features, rank=3)
        require_one_batch(inputs=inputs_shape, memory=memory_shape)

    def _memory_scores_shape(self, inputs, memory, memory_cache):
        length = memory.shape[1] if memory_cache is None else memory_cache.shape[2]
        return inputs.shape[0], self.options.num_heads, inputs.shape[1], length

    def get_config(self):
        return {**super().get_config(), **quantized_dtype(self), **self.options.config()}


def _built_without_memory(received) -> ValueError:
    return ValueError(
        "The block was built without a memory, as one of a decoder-only model, and cannot attend "
        f"to any: make another block for that. Received: {received}"
    )
