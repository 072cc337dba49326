"""Serve models over HTTP, in the foreground or in a background thread."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from keras_attn.errors import UserError
from keras_attn.serving.model_config import ModelConfig

if TYPE_CHECKING:
    import uvicorn

DEFAULT_PORT = 8501  # TensorFlow Serving's
DEFAULT_TIMEOUT_MS = 30000

_GRACE_SECONDS = 5  # that requests in flight are given when the server stops
_BACKLOG = 2048


def serve(
    models: list[ModelConfig],
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve `models` by TensorFlow Serving's REST interface until Ctrl-C or SIGTERM.

    New versions that appear in a model's directory are loaded while the server runs.

    Args:
        models: The models, see `models_from_flags`.
        host: The address to listen at; `0.0.0.0` for every network interface.
        port: The port to listen at; 0 for any free one.
        timeout_ms: Milliseconds after which a request is answered with 504; 0 for no limit.
        ready: Called with the server's URL once it listens.

    Raises:
        UserError: if the port cannot be used or a model cannot be loaded.

    Example:
        >>> from keras_attn.serving import models_from_flags, serve
        >>> serve(models_from_flags(model_name="dates", model_base_path="/models/dates"),
        ...       ready=print)  # doctest: +SKIP
        http://127.0.0.1:8501
    """
    with (
        _listening_server(models, host, port, timeout_ms) as (server, sock),
        _stopping_at_signals(server),
    ):
        if ready:
            ready(_url(sock))
        server.run(sockets=[sock])


@contextlib.contextmanager
def running_server(
    models: list[ModelConfig],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> Iterator[str]:
    """Serve `models` in a background thread for the length of a `with` block.

    Args:
        models, host, timeout_ms: see `serve`, as the errors.
        port: of the server; 0 for any free one.

    Yields:
        The server's URL, for example `http://127.0.0.1:43211`.

    Example:
        >>> import urllib.request
        >>> import keras
        >>> from keras_attn.serving import export, models_from_flags, running_server
        >>> model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(1)])
        >>> base_path = export(model, "models/served").parent
        >>> models = models_from_flags(model_name="served", model_base_path=base_path)
        >>> with running_server(models) as url:
        ...     urllib.request.urlopen(f"{url}/v1/models/served").status
        200
    """
    with _listening_server(models, host, port, timeout_ms) as (server, sock):
        thread = threading.Thread(
            target=server.run, kwargs={"sockets": [sock]}, name="rest-server", daemon=True
        )
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.005)
            yield _url(sock)
        finally:
            server.should_exit = True
            thread.join()


@contextlib.contextmanager
def _listening_server(
    models: list[ModelConfig], host: str, port: int, timeout_ms: int
) -> Iterator[tuple["uvicorn.Server", socket.socket]]:
    """A server that is ready to run, and the socket it is to listen at."""
    uvicorn = _import_uvicorn()
    # Late, because they import TensorFlow and numpy.
    from keras_attn.serving.model_manager import ModelManager
    from keras_attn.serving.rest_app import RestApp

    with contextlib.ExitStack() as stack:
        sock = stack.enter_context(_bind(host, port))
        manager = ModelManager(models)
        stack.callback(manager.close)
        app = RestApp(manager, timeout_ms)
        stack.callback(app.close)
        _listen(sock, host, port)
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            interface="asgi3",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        yield uvicorn.Server(config), sock


def _import_uvicorn():
    try:
        import uvicorn
    except ImportError:
        raise UserError(
            "Serving needs the package uvicorn, which is not installed: "
            'pip install "keras-attn[demo]".'
        ) from None
    return uvicorn


def _bind(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise UserError(f"A port is a number from 0 to 65535. Received: {port}.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UserError(f"The host {host!r} cannot be used: {error.strerror}.") from None
    if os.name == "posix":  # elsewhere it would share the port with another program
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise _port_error(host, port, error) from None
    return sock


def _listen(sock: socket.socket, host: str, port: int) -> None:
    """Apart from `_bind`: nobody may connect before the models are loaded."""
    try:
        sock.listen(_BACKLOG)
    except OSError as error:
        raise _port_error(host, port, error) from None


def _port_error(host: str, port: int, error: OSError) -> UserError:
    return UserError(
        f"Port {port} of {host} cannot be used ({error.strerror}); stop the program that holds it "
        "or choose another port."
    )


@contextlib.contextmanager
def _stopping_at_signals(server: "uvicorn.Server") -> Iterator[None]:
    """SIGINT and SIGTERM stop the server and nothing else.

    uvicorn handles them while it runs, but afterwards sends itself the signal again, and one that
    comes just before it runs must not be lost.
    """

    def stop(number: int, frame: object) -> None:
        server.should_exit = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
