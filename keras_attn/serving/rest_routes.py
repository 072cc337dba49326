"""Which request a method and a raw path stand for, by TensorFlow Serving's strict rules.

The path is matched as it came: letter case is ignored except in the verb, a query string, a
trailing slash or an escaped colon match nothing, and the name and the label are percent-decoded
after the match.
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from keras_attn.serving.errors import RequestError, bad_request, quote

# Bytes patterns: IGNORECASE then knows ASCII letters only.
_VERSION_OR_LABEL = rb"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:?]+))?"
_MODEL = rb"/v1/models/(?P<name>[^/:?]+)" + _VERSION_OR_LABEL
_CALL = re.compile(_MODEL + rb":(?P<action>(?-i:classify|regress|predict))", re.IGNORECASE)
_LOOK = re.compile(_MODEL + rb"(?:/(?P<action>metadata))?", re.IGNORECASE)
_API = re.compile(rb"/v1/.*", re.IGNORECASE | re.DOTALL)
_MAX_VERSION = 2**63 - 1


@dataclass(frozen=True)
class Route:
    """What is asked of which model: predict, classify, regress, status or metadata."""

    action: str
    name: str
    version: int | None = None
    label: str | None = None


def is_api_path(target: bytes) -> bool:
    """Whether a path belongs to the REST interface at all."""
    return _API.fullmatch(target) is not None


def find_route(method: str, target: bytes) -> Route:
    """The route of a method and a raw path, query string included.

    Raises:
        RequestError: status 400; with an empty message for a version number beyond int64.
    """
    pattern = {"POST": _CALL, "GET": _LOOK}.get(method)
    match = pattern.fullmatch(target) if pattern else None
    if not match:
        raise bad_request(f"Malformed request: {method} {quote(target.decode('latin-1'))}.")
    return Route(
        action=(match["action"] or b"status").decode("ascii").lower(),
        name=_decode(match["name"]),
        version=_version(match["version"]) if match["version"] else None,
        label=_decode(match["label"]) if match["label"] else None,
    )


def _version(digits: bytes) -> int:
    digits = digits.lstrip(b"0") or b"0"
    if len(digits) > 19 or int(digits) > _MAX_VERSION:
        raise RequestError(400, "")
    return int(digits)


def _decode(part: bytes) -> str:
    return unquote_to_bytes(part).decode("utf-8", "surrogateescape")
