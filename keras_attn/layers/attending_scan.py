"""The cells and attentions of an `AttentionRNN` that a scan of `ops` computes, and how."""

import keras
from keras import ops

from keras_attn.layers.additive_attention import AdditiveAttention
from keras_attn.layers.gru import GRUCell
from keras_attn.layers.lstm_cell import LSTMCell, PeepholeLSTMCell
from keras_attn.layers.luong_attention import LuongAttention
from keras_attn.layers.recurrent_checks import has_default_activations
from keras_attn.ops.attention_scan import attention_scan, lstm_attention_scan
from keras_attn.ops.recurrent import LSTMForm


def is_scanned(cell, attention) -> bool:
    """Whether `scan` computes what this cell and this attention compute without dropout."""
    # A class made from one of these may compute something else.
    classes = type(cell) in _SCANS and type(attention) in _SCORES
    return classes and has_default_activations(cell)


def scan(cell, attention, inputs, memory, initial_states, mask, memory_mask, saves):
    """Outputs, alignments and the list of the last states, as `ops.attention_scan` has them."""
    keys = attention.project_memory(memory, memory_mask)
    keys, scores = _SCORES[type(attention)](attention, keys)
    return _SCANS[type(cell)](
        cell,
        (inputs, memory, keys),
        initial_states,
        **_cast(scores, attention.compute_dtype),
        mask=mask,
        memory_mask=memory_mask,
        saves=saves,
    )


def _scan_gru(cell, sequences, states, **options):
    outputs, alignments, state = attention_scan(
        *sequences, states[0], **cell.scan_weights(), reset_after=cell.reset_after, **options
    )
    return outputs, alignments, [state]


def _scan_lstm(cell, sequences, states, **options):
    return lstm_attention_scan(*sequences, states, **cell.scan_weights(), form=cell.form, **options)


def _scan_keras_lstm(cell, sequences, states, **options):
    names = "kernel", "recurrent_kernel", "bias"
    weights = _cast({name: getattr(cell, name) for name in names}, cell.compute_dtype)
    return lstm_attention_scan(*sequences, states, **weights, form=LSTMForm(), **options)


_SCANS = {
    GRUCell: _scan_gru,
    LSTMCell: _scan_lstm,
    PeepholeLSTMCell: _scan_lstm,
    keras.layers.LSTMCell: _scan_keras_lstm,
}


def _of_additive(attention, keys):
    """The keys, and the weights by which a scan scores them."""
    return keys, {
        "query_kernel": attention.query_kernel,
        "query_bias": attention.bias,
        "score_vector": attention.score_vector,
        "score_scale": attention.score_scale,
    }


def _of_product(attention, keys):
    scale = attention.score_scale
    return (keys if scale is None else keys * ops.cast(scale, keys.dtype)), {}


_SCORES = {AdditiveAttention: _of_additive, LuongAttention: _of_product}


def _cast(weights: dict, dtype: str) -> dict:
    return {
        name: weight if weight is None else ops.cast(weight, dtype)
        for name, weight in weights.items()
    }
