import doctest

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import protocols
from keras_attn.decoding import greedy_search
from keras_attn.layers import (
    AdditiveAttention,
    AttentionCell,
    GRUCell,
    LSTMCell,
    LuongAttention,
    MultiHeadAttention,
    PeepholeLSTMCell,
)
from keras_attn.models import GNMT, RNNEncoderDecoder, RNNSearch, Transformer
from keras_attn.protocols import (
    Attention,
    RecurrentCell,
    SequenceModel,
    SupportsAttentionMaps,
    SupportsMaxLength,
    Tokenizer,
)
from keras_attn.serving import TextModel
from keras_attn.text import CharacterTokenizer, PieceTokenizer, SubwordTokenizer


def test_every_example_of_a_protocol_prints_what_it_shows():
    found = doctest.testmod(protocols)
    assert found.failed == 0
    assert found.attempted > len(protocols.__all__)


@pytest.mark.parametrize("model_class", [GNMT, RNNEncoderDecoder, RNNSearch, Transformer])
def test_the_models_are_what_searches_and_export_ask_for(model_class):
    assert issubclass(model_class, SequenceModel)


@pytest.mark.parametrize("tokenizer", [CharacterTokenizer, PieceTokenizer, SubwordTokenizer])
def test_the_tokenizers_have_every_method_that_is_called(tokenizer):
    methods = ("split", "tokenize", "detokenize", "pieces")
    assert all(callable(getattr(tokenizer, name, None)) for name in methods)
    assert isinstance(CharacterTokenizer("ab"), Tokenizer)
    assert not isinstance("ab", Tokenizer)


@pytest.mark.parametrize(
    "cell", [GRUCell(3), LSTMCell(3), PeepholeLSTMCell(3), keras.layers.SimpleRNNCell(3)]
)
def test_cells_and_attentions_are_what_an_attention_cell_asks_for(cell):
    assert isinstance(cell, RecurrentCell)
    for attention in (AdditiveAttention(2), LuongAttention()):
        assert isinstance(attention, Attention)
        AttentionCell(cell, attention)


@pytest.mark.parametrize("attention", [MultiHeadAttention(1, 2), keras.layers.AdditiveAttention()])
def test_an_attention_with_another_protocol_is_refused(attention):
    with pytest.raises(ValueError, match="Received: attention="):
        AttentionCell(GRUCell(2), attention)


@pytest.mark.parametrize("cell", [keras.layers.Dense(2), object(), "cell", None])
def test_what_is_no_recurrent_cell_is_refused(cell):
    with pytest.raises(ValueError, match="Received: cell="):
        AttentionCell(cell, AdditiveAttention(2))


class _Chain:
    """A stranger's model, which inherits nothing: an `a` for every token of the source."""

    def encode(self, inputs):
        return {"lengths": inputs["source_lengths"]}

    def initial_state(self, memory):
        return {"memory": memory, "written": tf.zeros_like(memory["lengths"])}

    def step(self, tokens, state):
        ends = state["written"] + 1 >= state["memory"]["lengths"]
        logits = tf.where(ends[:, None], [0.0, 0, 9, 0, 0], [0.0, 0, 0, 0, 9])
        attention = tf.ones([tf.shape(tokens)[0], 3]) / 3
        return logits, {**state, "written": state["written"] + 1}, attention

    variables = ()


class _ShortChain(_Chain):
    max_length = 3


def test_a_model_of_a_stranger_needs_the_protocol_and_nothing_else():
    model = _Chain()
    assert isinstance(model, SequenceModel)
    assert not isinstance(model, SupportsMaxLength | SupportsAttentionMaps)
    state = model.initial_state(model.encode({"source_lengths": tf.constant([3, 1])}))
    found = greedy_search(model.step, state, 2, start_id=1, end_id=2, max_length=4)
    np.testing.assert_array_equal(found.lengths[:, 0], [3, 1])
    tokenizer = CharacterTokenizer("a")
    answers = TextModel(model, tokenizer, tokenizer, 2, 4).answer(["aa", "a"])
    assert list(answers) == ["aa", "a"]


def test_only_a_model_with_a_max_length_bounds_the_answers():
    tokenizer = CharacterTokenizer("a")
    TextModel(_Chain(), tokenizer, tokenizer, 2, 4)
    with pytest.raises(ValueError, match=r"can write 3 tokens at most.*Received: max_length=4"):
        TextModel(_ShortChain(), tokenizer, tokenizer, 2, 4)
