"""Every reference request, over real HTTP."""

import json
import re
from pathlib import Path

import pytest

_FILE = Path(__file__).parents[1] / "cases" / "rest_cases.json"
CONTRACT = json.loads(_FILE.read_text(encoding="utf-8"))["cases"]
PREDICT = [case for case in CONTRACT if not case["id"].startswith("classify-")]
CLASSIFY = [case for case in CONTRACT if case["id"].startswith("classify-")]


def _typed(value):
    """A JSON value in which integer and decimal numbers, and NaNs, can be compared."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    return type(value).__name__, repr(value)


def _send(client, case):
    body = None if case["request"] is None else case["request"].encode("utf-8")
    return client.request(case["method"], case["path"], body, case.get("headers"))


def _at(value, path: str):
    for key in path.split("."):
        value = value[key]
    return value


@pytest.mark.parametrize("case", PREDICT, ids=lambda case: case["id"])
def test_reply_is_that_of_tensorflow_serving(demo, case):
    reply = _send(demo, case)
    expect = case["expect"]

    assert reply.status == expect["http"], reply.body
    if "body" in expect:
        assert _typed(reply.json) == _typed(json.loads(expect["body"]))
    for token in expect.get("raw_tokens", []):
        assert re.search(rf"(?<![\w.+-]){re.escape(token)}(?![\w.+-])", reply.body.decode())
    for path, value in expect.get("body_has", {}).items():
        found = _at(reply.json, path)
        found = {key: found[key] for key in value} if isinstance(value, dict) else found
        assert found == value
    if expect.get("empty_body"):
        assert reply.body == b""
    if "error_class" in expect:
        assert reply.error


@pytest.mark.parametrize("case", CLASSIFY, ids=lambda case: case["id"])
def test_classify_is_refused_in_words(demo, case):
    reply = _send(demo, case)

    assert reply.status == 501
    assert "classify" in reply.error
