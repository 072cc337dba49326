"""Sizes and rates have one rule, whichever layer is asked."""

import json

import keras
import numpy as np
import pytest

from keras_attn import layers, models, ops

WIDTHS = dict.fromkeys(("embedding_dim", "encoder_units", "decoder_units", "attention_units"), 8)
BLOCKS = {"num_heads": 2, "intermediate_dim": 8, "encoder_layers": 1, "decoder_layers": 1}

SIZES = {
    "AdditiveAttention.units": lambda size: layers.AdditiveAttention(size),
    "FeedForward.intermediate_dim": lambda size: layers.FeedForward(size),
    "GRU.units": lambda size: layers.GRU(size),
    "GRUCell.units": lambda size: layers.GRUCell(size),
    "LSTM.units": lambda size: layers.LSTM(size),
    "LSTMCell.units": lambda size: layers.LSTMCell(size),
    "Maxout.pieces": lambda size: layers.Maxout(size),
    "MultiHeadAttention.key_dim": lambda size: layers.MultiHeadAttention(2, size),
    "MultiHeadAttention.num_heads": lambda size: layers.MultiHeadAttention(size, 4),
    "MultiHeadAttention.num_key_value_heads": lambda size: layers.MultiHeadAttention(
        12, 4, num_key_value_heads=size
    ),
    "MultiHeadAttention.value_dim": lambda size: layers.MultiHeadAttention(2, 4, size),
    "MultiHeadAttention.window": lambda size: layers.MultiHeadAttention(2, 4, window=size),
    "PeepholeLSTM.units": lambda size: layers.PeepholeLSTM(size),
    "PeepholeLSTMCell.units": lambda size: layers.PeepholeLSTMCell(size),
    "PositionEmbedding.max_length": lambda size: layers.PositionEmbedding(size),
    "RNNSearch.readout_units": lambda size: models.RNNSearch(9, 9, readout_units=size, **WIDTHS),
    "Transformer.dim": lambda size: models.Transformer(9, 9, dim=size, **BLOCKS),
    "TransformerDecoderBlock.intermediate_dim": lambda size: layers.TransformerDecoderBlock(
        2, size
    ),
    "TransformerDecoderBlock.num_heads": lambda size: layers.TransformerDecoderBlock(size, 8),
    "TransformerDecoderBlock.window": lambda size: layers.TransformerDecoderBlock(
        2, 8, window=size
    ),
    "TransformerEncoderBlock.intermediate_dim": lambda size: layers.TransformerEncoderBlock(
        2, size
    ),
    "TransformerEncoderBlock.key_dim": lambda size: layers.TransformerEncoderBlock(
        2, 8, key_dim=size
    ),
    "TransformerEncoderBlock.num_heads": lambda size: layers.TransformerEncoderBlock(size, 8),
    "blockwise_attention.block_size": lambda size: ops.blockwise_attention(
        *[np.zeros((1, 8, 1, 4), np.float32)] * 3, block_size=size
    ),
    "sinusoid.dim": lambda size: ops.sinusoid(np.arange(3), size),
}
RATES = {
    "AdditiveAttention.dropout": lambda rate: layers.AdditiveAttention(4, dropout=rate),
    "GRU.dropout": lambda rate: layers.GRU(4, dropout=rate),
    "GRUCell.recurrent_dropout": lambda rate: layers.GRUCell(4, recurrent_dropout=rate),
    "LSTM.recurrent_dropout": lambda rate: layers.LSTM(4, recurrent_dropout=rate),
    "LSTMCell.dropout": lambda rate: layers.LSTMCell(4, dropout=rate),
    "LuongAttention.dropout": lambda rate: layers.LuongAttention(dropout=rate),
    "MultiHeadAttention.dropout": lambda rate: layers.MultiHeadAttention(2, 4, dropout=rate),
    "PeepholeLSTM.dropout": lambda rate: layers.PeepholeLSTM(4, dropout=rate),
    "RNNSearch.dropout": lambda rate: models.RNNSearch(
        9, 9, readout_units=8, dropout=rate, **WIDTHS
    ),
    "Transformer.dropout": lambda rate: models.Transformer(9, 9, dim=4, dropout=rate, **BLOCKS),
    "TransformerDecoderBlock.attention_dropout": lambda rate: layers.TransformerDecoderBlock(
        2, 8, attention_dropout=rate
    ),
    "TransformerDecoderBlock.dropout": lambda rate: layers.TransformerDecoderBlock(
        2, 8, dropout=rate
    ),
    "TransformerEncoderBlock.attention_dropout": lambda rate: layers.TransformerEncoderBlock(
        2, 8, attention_dropout=rate
    ),
    "TransformerEncoderBlock.dropout": lambda rate: layers.TransformerEncoderBlock(
        2, 8, dropout=rate
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_an_integer_of_numpy_is_an_integer(name):
    made, expected = SIZES[name](np.int64(4)), SIZES[name](4)
    if isinstance(made, keras.layers.Layer):  # its config is one that JSON holds
        assert json.loads(json.dumps(_config(made))) == _config(expected)


@pytest.mark.parametrize("size", [True, 2.5, 4.0, 0, -1, "4"], ids=repr)
@pytest.mark.parametrize("name", SIZES)
def test_what_is_no_positive_integer_is_no_size(name, size):
    argument = name.split(".")[1]
    with pytest.raises(ValueError, match=rf"`{argument}` must be a positive integer.*Received: "):
        SIZES[name](size)


@pytest.mark.parametrize("rate", [7.0, 1.0, -0.1, float("nan"), "0.1"], ids=repr)
@pytest.mark.parametrize("name", RATES)
def test_what_is_no_fraction_below_one_is_no_rate(name, rate):
    argument = name.split(".")[1]
    with pytest.raises(ValueError, match=rf"`{argument}` is the fraction of units.*Received: "):
        RATES[name](rate)


@pytest.mark.parametrize("name", RATES)
def test_a_float_of_numpy_is_a_rate(name):
    made, expected = RATES[name](np.float64(0.25)), RATES[name](0.25)
    assert json.loads(json.dumps(_config(made))) == _config(expected)


def _config(layer) -> dict:
    return {key: value for key, value in layer.get_config().items() if key not in ("name", "dtype")}
