"""Keras' cuDNN kernels for the recurrent layers that they can express.

They run on a GPU only. Keras offers them to no one but its own layers, hence the private import.
"""

from keras.src import backend

from keras_attn.protocols import SupportsMasksByBlock

DTYPES = ("float16", "float32", "float64")


def is_usable(cell, unroll: bool, mask, **cell_form) -> bool:
    """Whether cuDNN computes what the cell computes, and there is a GPU to do it.

    A mask excludes it: cuDNN takes right-padded ones alone, and returns zeros at masked steps
    where the layers return the output of the step before.
    """
    return (
        mask is None
        and not isinstance(cell, SupportsMasksByBlock)
        and cell.compute_dtype in DTYPES
        and backend.cudnn_ok(
            cell.activation, cell.recurrent_activation, unroll, cell.use_bias, **cell_form
        )
    )


def run_lstm(layer, sequences, states):
    """`(last_output, outputs, states)` of an LSTM layer as Keras' `inner_loop` returns them."""
    return backend.lstm(sequences, *states, mask=None, **_arguments(layer))


def run_gru(layer, sequences, states):
    """`(last_output, outputs, states)` of a GRU layer as Keras' `inner_loop` returns them."""
    return backend.gru(sequences, *states, mask=None, reset_after=True, **_arguments(layer))


def _arguments(layer) -> dict:
    cell = layer.cell
    return {
        "kernel": cell.kernel,
        "recurrent_kernel": cell.recurrent_kernel,
        "bias": cell.bias,
        "activation": cell.activation,
        "recurrent_activation": cell.recurrent_activation,
        "return_sequences": layer.return_sequences,
        "go_backwards": layer.go_backwards,
        "unroll": layer.unroll,
    }
