"""Replies: number formats, nesting, and strings that are not text."""

import json
import struct

import numpy as np
import pytest

from keras_attn.serving.errors import RequestError
from keras_attn.serving.reply_json import float_texts, tensor_text, write_predict_reply


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 9), (np.float64, 17)])
def test_every_float_reads_back_exactly_from_six_or_all_digits(dtype, digits):
    random = np.random.default_rng(7)
    size = np.dtype(dtype).itemsize
    any_bits = np.frombuffer(random.bytes(20_000 * size), dtype)
    whole = random.integers(-(10**7), 10**7, 2000)
    values = [any_bits[np.isfinite(any_bits)], random.normal(size=2000), whole, [0.0, -0.0]]
    values = np.concatenate(values).astype(dtype)

    texts = float_texts(values)

    read = np.array([float(text) for text in texts]).astype(dtype)
    assert read.tobytes() == values.tobytes()  # the sign of zero included
    for text, value in zip(texts, values.tolist(), strict=True):
        assert isinstance(json.loads(text), float), text
        short = f"{value:.6g}"
        plain = short if dtype(float(short)) == dtype(value) else f"{value:.{digits}g}"
        assert text in (plain, plain + ".0")


def test_float_formats():
    values = np.array([1e6, 999999, 1e5, 0.0001, 0.00001, -2, 16777216, np.nan, np.inf, -np.inf])

    assert float_texts(values) == [
        *("1e+06", "999999.0", "100000.0", "0.0001", "1e-05", "-2.0", "16777216.0"),
        *("NaN", "Infinity", "-Infinity"),
    ]


def test_the_smallest_and_largest_floats_are_written():
    bits = [0x00000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF]
    values = np.array([struct.unpack("f", struct.pack("I", bit))[0] for bit in bits], np.float32)

    read = np.array(list(map(float, float_texts(values)))).astype(np.float32)

    np.testing.assert_array_equal(read, values)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (0, 2), (2, 3), (2, 0, 3), (2, 1, 3)])
def test_nesting_is_the_shape(shape):
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape)

    assert json.loads(tensor_text("x", array)) == array.tolist()


def test_strings_that_are_not_utf8_still_give_json():
    array = np.array([b"\xff\xfe", b'a\0"\\\n\x1f', "ü\u2028".encode()], dtype=object)

    reply = json.loads(write_predict_reply({"text": array}, by_rows=True).decode("utf-8"))

    assert reply == {"predictions": ["\ufffd\ufffd", 'a\0"\\\n\x1f', "ü\u2028"]}


def test_bytes_are_exact_under_a_name_that_says_so():
    array = np.array([b"\xff\xfe", b""], dtype=object)

    reply = json.loads(write_predict_reply({"text_bytes": array}, by_rows=False))

    assert reply == {"outputs": [{"b64": "//4="}, {"b64": ""}]}


def test_rows_need_the_same_number_from_every_output():
    outputs = {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)}

    with pytest.raises(RequestError, match="a: 2, b: 3"):
        write_predict_reply(outputs, by_rows=True)
    assert json.loads(write_predict_reply(outputs, by_rows=False))["outputs"]["b"] == [0, 0, 0]
