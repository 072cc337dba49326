"""The server under real HTTP, beyond the reference cases."""

import base64
import gzip
import http.client
import itertools
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf

from keras_attn.serving import ModelConfig, rest_app, running_server

KERAS_ATTN = [sys.executable, "-c", "from keras_attn.cli import main; main()"]

_HALF = json.dumps({"instances": [2.0]}).encode()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("POST", "/v2/models/demo:predict", 404),
        ("OPTIONS", "/elsewhere", 404),
        ("GET", "/v1/models", 400),
        ("GET", "/v1/models/demo:predict", 400),
        ("PUT", "/v1/models/demo:predict", 400),
        ("DELETE", "/v1/models/demo", 400),
        ("GET", "/v1/models/demo?x=1", 400),
        ("POST", "/v1/models/demo%3Apredict", 400),
        ("POST", "/v1/models/demo:predict/", 400),
        ("POST", "/v1//models/demo:predict", 400),
        ("POST", "/v1/models/demo/versions/2:predict", 404),
        ("POST", "/v1/models/demo/versions/x:predict", 400),
        ("POST", "/v1/models/demo/labels/gone:predict", 404),
        ("GET", "/v1/models/demo/versions/2", 404),
        ("GET", "/v1/models/demo/labels/ghost", 400),
        ("GET", "/v1/models/ghost/metadata", 404),
        ("POST", "/v1/models/demo:regress", 501),
    ],
)
def test_strict_paths(demo, method, path, status):
    reply = demo.request(method, path, _HALF)

    assert reply.status == status
    assert reply.error


@pytest.mark.parametrize(
    "path",
    [
        "/V1/MODELS/demo",
        "/v1/models/demo/versions/1",
        "/v1/models/demo/Versions/0001",
        "/v1/models/demo/labels/st%61ble",
    ],
)
def test_status_of_one_version(demo, path):
    reply = demo.request("GET", path)

    assert reply.status == 200
    assert reply.json["model_version_status"][0]["state"] == "AVAILABLE"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_version_beyond_int64_is_refused_without_words(demo, method):
    action = ":predict" if method == "POST" else ""
    last = demo.request(method, f"/v1/models/demo/versions/{2**63 - 1}{action}", _HALF)
    beyond = demo.request(method, f"/v1/models/demo/versions/{2**63}{action}", _HALF)
    far = demo.request(method, f"/v1/models/demo/versions/{'9' * 5000}{action}", _HALF)

    assert last.status == 404
    assert (beyond.status, beyond.body) == (400, b"")
    assert (far.status, far.body) == (400, b"")


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 400), ({"Origin": "null"}, 400), ({"Origin": "https://a.example"}, 200)],
)
def test_preflight_needs_an_origin_and_has_no_body(demo, headers, status):
    reply = demo.request("OPTIONS", "/v1/models/demo:predict", headers=headers)

    assert (reply.status, reply.body) == (status, b"")
    assert not [name for name in reply.headers if name.lower().startswith("access-control")]


def test_metadata_has_every_signature_of_the_model(demo):
    reply = demo.request("GET", "/v1/models/demo/versions/1/metadata").json

    signatures = reply["metadata"]["signature_def"]["signature_def"]
    assert len(signatures) == 23  # those of the model and TensorFlow's own initialiser
    assert signatures["f_any"]["inputs"]["x"]["tensor_shape"] == {"dim": [], "unknown_rank": True}
    assert signatures["multi"]["outputs"]["n"]["dtype"] == "DT_INT32"
    assert signatures["multi"]["defaults"] == {}


@pytest.mark.parametrize("members", [(_HALF,), (_HALF[:5], _HALF[5:])])
def test_gzip_bodies_are_unpacked(demo, members):
    body = b"".join(map(gzip.compress, members))

    reply = demo.predict(body, headers={"Content-Encoding": "gzip"})

    assert reply.json == {"predictions": [3.0]}


@pytest.mark.parametrize(
    "body", [gzip.compress(_HALF, mtime=0)[:-12], b"", _HALF], ids=["cut", "empty", "not packed"]
)
def test_a_body_that_is_not_whole_gzip_is_refused(demo, body):
    reply = demo.predict(body, headers={"Content-Encoding": "gzip"})

    assert reply.status == 400
    assert "gzip" in reply.error


