"""TensorFlow Serving's REST interface as an ASGI application.

A predict request is parsed, computed and written in a thread pool, so that a slow model keeps
neither other requests nor the status of its versions waiting.
"""

import asyncio
import json
import logging
import os
import zlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from keras_attn.serving.errors import RequestError, bad_request
from keras_attn.serving.json_reader import read_json
from keras_attn.serving.model_manager import ModelManager
from keras_attn.serving.reply_json import write_predict_reply
from keras_attn.serving.request_tensors import read_predict_request, signature_name
from keras_attn.serving.rest_routes import Route, find_route, is_api_path
from keras_attn.serving.servable import Cancellation

MAX_BODY_BYTES = 64 * 2**20  # of a request body, before and after gzip
# What is read (and thrown away) of a body that is too large, so that the client, which still
# sends, gets to read the answer.
_MAX_DISCARDED_BYTES = 4 * MAX_BODY_BYTES
_ORIGIN = b"http://", b"https://"
_GZIP = 16 + zlib.MAX_WBITS

_log = logging.getLogger("keras_attn.serving")

Send = Callable[[dict], Awaitable[None]]
Receive = Callable[[], Awaitable[dict]]


class RestApp:
    """The ASGI application over the models of `manager`.

    Args:
        manager: The loaded models.
        timeout_ms: How long one request may wait and compute before it is answered with 504;
            0 for no limit.
        threads: How many requests compute at once; four for each CPU if not given, as in
            TensorFlow Serving.
    """

    def __init__(self, manager: ModelManager, timeout_ms: int = 30000, threads: int | None = None):
        self._manager = manager
        self._timeout_ms = timeout_ms
        self._pool = ThreadPoolExecutor(threads or 4 * (os.cpu_count() or 1), "rest")

    def close(self) -> None:
        """Refuse further work; calls that wait are dropped, calls that run end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: dict, receive: Receive, send: Send) -> None:
        try:
            body = await self._answer(scope, receive)
            status = 200
        except RequestError as error:
            body, status = _error_body(error.message), error.status
        except Exception:
            _log.exception("A request failed in the server.")
            body, status = _error_body("The server failed at this request; see its log."), 500
        headers = [(b"content-type", b"application/json")]
        if status == 413:
            headers.append((b"connection", b"close"))
        if scope["method"] == "HEAD":
            body = b""
        headers.append((b"content-length", str(len(body)).encode("ascii")))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: dict, receive: Receive) -> bytes:
        target = scope["raw_path"]
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        if not is_api_path(target):
            raise RequestError(404, "There is nothing here; models are under /v1/models/NAME.")
        if scope["method"] == "OPTIONS":
            return _preflight(scope)
        route = find_route(scope["method"], target)
        body = await _read_body(scope, receive)
        if route.action == "predict":
            return await self._predict_in_pool(route, body)
        return self._describe(route)

    async def _predict_in_pool(self, route: Route, body: bytes) -> bytes:
        timeout = self._timeout_ms / 1000 if self._timeout_ms > 0 else None
        cancellation = Cancellation()
        work = asyncio.get_running_loop().run_in_executor(
            self._pool, self._predict, route, body, cancellation
        )
        try:
            return await asyncio.wait_for(work, timeout)
        except TimeoutError:
            cancellation.cancel()
            raise RequestError(
                504, f"The model did not answer within {self._timeout_ms} milliseconds."
            ) from None
        except asyncio.CancelledError:  # the server stops and waits no longer
            cancellation.cancel()
            raise

    def _describe(self, route: Route) -> bytes:
        if route.action == "status":
            return _json(self._manager.status(route.name, route.version, route.label))
        if route.action == "metadata":
            servable = self._manager.servable(route.name, route.version, route.label)
            return _json(servable.metadata(route.name))
        raise RequestError(501, f"This server has no {route.action}; use predict.")

    def _predict(self, route: Route, body: bytes, cancellation: Cancellation) -> bytes:
        request = read_json(body)
        name = signature_name(request)
        servable = self._manager.servable(route.name, route.version, route.label)
        signature = servable.signature(name)
        predict = read_predict_request(request, signature.inputs, signature.defaults.keys())
        outputs = servable.run(signature, predict.arrays, cancellation)
        return write_predict_reply(outputs, predict.by_rows)


def _preflight(scope: dict) -> bytes:
    if not _header(scope, b"origin").startswith(_ORIGIN):
        raise RequestError(400, "")
    return b""


async def _read_body(scope: dict, receive: Receive) -> bytes:
    unpack = _Gunzip() if b"gzip" in _header(scope, b"content-encoding").lower() else None
    parts, kept, received = [], 0, 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bad_request("The client left before its request was complete.")
        more = message.get("more_body", False)
        part = message.get("body", b"")
        received += len(part)
        if kept <= MAX_BODY_BYTES:
            part = unpack.feed(part, MAX_BODY_BYTES + 1 - kept) if unpack else part
            parts.append(part)
            kept += len(part)
        if kept > MAX_BODY_BYTES:
            parts.clear()
            if received > _MAX_DISCARDED_BYTES:
                break
    if kept > MAX_BODY_BYTES:
        raise RequestError(
            413, f"The request body is larger than {MAX_BODY_BYTES} bytes; send smaller batches."
        )
    if unpack:
        unpack.check_complete()
    return b"".join(parts)


class _Gunzip:
    """Unpacks a gzip stream, never more at once than is asked for."""

    def __init__(self):
        self._stream = zlib.decompressobj(_GZIP)

    def feed(self, data: bytes, limit: int) -> bytes:
        """At most `limit` bytes of what `data` holds; a caller that reaches it gives up."""
        unpacked = []
        while data and limit > 0:
            if self._stream.eof:  # gzip streams may follow one another
                self._stream = zlib.decompressobj(_GZIP)
            try:
                part = self._stream.decompress(data, limit)
            except zlib.error:
                raise bad_request("The request body is not gzip, as its header says.") from None
            unpacked.append(part)
            limit -= len(part)
            data = self._stream.unconsumed_tail or self._stream.unused_data
        return b"".join(unpacked)

    def check_complete(self) -> None:
        if not self._stream.eof:
            raise bad_request("The gzip stream of the request body ends too early.")


def _header(scope: dict, name: bytes) -> bytes:
    return b",".join(value for key, value in scope["headers"] if key == name)


def _json(value: dict) -> bytes:
    return json.dumps(value).encode("utf-8")


def _error_body(message: str) -> bytes:
    if not message:
        return b""
    printable = message.encode("utf-8", "replace").decode("utf-8")
    return _json({"error": printable})
