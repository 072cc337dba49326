"""One layer of a Transformer encoder, or with a causal mask of a language model."""

import keras

from keras_attn.layers import transformer_parts as parts
from keras_attn.layers.quantized import quantized_dtype
from keras_attn.ops import masks
from keras_attn.saved import registered


@registered
class TransformerEncoderBlock(keras.layers.Layer):
    """Self-attention and a feed-forward network, each with a residual connection.

    Post-norm, as published: `y = Norm(x + Dropout(Attention(x)))`,
    `z = Norm(y + Dropout(FeedForward(y)))`. Pre-norm: `y = x + Dropout(Attention(Norm(x)))`,
    `z = y + Dropout(FeedForward(Norm(y)))`; a stack of these ends in a normalisation of its own.

    With `use_causal_mask` and a cache it is the block of a decoder-only language model.

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
        mask: Boolean (B, T): tokens that exist. Taken from the Keras mask of `inputs` if not given.
            With a cache also (B, M), for positions 0 to M.
        attention_mask: Boolean (T, S), (B|1, T, S) or (B|1, N|1, T, S).
        use_causal_mask: Whether a token sees no later one. Defaults to `False`.
        return_attention_scores: Whether to return the weights too. Defaults to `False`.
        training: Whether to apply dropout.
        cache: (B, 2, L, Nkv, key_dim), see `MultiHeadAttention`.
        cache_position: Position of the first new token, a scalar or (B,).

    Returns:
        Outputs (B, T, D) [, weights (B, N, T, S)] [, the new cache].

    Raises:
        ValueError: an unknown normalisation or activation, and what `MultiHeadAttention` refuses.

    Example:

    >>> import keras
    >>> from keras_attn.layers import TransformerEncoderBlock
    >>> block = TransformerEncoderBlock(4, 32, normalize_first=True, activation="gelu")
    >>> tuple(block(keras.ops.ones((2, 3, 16))).shape)
    (2, 3, 16)

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

    def build(self, input_shape):
        options, dtype, features = self.options, self.dtype_policy, input_shape[-1]
        options.require_inputs(input_shape)
        self.features = features
        self.attention = options.self_attention(features, dtype)
        self.attention_branch = options.branch(dtype, "self_attention_branch", 1)
        self.feed_forward = options.feed_forward(dtype)
        self.feed_forward_branch = options.branch(dtype, "feed_forward_branch", 2)
        self.attention.build(input_shape, input_shape)
        for layer in (self.attention_branch, self.feed_forward, self.feed_forward_branch):
            layer.build(input_shape)
        self.built = True

    def call(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
        cache=None,
        cache_position=None,
    ):
        self.compute_output_shape(inputs.shape)
        mask = parts.mask_of_tokens(inputs, mask)
        inputs = parts.clear_missing(inputs, mask, self.compute_dtype)
        outputs, weights, cache = parts.attend_to_self(
            self.attention,
            self.attention_branch,
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
        hidden = self.feed_forward(self.feed_forward_branch.enter(outputs))
        outputs = self.feed_forward_branch.leave(outputs, hidden, training)
        results = tuple(x for x in (outputs, weights, cache) if x is not None)
        return results if len(results) > 1 else outputs

    def initial_cache(self, batch_size, length: int):
        """An empty cache of `length` positions for the built block."""
        return self.attention.initial_cache(batch_size, length)

    def compute_mask(self, inputs, previous_mask):
        # Keras would hang a nested list on the outputs as it was given.
        return None if previous_mask is None else masks.require_boolean(previous_mask)

    def compute_output_shape(self, input_shape):
        self.options.require_inputs(input_shape, self.features if self.built else None)
        return tuple(input_shape)

    def compute_output_spec(
        self,
        inputs,
        mask=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        training=None,
        cache=None,
        cache_position=None,
    ):
        outputs = keras.KerasTensor(
            self.compute_output_shape(inputs.shape), dtype=self.compute_dtype
        )
        mask = parts.mask_of_tokens(inputs, mask)
        results = self.attention.compute_output_spec(
            inputs,
            inputs,
            query_mask=parts.own_mask(inputs, mask),
            value_mask=mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            cache=cache,
            cache_position=cache_position,
        )
        return (outputs, *results[1:]) if isinstance(results, tuple) else outputs

    def get_config(self):
        return {**super().get_config(), **quantized_dtype(self), **self.options.config()}