def test_chunked_bodies_are_put_together(demo):
    connection = http.client.HTTPConnection(demo.address, timeout=30)
    chunks = (bytes([byte]) for byte in _HALF)
    connection.request("POST", "/v1/models/demo:predict", chunks, encode_chunked=True)

    assert json.loads(connection.getresponse().read()) == {"predictions": [3.0]}
    connection.close()


def test_one_connection_answers_several_requests(demo):
    connection = http.client.HTTPConnection(demo.address, timeout=30)
    for path, status in [("demo:predict", 200), ("ghost:predict", 404), ("demo:predict", 200)]:
        connection.request("POST", f"/v1/models/{path}", _HALF)
        response = connection.getresponse()
        response.read()
        assert response.status == status
    connection.close()


@pytest.mark.parametrize("packed", [False, True])
def test_a_body_over_the_limit_is_refused_and_the_server_lives(demo, monkeypatch, packed):
    monkeypatch.setattr(rest_app, "MAX_BODY_BYTES", 10_000)
    fits = _HALF + b" " * (10_000 - len(_HALF))
    encode = gzip.compress if packed else bytes
    headers = {"Content-Encoding": "gzip"} if packed else {}

    assert demo.predict(encode(fits), headers=headers).status == 200
    for size in (1, 2_000_000):
        reply = demo.predict(encode(fits + b" " * size), headers=headers)
        assert reply.status == 413
        assert "10000 bytes" in reply.error
    assert demo.predict(_HALF).status == 200


def test_a_gzip_bomb_is_not_unpacked_beyond_the_limit(demo, monkeypatch):
    monkeypatch.setattr(rest_app, "MAX_BODY_BYTES", 10_000)
    unpacked = []
    feed = rest_app._Gunzip.feed

    def record(self, data, limit):
        unpacked.append(feed(self, data, limit))
        return unpacked[-1]

    monkeypatch.setattr(rest_app._Gunzip, "feed", record)
    reply = demo.predict(gzip.compress(bytes(10**7)), headers={"Content-Encoding": "gzip"})

    assert reply.status == 413
    assert len(b"".join(unpacked)) == 10_001


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xed\xa0\x80", b"\xc3"])
def test_bytes_that_are_not_utf8_reach_the_model_as_they_are(demo, raw):
    exact = demo.predict(b'{"signature_name": "s_bin", "inputs": ["' + raw + b'"]}')
    text = demo.predict(b'{"signature_name": "s_any", "inputs": ["' + raw + b'"]}')
    named = demo.predict(b'{"signature_name": "' + raw + b'", "inputs": [1]}')
    path = demo.request("GET", "/v1/models/" + "".join(f"%{byte:02x}" for byte in raw))

    assert exact.json["outputs"] == [{"b64": base64.b64encode(raw).decode()}]
    assert set(text.json["outputs"][0]) == {"\ufffd"}
    assert (named.status, path.status) == (400, 404)
    assert named.error
    assert path.error


def test_null_characters_go_through(demo):
    reply = demo.predict({"signature_name": "s_any", "instances": ["a\0b\0", "\0"]})

    assert reply.json == {"predictions": ["a\0b\0", "\0"]}
    assert demo.request("GET", "/v1/models/demo%00").status == 404


def test_a_failing_operation_is_told_in_one_sentence(demo):
    reply = demo.predict({"signature_name": "drop_rank", "instances": [1, 2]})

    assert reply.status == 400
    # The kernel that refuses, and with it the rest of the sentence, depends on the processor.
    assert reply.error.startswith("The model could not compute this request: In[0] ")
    assert "ndims must be " in reply.error
    for trace in ("\n", "node", "Op:", "__inference", "stack", "File"):
        assert trace not in reply.error


def test_concurrent_requests_get_their_own_answers(demo):
    def ask(number):
        rows = [float(number), float(-number)] * (1 + number % 3)
        return demo.predict({"signature_name": "f_any", "instances": rows}).json, rows

    with ThreadPoolExecutor(50) as pool:
        for reply, rows in pool.map(ask, range(50)):
            assert reply == {"predictions": rows}


