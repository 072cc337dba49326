"""A predict request as one array for each input of a signature.

TensorFlow Serving's two forms: `instances`, a list with one element for each row, and `inputs`,
whole tensors. Shapes follow the nesting of the lists; the shape in the signature is not enforced,
so that only an operation that cannot work complains.

An input for which the signature has a default value may be left out. TensorFlow Serving grants this
to gRPC requests; its JSON requests must hold every input.
"""

import binascii
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from keras_attn.serving.errors import RequestError, bad_request, quote
from keras_attn.serving.json_reader import encode_text

_FLOATS = {"float32", "float64"}
_INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"}
_MAX_RANK = 32
_BASE64 = re.compile(r"[A-Za-z0-9+/]*")
_JSON_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a number without fraction",
    float: "a number with fraction",
    bool: "true or false",
    type(None): "null",
}


@dataclass(frozen=True)
class PredictRequest:
    """What a predict request asks for: arrays by input name, and the form of the reply.

    Inputs that the request leaves out are not there.
    """

    arrays: dict[str, np.ndarray]
    by_rows: bool


def signature_name(request: object) -> str:
    """The signature that a parsed request body names; `serving_default` if it names none.

    Raises:
        RequestError: status 400, if the body is not an object or the name not a string.
    """
    if not isinstance(request, dict):
        raise bad_request(f"The request body must be a JSON object. Received: {_kind(request)}.")
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise bad_request(f"'signature_name' must be a string. Received: {_kind(name)}.")
    return name or "serving_default"


def read_predict_request(
    request: dict, inputs: Mapping[str, str], optional: Collection[str] = ()
) -> PredictRequest:
    """Arrays from a parsed request body.

    Args:
        request: The request body, an object with either `instances` or `inputs`.
        inputs: The data type (`"float32"`, `"string"`, ...) of every input of the signature.
        optional: The inputs that may be left out, in row form by all rows alike.

    Returns:
        A `PredictRequest`; string arrays hold `bytes` objects.

    Raises:
        RequestError: status 400 (501 for a data type that JSON cannot carry), if names, types or
            shapes do not fit.
    """
    if not inputs:
        raise bad_request("This signature has no inputs, so it cannot be called by predict.")
    if "instances" in request and "inputs" in request:
        raise bad_request("A request holds either 'instances' or 'inputs', not both.")
    if "instances" in request:
        return PredictRequest(_read_rows(request["instances"], inputs, optional), by_rows=True)
    if "inputs" in request:
        return PredictRequest(_read_columns(request["inputs"], inputs, optional), by_rows=False)
    raise bad_request("A request must hold 'instances' (rows) or 'inputs' (whole tensors).")


def _read_rows(
    rows: object, inputs: Mapping[str, str], optional: Collection[str]
) -> dict[str, np.ndarray]:
    if not isinstance(rows, list):
        raise bad_request(f"'instances' must be a list. Received: {_kind(rows)}.")
    if not rows:
        raise bad_request("'instances' must hold at least one row. Received: an empty list.")
    try:
        if _is_named(rows[0]):
            return _read_named_rows(rows, _given(rows[0], inputs, optional))
        return _read_plain_rows(rows, _unnamed(inputs, optional))
    except RequestError as error:
        # Row form reports every fault of an element as an invalid argument.
        raise bad_request(error.message) from None


def _read_plain_rows(rows: list, inputs: Mapping[str, str]) -> dict[str, np.ndarray]:
    if len(inputs) > 1:
        raise bad_request(
            f"The signature has several inputs ({_names(inputs)}), so every row of 'instances' "
            "must be an object that names them."
        )
    for index, row in enumerate(rows):
        if _is_named(row):
            raise bad_request(f"Row {index} of 'instances' is an object, row 0 is not.")
    ((name, dtype),) = inputs.items()
    return {name: to_array(rows, dtype, f"'instances' for input {quote(name)}")}


def _read_named_rows(rows: list, inputs: Mapping[str, str]) -> dict[str, np.ndarray]:
    for index, row in enumerate(rows):
        if not _is_named(row):
            raise bad_request(f"Row {index} of 'instances' is {_kind(row)}, row 0 is an object.")
        if row.keys() != inputs.keys():
            missing = [name for name in inputs if name not in row]
            unknown = [name for name in row if name not in inputs]
            fault = f"lacks the input {quote(missing[0])}" if missing else ""
            if unknown:
                fault = f"names the unknown input {quote(unknown[0])}"
            alike = ", as those of row 0" if index else ""
            raise bad_request(
                f"Row {index} of 'instances' {fault}; its keys must be exactly {_names(inputs)}"
                f"{alike}."
            )
    return {
        name: to_array([row[name] for row in rows], dtype, f"'instances' for input {quote(name)}")
        for name, dtype in inputs.items()
    }


def _given(named: dict, inputs: Mapping[str, str], optional: Collection[str]) -> dict[str, str]:
    """The inputs without the optional ones that a request leaves out."""
    return {name: dtype for name, dtype in inputs.items() if name in named or name not in optional}


def _unnamed(inputs: Mapping[str, str], optional: Collection[str]) -> Mapping[str, str]:
    """The inputs that a value without a name may mean: without the optional ones, if any remain."""
    return _given({}, inputs, optional) or inputs


