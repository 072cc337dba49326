"""Output tensors as the text of a predict reply.

Row form gives `{"predictions": [...]}` with one element for each row, the other form
`{"outputs": ...}`; one output drops its name. Floating-point numbers are written as TensorFlow
Serving writes them: six significant digits if they read back exactly, else nine (float32) or
seventeen (float64); whole numbers end in `.0`; `NaN` and `Infinity` stand bare.

A string output whose name ends in `_bytes` is written as `{"b64": ...}`. Any other string output
is text; bytes that are not UTF-8 are written as U+FFFD, because TensorFlow Serving's raw bytes
would make the whole reply unreadable for a JSON client. Name the output `..._bytes` to get every
byte.
"""

import base64
import math
from collections.abc import Mapping
from json.encoder import encode_basestring

import numpy as np

from keras_attn.serving.errors import bad_request, quote

_INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"}
_LONG_DIGITS = {"float32": 9, "float64": 17}


def write_predict_reply(outputs: Mapping[str, np.ndarray], by_rows: bool) -> bytes:
    """The JSON text of a reply.

    Args:
        outputs: Arrays by output name.
        by_rows: Whether the request was in row form.

    Raises:
        RequestError: status 400, if a data type cannot be written as JSON, or if rows are asked
            for and an output has none or their numbers differ.
    """
    text = _rows(outputs) if by_rows else _columns(outputs)
    return text.encode("utf-8")


def _rows(outputs: Mapping[str, np.ndarray]) -> str:
    for name, array in outputs.items():
        if array.ndim == 0:
            raise bad_request(
                f"Output {quote(name)} is a scalar and cannot be split into rows; send 'inputs' "
                "instead of 'instances'."
            )
    sizes = {name: len(array) for name, array in outputs.items()}
    if len(set(sizes.values())) > 1:
        raise bad_request(
            "The outputs differ in their number of rows "
            f"({', '.join(f'{name}: {size}' for name, size in sorted(sizes.items()))}); send "
            "'inputs' instead of 'instances'."
        )
    columns = {name: _row_texts(name, array) for name, array in sorted(outputs.items())}
    if len(columns) == 1:
        (rows,) = columns.values()
    else:
        keys = [encode_basestring(name) for name in columns]
        rows = [_object(keys, values) for values in zip(*columns.values(), strict=True)]
    return '{"predictions":[' + ",".join(rows) + "]}"


def _columns(outputs: Mapping[str, np.ndarray]) -> str:
    texts = {name: tensor_text(name, array) for name, array in sorted(outputs.items())}
    if len(texts) == 1:
        (value,) = texts.values()
    else:
        value = _object(map(encode_basestring, texts), texts.values())
    return '{"outputs":' + value + "}"


def _object(keys, values) -> str:
    pairs = zip(keys, values, strict=True)
    return "{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}"


def tensor_text(name: str, array: np.ndarray) -> str:
    """One tensor as JSON: nested lists, or a bare value for rank 0."""
    if array.ndim == 0:
        return _leaf_texts(name, array)[0]
    return "[" + ",".join(_row_texts(name, array)) + "]"


def _row_texts(name: str, array: np.ndarray) -> list[str]:
    """The JSON text of each element of the leading dimension."""
    texts = _leaf_texts(name, array)
    groups = array.size
    for axis in range(array.ndim - 1, 0, -1):
        width = array.shape[axis]
        groups = math.prod(array.shape[:axis])
        texts = [
            "[" + ",".join(texts[start * width : (start + 1) * width]) + "]"
            for start in range(groups)
        ]
    return texts


def _leaf_texts(name: str, array: np.ndarray) -> list[str]:
    """Every value of a tensor as JSON, in row-major order."""
    dtype = array.dtype.name
    flat = array.reshape(-1)
    if dtype in _LONG_DIGITS:
        return float_texts(flat)
    if dtype in _INTEGERS:
        return list(map(str, flat.tolist()))
    if dtype == "bool":
        return ["true" if value else "false" for value in flat.tolist()]
    if dtype == "object":  # strings
        write = _base64_text if name.endswith("_bytes") else _string_text
        return list(map(write, flat.tolist()))
    raise bad_request(
        f"Output {quote(name)} has type {dtype}, which cannot be written as JSON; export the "
        "model with this output cast to float32."
    )


def float_texts(values: np.ndarray) -> list[str]:
    """The JSON tokens of a vector of float32 or float64 numbers; each reads back exactly."""
    numbers = tuple(values.tolist())
    texts = ("%.6g " * len(numbers) % numbers).split()
    with np.errstate(over="ignore", under="ignore"):
        read_back = np.array(list(map(float, texts)), dtype=np.float64).astype(values.dtype)
    long_format = f"%.{_LONG_DIGITS[values.dtype.name]}g"
    for index in np.flatnonzero(read_back != values).tolist():
        texts[index] = long_format % numbers[index]
    for index in np.flatnonzero(values == np.trunc(values)).tolist():
        if "e" not in texts[index] and "." not in texts[index]:
            texts[index] += ".0"
    for index in np.flatnonzero(~np.isfinite(values)).tolist():
        number = numbers[index]
        texts[index] = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    return texts


def _string_text(value: bytes) -> str:
    return encode_basestring(value.decode("utf-8", "replace"))


def _base64_text(value: bytes) -> str:
    return '{"b64":"' + base64.b64encode(value).decode("ascii") + '"}'