def test_a_large_numeric_body_is_answered_in_seconds(demo):
    rows = [[(row * 37 + column) / 1000 for column in range(100)] for row in range(2000)]

    start = time.monotonic()
    reply = demo.predict({"signature_name": "d_any", "instances": rows})

    assert reply.json["predictions"] == rows
    assert time.monotonic() - start < 10


@pytest.fixture(scope="module")
def slow(tmp_path_factory, save_model, client):
    """A model that counts to x, served with a time limit of 300 ms.

    It has a process of its own: calls that should have been stopped and were not would hold the
    threads of TensorFlow from every other test.
    """

    def count(x):
        return {"y": tf.while_loop(lambda i: i < x, lambda i: i + 1, [tf.constant(0)])[0]}

    directory = tmp_path_factory.mktemp("slow")
    save_model(directory, 1, serving_default=(count, "x", [], tf.int32))
    flags = ["--model_name=slow", f"--model_base_path={directory}", "--rest_api_port=0"]
    command = [*KERAS_ATTN, "serve", *flags, "--rest_api_timeout_in_ms=300"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        yield client(server.stdout.readline().removesuffix("/v1/models/slow\n"))
        server.kill()


def test_a_model_that_takes_too_long_is_answered_with_504(slow):
    slow.predict({"inputs": 1}, model="slow")

    start = time.monotonic()
    reply = slow.predict({"inputs": 1_000_000}, model="slow")

    assert reply.status == 504
    assert "300 milliseconds" in reply.error
    assert time.monotonic() - start < 5
    assert slow.request("GET", "/v1/models/slow").status == 200


def test_calls_that_never_end_do_not_use_up_the_threads(slow):
    slow.predict({"inputs": 1}, model="slow")

    with ThreadPoolExecutor(40) as pool:
        endless = [{"inputs": 2**31 - 1}] * 40
        statuses = list(pool.map(lambda body: slow.predict(body, model="slow").status, endless))

    assert statuses == [504] * 40
    _wait(lambda: slow.predict({"inputs": 3}, model="slow").status == 200)


def _add(number):
    return lambda x: {"y": x + number}


def test_a_new_version_replaces_the_old_without_a_failed_request(
    tmp_path, save_model, client, caplog
):
    save_model(tmp_path, 9, serving_default=(_add(9.0), "x", [None], tf.float32))
    failures, answers = [], []
    stop = threading.Event()

    def ask_on(user):
        while not stop.is_set():
            reply = user.predict({"instances": [0.0]}, model="m")
            answers.append(
                reply.json["predictions"][0]
            ) if reply.status == 200 else failures.append(reply)

    with running_server([ModelConfig("m", tmp_path)]) as url:
        user = client(url)
        asker = threading.Thread(target=ask_on, args=(user,))
        asker.start()
        try:
            (tmp_path / "11").mkdir()
            (tmp_path / "11" / "saved_model.pb").write_bytes(b"not a model")
            _wait(lambda: len(_states(user)) == 2)
            assert _states(user) == {"11": "END", "9": "AVAILABLE"}
            save_model(tmp_path, 10, serving_default=(_add(10.0), "x", [None], tf.float32))
            save_model(tmp_path, 12, serving_default=(_add(12.0), "x", [None], tf.float32))
            _wait(lambda: _states(user).get("12") == "AVAILABLE")
            _wait(lambda: _states(user)["9"] == "END")
            old = user.request("POST", "/v1/models/m/versions/9:predict", _HALF)
            _wait(lambda: answers[-1] == 12.0)
        finally:
            stop.set()
            asker.join()

    assert not failures
    assert [value for value, _ in itertools.groupby(answers)] in ([9.0, 12.0], [9.0, 10.0, 12.0])
    assert old.status == 404
    broken = [record for record in caplog.records if "Version 11" in record.getMessage()]
    assert len(broken) == 1  # told once, not every second
    assert "\n" not in broken[0].getMessage()


def _states(user) -> dict:
    versions = user.request("GET", "/v1/models/m").json["model_version_status"]
    return {version["version"]: version["state"] for version in versions}


def _wait(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
