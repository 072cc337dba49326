"""Settings of multi-head attention that are refused, each in one sentence."""

import numbers

from keras_attn.layers.setting_checks import require_rate
from keras_attn.ops import masks


def require_heads(num_heads, key_dim, value_dim, num_key_value_heads):
    """Raise `ValueError` unless the numbers and sizes of the heads go together."""
    sizes = {
        "num_heads": num_heads,
        "key_dim": key_dim,
        "value_dim": value_dim,
        "num_key_value_heads": num_key_value_heads,
    }
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"`{name}` must be a positive integer. Received: {name}={size!r}")
    if num_heads % num_key_value_heads:
        raise ValueError(
            "`num_heads` must be a multiple of `num_key_value_heads`. Received: "
            f"num_heads={num_heads}, num_key_value_heads={num_key_value_heads}"
        )


def require_dropout(dropout):
    """Raise `ValueError` unless `dropout` is a probability, the integer 0 among them."""
    no_number = dropout is None or isinstance(dropout, bool)
    if no_number or (isinstance(dropout, numbers.Integral) and dropout != 0):
        number = "N" if no_number else dropout
        raise ValueError(
            "The fourth argument is `dropout`, a probability, as in Keras; the number of key and "
            f"value heads is written num_key_value_heads={number}. Received: dropout={dropout!r}"
        )
    require_rate("dropout", dropout)


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
    masks.require_window(window)
    masks.require_window(sliding_window, "sliding_window")
    if window is not None and sliding_window not in (None, window):
        raise ValueError(
            "`window` and Keras' `sliding_window` are one setting: give one of them. "
            f"Received: window={window}, sliding_window={sliding_window}"
        )
    return sliding_window if window is None else window


def as_tuple(sizes):
    """An integer or several as a tuple; None stays None."""
    return sizes if sizes is None else (sizes,) if isinstance(sizes, int) else tuple(sizes)
