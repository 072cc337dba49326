"""Arrays from request values, beyond the reference cases."""

import numpy as np
import pytest

from keras_attn.serving.errors import RequestError
from keras_attn.serving.request_tensors import read_predict_request, to_array


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int8", -128, 127),
        ("uint8", 0, 255),
        ("int16", -(2**15), 2**15 - 1),
        ("int32", -(2**31), 2**31 - 1),
        ("uint32", 0, 2**32 - 1),
        ("int64", -(2**63), 2**63 - 1),
        ("uint64", 0, 2**64 - 1),
    ],
)
def test_integers_are_exact_up_to_their_limits_and_refused_beyond(dtype, low, high):
    assert to_array([low, high], dtype, "x").tolist() == [low, high]
    for beyond in (low - 1, high + 1):
        with pytest.raises(RequestError, match="out of its range"):
            to_array([0, beyond], dtype, "x")


@pytest.mark.parametrize(
    ("value", "shape"),
    [(5, ()), ([], (0,)), ([[], []], (2, 0)), ([[[1], [2]]], (1, 2, 1)), ([[[]]], (1, 1, 0))],
)
def test_shape_is_the_nesting_of_the_lists(value, shape):
    assert to_array(value, "float32", "x").shape == shape


@pytest.mark.parametrize("value", [[[1], []], [[1], 2], [1, [2]], [[[1]], [2]], [[[1], [2, 3]]]])
def test_ragged_lists_are_refused(value):
    with pytest.raises(RequestError, match="ragged"):
        to_array(value, "float32", "x")


@pytest.mark.parametrize("text", ["aGk=", "aGk", "", "/+8=", "a Gk=\n"])
def test_base64_is_decoded(text):
    expected = {"": b"", "/+8=": b"\xff\xef"}.get(text, b"hi")

    assert to_array({"b64": text}, "string", "x").item() == expected


@pytest.mark.parametrize("text", ["a", "aGk==", "aG=k", "_-8=", "a\x00Gk", "é", "===="])
def test_malformed_base64_is_refused(text):
    with pytest.raises(RequestError, match="malformed base64"):
        to_array([{"b64": text}], "string", "x")


def test_strings_keep_trailing_nulls():
    assert to_array(["a\0\0", "\0"], "string", "x").tolist() == [b"a\0\0", b"\0"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint16", "complex64"])
def test_a_type_without_json_form_is_400_in_rows_and_501_in_columns(dtype):
    for form, status in (("instances", 400), ("inputs", 501)):
        with pytest.raises(RequestError, match=dtype) as caught:
            read_predict_request({form: [1]}, {"x": dtype})
        assert caught.value.status == status


def test_rows_must_all_be_named_or_all_be_plain():
    for rows in ([{"x": 1}, 2], [1, {"x": 2}], [{"x": 1}, {"b64": "aGk="}]):
        with pytest.raises(RequestError, match="Row 1"):
            read_predict_request({"instances": rows}, {"x": "float32"})


def test_columns_may_differ_in_batch_size():
    request = read_predict_request({"inputs": {"a": [1, 2], "b": 3}}, {"a": "int32", "b": "int64"})

    assert request.arrays["a"].shape == (2,)
    assert request.arrays["b"].shape == ()
    assert not request.by_rows


def test_float32_rounds_and_overflows_as_the_field_does():
    array = to_array([16777217, 1e300, -1e300, 1e-300, float("nan")], "float32", "x")

    np.testing.assert_array_equal(
        array, np.array([16777216, np.inf, -np.inf, 0, np.nan], np.float32)
    )


INPUTS = {"n": "int32", "x": "string"}


@pytest.mark.parametrize(
    ("request_body", "given"),
    [
        ({"instances": ["a", "b"]}, {"x"}),
        ({"instances": [{"x": "a"}, {"x": "b"}]}, {"x"}),
        ({"instances": [{"x": "a", "n": 1}, {"x": "b", "n": 2}]}, {"x", "n"}),
        ({"inputs": ["a", "b"]}, {"x"}),
        ({"inputs": {"x": ["a", "b"]}}, {"x"}),
        ({"inputs": {"x": ["a", "b"], "n": 5}}, {"x", "n"}),
    ],
)
def test_an_input_with_a_default_may_be_left_out(request_body, given):
    request = read_predict_request(request_body, INPUTS, {"n"})

    assert request.arrays.keys() == given
    assert request.arrays["x"].tolist() == [b"a", b"b"]


@pytest.mark.parametrize(
    "request_body",
    [
        {"instances": [{"n": 1}]},
        {"instances": [{"x": "a", "n": 1}, {"x": "b"}]},
        {"instances": [{"x": "a"}, {"x": "b", "n": 1}]},
        {"inputs": {"n": 1}},
    ],
)
def test_other_inputs_and_those_of_some_rows_may_not_be_left_out(request_body):
    with pytest.raises(RequestError, match=r"lacks the input|names the unknown input"):
        read_predict_request(request_body, INPUTS, {"n"})


def test_a_plain_value_is_the_only_input_even_if_it_has_a_default():
    request = read_predict_request({"instances": [3]}, {"n": "int32"}, {"n"})
    assert request.arrays["n"].tolist() == [3]
    with pytest.raises(RequestError, match="several inputs"):
        read_predict_request({"instances": [3]}, {"n": "int32", "m": "int32"}, {"n", "m"})
