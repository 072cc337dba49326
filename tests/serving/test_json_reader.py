"""The request parser beyond the reference cases."""

import math
import time

import pytest

from keras_attn.serving.errors import RequestError
from keras_attn.serving.json_reader import encode_text, read_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"[Inf, -Inf, Infinity, -Infinity]", [math.inf, -math.inf, math.inf, -math.inf]),
        (b'["Inf", "-NaN", "a\\"Inf", Inf]', ["Inf", "-NaN", 'a"Inf', math.inf]),
        (b'{"a": 1, "b": 2, "a": 3}', {"a": 1, "b": 2}),
        (b'{"a": {"b": 1, "b": 2}}', {"a": {"b": 1}}),
        (b"[1e-999, 1e+05, 18446744073709551616]", [0.0, 1e5, 18446744073709551616]),
        (b"[1] Inf \\ud800 1e999 \xff", [1]),
        (b'"a\\u0000b"', "a\0b"),
        (b'"\\\\ud800"', "\\ud800"),
        (b'"\\ud83d\\ude00\\\\"', "\U0001f600\\"),
    ],
)
def test_what_is_read(text, expected):
    assert read_json(text) == expected


@pytest.mark.parametrize("token", [b"NaN", b"-NaN"])
def test_not_a_number_is_read(token):
    (value,) = read_json(b"[" + token + b"]")

    assert math.isnan(value)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"   ", b"\xef\xbb\xbf", b"[1", b"[1,]", b"{'a': 1}", b"{a: 1}", b"[01]", b"[1.]"),
        *(b"[.5]", b"[+1]", b"[nan]", b"[inf]", b"[INF]", b"[Infi]", b"[Infx]", b"[--1]", b"[0x1]"),
        *(b"[1e999]", b"[-1e400]", b"[" + b"9" * 400 + b"]", b"[1" + b"0" * 310 + b".0]"),
        *(b'["\n"]', b'["\\x"]', b'["\\ud800"]', b'["\\udc80"]', b'["\\ud800\\ud800\\udc00"]'),
        *(b'{"ignored": 1e999}', b"[" * 100_000, b'{"a":' * 100_000, b"// c\n[1]"),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_not_json_is_a_parse_error(text):
    with pytest.raises(RequestError, match="JSON parse error") as caught:
        read_json(text)

    assert caught.value.status == 400


def test_bytes_that_are_not_utf8_are_kept():
    raw = b"\xff a \xed\xa0\x80 \xc3\xbc \xc3"

    assert encode_text(read_json(b'["' + raw + b'"]')[0]) == raw


def test_an_unfinished_string_full_of_quotes_is_refused_quickly():
    text = b'[Inf, "' + b'\\"' * 500_000

    start = time.monotonic()
    with pytest.raises(RequestError):
        read_json(text)

    assert time.monotonic() - start < 5  # a quadratic search would take hours
