"""Starting and stopping."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from keras_attn.errors import UserError
from keras_attn.serving import ModelConfig, SpecificVersions, running_server, serve

_ROOT = Path(__file__).parents[2]


def test_a_port_in_use_is_refused_before_models_are_loaded(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(UserError, match=f"Port {port} .* choose another port"):
            serve([ModelConfig("absent", tmp_path / "absent")], port=port)


@pytest.mark.parametrize(
    ("port", "host"), [(70000, "127.0.0.1"), (-1, "127.0.0.1"), (0, "no host")]
)
def test_an_address_that_cannot_exist_is_refused(tmp_path, port, host):
    with pytest.raises(UserError, match=r"Received: |cannot be used"):
        serve([ModelConfig("m", tmp_path)], host=host, port=port)


def test_a_directory_without_a_version_is_refused(tmp_path):
    for name in ("latest", "1.0", "-1", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "3").mkdir()  # an export that has only begun
    (tmp_path / "4").write_text("a file")

    with (
        pytest.raises(UserError, match="holds no version"),
        running_server([ModelConfig("m", tmp_path)]),
    ):
        pass
    with (
        pytest.raises(UserError, match="does not exist"),
        running_server([ModelConfig("m", tmp_path / "absent")]),
    ):
        pass


def test_a_version_that_is_missing_or_broken_is_refused(tmp_path):
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "saved_model.pb").write_bytes(b"not a model")

    for config, words in [
        (ModelConfig("m", tmp_path, SpecificVersions((1, 2))), "Version 1 .* does not exist"),
        (ModelConfig("m", tmp_path), "Version 2 .* cannot be loaded"),
    ]:
        with pytest.raises(UserError, match=words) as caught, running_server([config]):
            pass
        assert "\n" not in str(caught.value)


def test_several_versions_are_served_side_by_side(tmp_path, demo_directory, client):
    for version in ("1", "0002", "30"):
        (tmp_path / version).symlink_to(demo_directory / "1")

    with running_server([ModelConfig("m", tmp_path, SpecificVersions((1, 2)))]) as url:
        user = client(url)
        found = user.request("GET", "/v1/models/m").json["model_version_status"]
        latest = user.request("GET", "/v1/models/m/metadata").json["model_spec"]["version"]

    assert [version["version"] for version in found] == ["2", "1"]
    assert latest == "2"


def test_the_background_server_stops(demo_directory):
    with running_server([ModelConfig("demo", demo_directory)]) as url:
        assert urllib.request.urlopen(f"{url}/v1/models/demo", timeout=10).status == 200

    with pytest.raises(OSError):  # noqa: PT011  refused or reset
        urllib.request.urlopen(f"{url}/v1/models/demo", timeout=10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_as_soon_as_the_server_is_ready_is_not_lost(demo_directory, number):
    rescue = threading.Timer(10, os.kill, (os.getpid(), signal.SIGTERM))
    rescue.start()
    handler = signal.getsignal(number)

    start = time.monotonic()
    serve(
        [ModelConfig("demo", demo_directory)],
        port=0,
        ready=lambda url: signal.raise_signal(number),
    )
    rescue.cancel()

    assert time.monotonic() - start < 8
    assert signal.getsignal(number) is handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_cleanly_and_quietly(demo_directory, number):
    code = (
        "import sys; from keras_attn.serving import *; serve("
        f"[ModelConfig('demo', __import__('pathlib').Path({str(demo_directory)!r}))], port=0,"
        "ready=lambda url: print(url, flush=True)); print('stopped')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        url = process.stdout.readline().strip()
        assert urllib.request.urlopen(f"{url}/v1/models/demo", timeout=10).status == 200
        process.send_signal(number)
        output, errors = process.communicate(timeout=20)
    finally:
        process.kill()

    assert (process.returncode, output) == (0, "stopped\n"), errors
    assert "Traceback" not in errors
    assert "INFO" not in errors
