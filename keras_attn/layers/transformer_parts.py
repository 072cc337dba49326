"""What the Transformer blocks are made of: their options, and sublayers made from these."""

from collections.abc import Callable
from dataclasses import dataclass

import keras
from keras import initializers, ops

from keras_attn.checks import require_rate, require_size
from keras_attn.layers.feed_forward import FeedForward
from keras_attn.layers.feed_forward_activations import activation_config
from keras_attn.layers.multi_head_attention import MultiHeadAttention
from keras_attn.layers.residual_branch import ResidualBranch, require_normalization
from keras_attn.layers.rotary_embedding import rotary_of
from keras_attn.layers.shape_checks import require_features
from keras_attn.ops import masks

SIZES = ("num_heads", "intermediate_dim", "key_dim", "num_key_value_heads")


@dataclass(frozen=True)
class BlockOptions:
    """The constructor arguments of a Transformer block, in a form fit for its config."""

    num_heads: int
    intermediate_dim: int
    key_dim: int | None
    num_key_value_heads: int | None
    rotary: bool | str | dict | None
    window: int | None
    normalization: str
    normalize_first: bool
    activation: str | dict | Callable
    dropout: float
    attention_dropout: float
    use_bias: bool
    epsilon: float
    kernel_initializer: dict
    bias_initializer: dict
    seed: int | None

    @classmethod
    def of(cls, rotary, kernel_initializer, bias_initializer, **arguments):
        """Options from arguments of which some may be objects."""
        for name in SIZES:
            if arguments[name] is not None:
                arguments[name] = require_size(name, arguments[name])
        for name in ("dropout", "attention_dropout"):
            arguments[name] = require_rate(name, arguments[name])
        arguments["window"] = masks.require_window(arguments["window"])
        options = cls(
            rotary=keras.saving.serialize_keras_object(rotary),
            kernel_initializer=initializers.serialize(initializers.get(kernel_initializer)),
            bias_initializer=initializers.serialize(initializers.get(bias_initializer)),
            **arguments,
        )
        require_normalization(options.normalization)
        # These check their arguments, so that a bad one is refused before anything is built.
        options.feed_forward("float32")
        some_key_dim = 1 if options.key_dim is None else options.key_dim
        MultiHeadAttention(
            options.num_heads, some_key_dim, num_key_value_heads=options.num_key_value_heads
        )
        rotary_of(options.rotary, options.key_dim, "float32")
        return options

    def config(self) -> dict:
        return {**vars(self), "activation": activation_config(self.activation)}

    def attention(self, features, dtype, name, seed_offset, rotary=None, window=None):
        """A `MultiHeadAttention` for inputs of so many features."""
        return MultiHeadAttention(
            self.num_heads,
            self._head_features(features),
            num_key_value_heads=self.num_key_value_heads,
            rotary=rotary,
            window=window,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            kernel_initializer=self.kernel_initializer,
            bias_initializer=self.bias_initializer,
            seed=self._seed(seed_offset),
            name=name,
            dtype=dtype,
        )

    def self_attention(self, features, dtype, name="self_attention"):
        """As `attention`, with the rotary positions and the window."""
        return self.attention(features, dtype, name, 0, self.rotary, self.window)

    def feed_forward(self, dtype):
        return FeedForward(
            self.intermediate_dim,
            self.activation,
            self.use_bias,
            kernel_initializer=self.kernel_initializer,
            bias_initializer=self.bias_initializer,
            name="feed_forward",
            dtype=dtype,
        )

    def branch(self, dtype, name, seed_offset):
        return ResidualBranch(
            self.normalization,
            self.normalize_first,
            self.epsilon,
            self.dropout,
            self._seed(seed_offset),
            name=name,
            dtype=dtype,
        )

    def require_inputs(self, shape, features=None):
        """Raise `ValueError` unless a block with these options can be called with the shape.

        Args:
            shape: (B, T, D), of the inputs.
            features: what the block was built for, None where it is not built.
        """
        require_features("inputs", shape, features, rank=3)
        self._head_features(shape[-1])

    def _head_features(self, features):
        if self.key_dim is not None:
            return self.key_dim
        if features % self.num_heads:
            raise ValueError(
                "Without `key_dim` the features of the input are shared out among the heads, whose "
                "number must divide them. "
                f"Received: features={features}, num_heads={self.num_heads}"
            )
        return features // self.num_heads

    def _seed(self, offset):
        """A seed of its own for each dropout, that they may not drop the same features."""
        return None if self.seed is None else self.seed + offset


def mask_of_tokens(tensor, mask):
    """The mask given, as a tensor, or else the Keras mask of the tensor: (B, length) or None."""
    mask = masks.carried(tensor, mask)
    if mask is None:
        return None
    mask = masks.require_boolean(mask)
    if len(mask.shape) != 2:
        raise ValueError(
            "`mask` says which tokens exist and must have the shape (batch, length). "
            f"Received: mask.shape={tuple(mask.shape)}"
        )
    masks.padding(own_mask(tensor, mask), tuple(tensor.shape)[:2], "mask")
    return mask


def clear_missing(inputs, mask, dtype):
    """The inputs in the dtype, with 0 in the place of tokens that do not exist."""
    return masks.clear_hidden(ops.cast(inputs, dtype), own_mask(inputs, mask))


def attend_to_self(layer, branch, inputs, mask, options):
    """The branch of self-attention: outputs, and weights and cache or None."""
    entered = branch.enter(inputs)
    results = layer(
        entered,
        entered,
        query_mask=own_mask(inputs, mask),
        value_mask=mask,
        **options,
    )
    results = list(results) if isinstance(results, tuple) else [results]
    output = branch.leave(inputs, results.pop(0), options["training"])
    weights = results.pop(0) if options["return_attention_scores"] else None
    return output, weights, results.pop(0) if results else None


def own_mask(inputs, mask):
    """The mask of the tokens of this call, None where it is one of the positions of a cache."""
    return mask if mask is None or _same_length(mask, inputs) else None


def _same_length(mask, inputs):
    lengths = mask.shape[1], inputs.shape[1]
    return None in lengths or lengths[0] == lengths[1]
