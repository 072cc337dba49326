"""Settings of multi-head attention that are refused, each in one sentence."""

import numbers

from keras_attn.checks import is_whole, require_rate, require_size
from keras_attn.ops import masks


def require_heads(num_heads, key_dim, value_dim, num_key_value_heads):
    """The four numbers, or `ValueError` unless they are sizes that go together."""
    sizes = {
        "num_heads": num_heads,
        "key_dim": key_dim,
        "value_dim": value_dim,
        "num_key_value_heads": num_key_value_heads,
    }
    sizes = {name: require_size(name, size) for name, size in sizes.items()}
    if num_heads % num_key_value_heads:
        raise ValueError(
            "`num_heads` must be a multiple of `num_key_value_heads`. Received: "
            f"num_heads={num_heads}, num_key_value_heads={num_key_value_heads}"
        )
    return sizes.values()


def require_dropout(dropout):
    """A probability, the integer 0 among them, or `ValueError`."""
    no_number = dropout is None or isinstance(dropout, bool)
    if no_number or (isinstance(dropout, numbers.Integral) and dropout != 0):
        number = "N" if no_number else dropout
        raise ValueError(
            "The fourth argument is `dropout`, a probability, as in Keras; the number of key and "
            f"value heads is written num_key_value_heads={number}. Received: dropout={dropout!r}"
        )
    return require_rate("dropout", dropout)


def require_no_flash_attention(flash_attention):
    """Raise `ValueError` where a fused kernel is asked for, which TensorFlow does not have."""
    if flash_attention not in (None, False):
        raise ValueError(
            "TensorFlow has no fused kernel of attention: leave `flash_attention` away, and write "
            "method='blockwise' for attention that never holds all weights. "
            f"Received: flash_attention={flash_attention!r}"
        )


def one_window(window, sliding_window):
    """The window that is given under our name, under Keras' name, or under both alike."""
    window = masks.require_window(window)
    sliding_window = masks.require_window(sliding_window, "sliding_window")
    if window is not None and sliding_window not in (None, window):
        raise ValueError(
            "`window` and Keras' `sliding_window` are one setting: give one of them. "
            f"Received: window={window}, sliding_window={sliding_window}"
        )
    return sliding_window if window is None else window


def as_tuple(sizes):
    """An integer or several as a tuple; None stays None."""
    return sizes if sizes is None else (int(sizes),) if is_whole(sizes) else tuple(sizes)
