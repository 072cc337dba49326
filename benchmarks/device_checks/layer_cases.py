"""The layers that are compared, each with its inputs."""

from collections.abc import Callable
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf

from keras_attn.layers import (
    GRU,
    LSTM,
    AdditiveAttention,
    AttentionRNN,
    GRUCell,
    LSTMCell,
    LuongAttention,
    MultiHeadAttention,
    PeepholeLSTM,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)

BATCH, STEPS, SOURCE, WIDTH, UNITS = 3, 6, 5, 8, 4
LONG = 150  # two blocks of blockwise attention, the second not full


@dataclass(frozen=True, eq=False)
class LayerCase:
    """How a layer is made, `make(dtype=policy)`, and called.

    Args:
        make: takes `dtype`.
        inputs: the tensors that come first in the call.
        masks: the masks by name. One of the examples has nothing left.
        options: other arguments of the call.
    """

    make: Callable
    inputs: tuple[np.ndarray, ...]
    masks: dict[str, np.ndarray] = field(default_factory=dict)
    options: dict = field(default_factory=dict)

    def tensors(self, dtype: str) -> list[tf.Tensor]:
        """The inputs in a dtype, and the masks."""
        return [tf.constant(x, dtype) for x in self.inputs] + list(
            map(tf.constant, self.masks.values())
        )

    def build(self, layer, tensors) -> None:
        """Give the layer its weights and compute nothing."""
        self.call(layer, [keras.KerasTensor(x.shape, x.dtype.name) for x in tensors])

    def call(self, layer, tensors):
        """The layer's answer."""
        inputs, masks = tensors[: len(self.inputs)], tensors[len(self.inputs) :]
        return layer(*inputs, **dict(zip(self.masks, masks, strict=True)), **self.options)


def _normal(*shape) -> np.ndarray:
    return np.random.default_rng(shape[-2]).standard_normal(shape)


def _first(lengths: list[int], steps: int) -> np.ndarray:
    """A mask that is True for so many first steps."""
    return np.arange(steps) < np.array(lengths)[:, None]


SEQUENCE, MEMORY = _normal(BATCH, STEPS, WIDTH), _normal(BATCH, SOURCE, WIDTH)
LONG_SEQUENCE = _normal(1, LONG, WIDTH)
STEP_MASK, MEMORY_MASK = _first([6, 4, 0], STEPS), _first([5, 2, 0], SOURCE)
ATTENTION_MASK = np.random.default_rng(3).random((BATCH, STEPS, STEPS)) < 0.5


def _recurrent(layer, **settings):
    """Of our own loops; cuDNN's have checks of their own."""
    settings = {"return_sequences": True, "use_cudnn": False, **settings}
    return lambda dtype: layer(UNITS, dtype=dtype, **settings)


def _attention(**settings):
    return lambda dtype: MultiHeadAttention(num_heads=4, key_dim=4, dtype=dtype, **settings)


def _self_attention(masks=None, causal=False, **settings) -> LayerCase:
    options = {"use_causal_mask": causal}
    return LayerCase(_attention(**settings), (SEQUENCE, SEQUENCE), masks or {}, options)


def _blockwise(masks=None, causal=False, **settings) -> LayerCase:
    make = _attention(method="blockwise", **settings)
    options = {"use_causal_mask": causal}
    return LayerCase(make, (LONG_SEQUENCE, LONG_SEQUENCE), masks or {}, options)


# A ReLU near 0 that rounding turns on changes a gradient by all it has, and would say nothing.
SMOOTH = {"activation": "gelu"}

VARIANTS = ("NIG", "NFG", "NOG", "NIAF", "NOAF", "CIFG", "FGR")

CASES = {
    "LSTM": LayerCase(_recurrent(LSTM), (SEQUENCE,)),
    "LSTM, masked": LayerCase(_recurrent(LSTM), (SEQUENCE,), {"mask": STEP_MASK}),
    "LSTM, both directions, masked": LayerCase(
        lambda dtype: keras.layers.Bidirectional(_recurrent(LSTM)(dtype), dtype=dtype),
        (SEQUENCE,),
        {"mask": STEP_MASK},
    ),
    **{
        f"LSTM, variant {variant}": LayerCase(_recurrent(LSTM, variant=variant), (SEQUENCE,))
        for variant in VARIANTS
    },
    "PeepholeLSTM": LayerCase(_recurrent(PeepholeLSTM), (SEQUENCE,), {"mask": STEP_MASK}),
    "PeepholeLSTM, full": LayerCase(_recurrent(PeepholeLSTM, peepholes="full"), (SEQUENCE,)),
    "PeepholeLSTM, output gate sees the previous cell": LayerCase(
        _recurrent(PeepholeLSTM, output_gate_sees="previous"), (SEQUENCE,)
    ),
    "GRU of Cho et al.": LayerCase(_recurrent(GRU), (SEQUENCE,), {"mask": STEP_MASK}),
    "GRU, reset after the product": LayerCase(_recurrent(GRU, reset_after=True), (SEQUENCE,)),
    "AdditiveAttention": LayerCase(
        lambda dtype: AdditiveAttention(UNITS, use_bias=True, normalize=True, dtype=dtype),
        (SEQUENCE, MEMORY),
        {"value_mask": MEMORY_MASK},
    ),
    "LuongAttention": LayerCase(
        lambda dtype: LuongAttention("general", dtype=dtype),
        (SEQUENCE, MEMORY),
        {"value_mask": MEMORY_MASK},
    ),
    "MultiHeadAttention, masks": _self_attention(
        {"value_mask": STEP_MASK, "attention_mask": ATTENTION_MASK}
    ),
    "MultiHeadAttention, causal": _self_attention(causal=True),
    "MultiHeadAttention, window": _self_attention(causal=True, window=3),
    "MultiHeadAttention, rotary, grouped heads": _self_attention(
        {"value_mask": STEP_MASK}, rotary=True, num_key_value_heads=2
    ),
    "MultiHeadAttention, blockwise, masked": _blockwise({"value_mask": _first([140], LONG)}),
    "MultiHeadAttention, blockwise, causal": _blockwise(causal=True),
    "MultiHeadAttention, blockwise, window, rotary": _blockwise(
        causal=True, window=20, rotary=True
    ),
    "TransformerEncoderBlock": LayerCase(
        lambda dtype: TransformerEncoderBlock(2, 12, **SMOOTH, dtype=dtype),
        (SEQUENCE,),
        {"mask": STEP_MASK},
    ),
    "TransformerDecoderBlock": LayerCase(
        lambda dtype: TransformerDecoderBlock(2, 12, rotary=True, **SMOOTH, dtype=dtype),
        (SEQUENCE, MEMORY),
        {"memory_mask": MEMORY_MASK},
    ),
    "AttentionRNN": LayerCase(
        lambda dtype: AttentionRNN(
            GRUCell(UNITS, dtype=dtype),
            AdditiveAttention(UNITS, dtype=dtype),
            return_alignments=True,
            dtype=dtype,
        ),
        (SEQUENCE, MEMORY),
        {"mask": STEP_MASK, "memory_mask": MEMORY_MASK},
    ),
    "AttentionRNN of an LSTM and Luong's attention": LayerCase(
        lambda dtype: AttentionRNN(
            LSTMCell(UNITS, dtype=dtype), LuongAttention("dot", dtype=dtype), dtype=dtype
        ),
        (_normal(BATCH, STEPS, WIDTH), _normal(BATCH, SOURCE, UNITS)),
        {"memory_mask": MEMORY_MASK},
    ),
}
"""By name of the row."""