def _read_columns(
    value: object, inputs: Mapping[str, str], optional: Collection[str]
) -> dict[str, np.ndarray]:
    if _is_named(value):
        inputs = _given(value, inputs, optional)
    else:
        inputs = _unnamed(inputs, optional)
        if len(inputs) > 1:
            raise bad_request(
                f"The signature has several inputs ({_names(inputs)}), so 'inputs' must be an "
                "object that names them."
            )
        value = dict.fromkeys(inputs, value)
    for name in inputs:
        if name not in value:
            raise bad_request(f"'inputs' lacks the input {quote(name)}.")
    return {
        name: to_array(value[name], dtype, f"'inputs' for input {quote(name)}")
        for name, dtype in inputs.items()
    }


def to_array(value: object, dtype: str, where: str) -> np.ndarray:
    """One JSON value, a scalar or lists nested to any depth, as an array.

    Args:
        value: The value; `{"b64": ...}` is a string.
        dtype: The data type of the input.
        where: What the value is, for error messages.

    Raises:
        RequestError: status 400 if lists of one depth differ in length or a leaf has the wrong
            type, 501 if JSON cannot carry `dtype`.
    """
    shape, leaves = _flatten(value, where)
    if dtype in _FLOATS:
        flat = _float_leaves(leaves, dtype, where)
    elif dtype in _INTEGERS:
        flat = _integer_leaves(leaves, dtype, where)
    elif dtype == "bool":
        _check_types(leaves, {bool}, dtype, where)
        flat = np.array(leaves, dtype=np.bool_)
    elif dtype == "string":
        flat = _string_leaves(leaves, where)
    else:
        raise RequestError(501, f"{where} cannot be given as JSON: its type is {dtype}.")
    return flat.reshape(shape)


def _flatten(value: object, where: str) -> tuple[list[int], list]:
    """The shape of nested lists, and their leaves in row-major order."""
    shape, level = [], [value]
    while level and list in (types := set(map(type, level))):
        if len(types) > 1:
            raise bad_request(f"{where} is ragged: depth {len(shape)} holds lists and values.")
        lengths = set(map(len, level))
        if len(lengths) > 1:
            raise bad_request(
                f"{where} is ragged: lists of length {min(lengths)} and {max(lengths)} at depth "
                f"{len(shape)}."
            )
        shape.append(lengths.pop())
        if len(shape) > _MAX_RANK:
            raise bad_request(f"{where} is nested deeper than {_MAX_RANK} lists.")
        level = list(chain.from_iterable(level))
    return shape, level


def _check_types(leaves: list, allowed: set[type], dtype: str, where: str) -> None:
    if set(map(type, leaves)) <= allowed:
        return
    wrong = next(leaf for leaf in leaves if type(leaf) not in allowed)
    raise bad_request(f"{where} must be {dtype}. Received: {quote(wrong)}.")


def _float_leaves(leaves: list, dtype: str, where: str) -> np.ndarray:
    _check_types(leaves, {int, float}, dtype, where)
    with np.errstate(over="ignore", under="ignore"):  # beyond float32: Infinity and 0
        return np.array(leaves, dtype=np.float64).astype(dtype)


def _integer_leaves(leaves: list, dtype: str, where: str) -> np.ndarray:
    _check_types(leaves, {int}, dtype, where)
    limits = np.iinfo(dtype)
    if leaves and (min(leaves) < limits.min or max(leaves) > limits.max):
        wrong = next(leaf for leaf in leaves if not limits.min <= leaf <= limits.max)
        raise bad_request(f"{where} must be {dtype}. Received: {quote(wrong)}, out of its range.")
    return np.array(leaves, dtype=dtype)


def _string_leaves(leaves: list, where: str) -> np.ndarray:
    _check_types(leaves, {str, dict}, "string", where)
    values = np.empty(len(leaves), dtype=object)  # numpy's own strings would lose trailing NULs
    values[:] = [
        encode_text(leaf) if type(leaf) is str else _decode_base64(leaf, where) for leaf in leaves
    ]
    return values


def _decode_base64(leaf: dict, where: str) -> bytes:
    if not _is_base64(leaf):
        raise bad_request(
            f'{where} holds an object that is not of the form {{"b64": "..."}}: {quote(leaf)}.'
        )
    text = re.sub(r"[ \t\r\n\f\v]", "", leaf["b64"])
    digits = text.rstrip("=")
    padding = len(text) - len(digits)
    well_formed = len(digits) % 4 != 1 and padding in (0, -len(digits) % 4)
    if not (well_formed and _BASE64.fullmatch(digits)):
        raise bad_request(f"{where} holds malformed base64: {quote(leaf['b64'])}.")
    return binascii.a2b_base64(digits + "=" * (-len(digits) % 4))


def _is_base64(value: object) -> bool:
    return type(value) is dict and len(value) == 1 and type(value.get("b64")) is str


def _is_named(value: object) -> bool:
    """Whether a value is an object that names inputs, not a binary string."""
    return type(value) is dict and not _is_base64(value)


def _names(inputs: Mapping[str, str]) -> str:
    return ", ".join(sorted(inputs))


def _kind(value: object) -> str:
    return _JSON_NAMES.get(type(value), type(value).__name__)
