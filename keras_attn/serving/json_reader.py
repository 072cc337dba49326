"""The text of a request as Python values, by the rules of TensorFlow Serving's JSON parser.

Those rules are RFC 8259 with these differences: the tokens `NaN`, `Inf` and `Infinity` (also
negative) are numbers, a number beyond float64 is an error, the first of duplicate keys wins, a
byte-order mark is skipped, and the parser stops at the end of the first value.

Bytes that are not UTF-8 are kept: Python strings hold them as surrogate escapes, and
`encode_text` gives the bytes back. So a string tensor holds exactly what the client sent.
"""

import json
import math
import re

from keras_attn.serving.errors import bad_request, quote

# Spellings the standard parser does not know.
_RARE_TOKEN = re.compile(r"Inf(?!inity)|-NaN")
# A string (to be left alone, even without its end) or a rare token. Possessive, so that an
# unfinished string cannot make the search quadratic.
_STRING_OR_RARE_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?+|Inf(?!inity)|-NaN', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    r"|(?P<lone>\\u[dD][89a-fA-F])|\\.",
    re.DOTALL,
)
_WHITE_SPACE = re.compile(r"[ \t\r\n]*")


def read_json(body: bytes) -> object:
    """The first JSON value of `body`.

    Objects are dicts, lists lists, numbers without fraction and exponent `int`, others `float`.

    Raises:
        RequestError: status 400, if the text is not JSON.
    """
    text = body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    if _RARE_TOKEN.search(text):
        text = _STRING_OR_RARE_TOKEN.sub(_common_spelling, text)
    start = _WHITE_SPACE.match(text).end()
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if start == len(text):
            raise bad_request("JSON parse error: the request body is empty.") from None
        raise bad_request(
            f"JSON parse error: {error.msg} at character {error.pos} of the request body."
        ) from None
    except RecursionError:
        raise bad_request("JSON parse error: lists or objects are nested too deeply.") from None
    _refuse_lone_surrogates(text, end)
    return value


def encode_text(text: str) -> bytes:
    """The bytes that a JSON string stands for."""
    return text.encode("utf-8", "surrogateescape")


def _common_spelling(match: re.Match) -> str:
    token = match[0]
    return {"Inf": "Infinity", "-NaN": "NaN"}.get(token, token)


def _refuse_lone_surrogates(text: str, end: int) -> None:
    """An escape such as `\\ud800` alone stands for no character."""
    if not _SURROGATE_ESCAPE.search(text, 0, end):
        return
    for match in _ESCAPE.finditer(text, 0, end):
        if match["lone"]:
            raise bad_request(
                f"JSON parse error: half a surrogate pair at character {match.start()} of the "
                "request body."
            )


def _first_wins(pairs: list[tuple[str, object]]) -> dict:
    values = dict(pairs)
    if len(values) < len(pairs):
        values = dict(reversed(pairs))
    return values


def _finite_float(token: str) -> float:
    value = float(token)
    if math.isinf(value):
        raise bad_request(f"JSON parse error: the number {quote(token)} is beyond float64.")
    return value


def _number_without_fraction(token: str) -> int | float:
    """An integer; beyond 64 bits it is a floating-point number, as in TensorFlow Serving."""
    return int(token) if len(token) <= 21 else _finite_float(token)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_first_wins, parse_float=_finite_float, parse_int=_number_without_fraction
)
