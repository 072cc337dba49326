"""One served model for all REST tests: the one that `tests/cases/rest_cases.json` speaks of."""

import http.client
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from keras_attn.serving import ModelConfig, running_server

CASES = Path(__file__).parents[1] / "cases"


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: dict

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of an error reply, which has no other key."""
        ((key, message),) = self.json.items()
        assert key == "error"
        assert isinstance(message, str)
        return message


class Client:
    """Sends a method, a raw path and a body as they are."""

    def __init__(self, url: str):
        self.address = urlsplit(url).netloc

    def request(self, method: str, path: str, body=None, headers=None) -> Reply:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return Reply(response.status, response.read(), dict(response.getheaders()))
        finally:
            connection.close()

    def predict(self, request, model: str = "demo", **options) -> Reply:
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        return self.request("POST", f"/v1/models/{model}:predict", body, **options)


def _save_model(directory: Path, version: int, **signatures) -> None:
    """Write a SavedModel with one signature for every (function, name, shape, dtype)."""
    import tensorflow as tf

    def trace(function, name, shape, dtype):
        spec = tf.TensorSpec(shape, dtype, name=name)
        return tf.function(function, input_signature=[spec]).get_concrete_function()

    tf.saved_model.save(
        tf.Module(),
        str(directory / str(version)),
        signatures={key: trace(*signature) for key, signature in signatures.items()},
    )


@pytest.fixture(scope="session")
def save_model():
    return _save_model


@pytest.fixture(scope="session")
def client():
    """Makes a client of the server at a URL."""
    return Client


@pytest.fixture(scope="session")
def demo_directory(tmp_path_factory) -> Path:
    spec = importlib.util.spec_from_file_location("make_rest_model", CASES / "make_rest_model.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    directory = tmp_path_factory.mktemp("rest")
    maker.main(directory)
    return directory / "demo"


@pytest.fixture(scope="session")
def demo(demo_directory) -> Client:
    model = ModelConfig("demo", demo_directory, labels={"stable": 1, "gone": 7})
    with running_server([model]) as url:
        yield Client(url)
