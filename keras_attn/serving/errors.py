"""What a client is told when a request cannot be answered: an HTTP status and one sentence."""

import json
import re

# TensorFlow's status codes (`tf.errors.OpError.error_code`) mapped to HTTP as TensorFlow
# Serving maps them.
_HTTP_STATUS = {
    1: 499,  # cancelled
    3: 400,  # invalid argument
    4: 504,  # deadline exceeded
    5: 404,  # not found
    6: 409,  # already exists
    7: 403,  # permission denied
    8: 429,  # resource exhausted
    9: 400,  # failed precondition
    10: 409,  # aborted
    11: 400,  # out of range
    12: 501,  # unimplemented
    14: 503,  # unavailable
    16: 401,  # unauthenticated
}

_MESSAGE_LIMIT = 500  # characters of an operation's message that a client is shown
_QUOTE_LIMIT = 60  # characters of a received value that an error message repeats


class RequestError(Exception):
    """A request that is answered with the HTTP `status` and the JSON object `{"error": message}`.

    An empty message sends an empty body.
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = message


def bad_request(message: str) -> RequestError:
    """The client's fault: HTTP status 400."""
    return RequestError(400, message)


def quote(value: object) -> str:
    """A received value as an error message repeats it: printable, and never long."""
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) > _QUOTE_LIMIT:
        text = text[:_QUOTE_LIMIT] + "..."
    return repr(text) if isinstance(value, str) else text


def from_operation(error: Exception) -> RequestError:
    """The reply to a failed model call.

    A `tf.errors.OpError` keeps TensorFlow Serving's HTTP status and the sentence of the operation
    that failed; its stack trace, node names and the source paths they hold stay here.
    """
    status = _HTTP_STATUS.get(getattr(error, "error_code", None), 500)
    sentence = _operation_sentence(str(error)) or type(error).__name__
    return RequestError(status, f"The model could not compute this request: {sentence}")


def _operation_sentence(text: str) -> str:
    """The one sentence of a TensorFlow error message that says what is wrong.

    The message is wrapped as `Graph execution error: Detected at node ... (stack trace) SENTENCE
    [[{{node ...}}]] [Op:...]`, or lists several roots as `(0) INVALID_ARGUMENT: SENTENCE`.
    """
    text = re.split(r"\s*\[\[\{?\{?node ", text, maxsplit=1)[0]
    text = re.sub(r"\s*\[Op:[^\]]*\].*", "", text, flags=re.DOTALL)
    if match := re.search(r"^\s*\(0\)\s+[A-Z_]+:\s*(.*)", text, flags=re.DOTALL | re.MULTILINE):
        text = match[1]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrapped = lines and lines[0].startswith(("Graph execution error", "Detected at node"))
    sentence = (lines[-1] if wrapped else lines[0]) if lines else ""
    sentence = re.sub(r"\{\{function_node [^}]*\}\}\s*", "", sentence)
    sentence = re.sub(r"__inference_\w+", "the model", sentence)
    return sentence[:_MESSAGE_LIMIT]
