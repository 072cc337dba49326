"""What is said of a cluster whose workers do not all come, or not all to the same one."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from processes import free_ports

from keras_attn.errors import UserError
from keras_attn.training import make_strategy
from keras_attn.training.meeting import SECONDS_VARIABLE, meet


def _names(number=3):
    ports = enumerate(free_ports(number))
    return {f"worker {index}": f"127.0.0.1:{port}" for index, port in ports}


def _met(*arguments):
    """What each of the meetings that begin together ended with: None or the sentence."""

    def one(names, name):
        try:
            return meet(names, name)
        except UserError as error:
            return str(error)

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(one, *zip(*arguments, strict=True)))


def test_workers_of_one_cluster_meet_and_leave_their_addresses_to_tensorflow():
    names = _names()
    assert _met(*((names, name) for name in names)) == [None] * 3
    for address in names.values():
        socket.create_server(("127.0.0.1", int(address.rsplit(":", 1)[1]))).close()


def test_a_worker_that_never_comes_is_named_with_its_address(monkeypatch):
    monkeypatch.setenv(SECONDS_VARIABLE, "1")
    names = _names()
    for sentence in _met((names, "worker 0"), (names, "worker 2")):
        assert sentence.startswith(f"Worker 1 ({names['worker 1']}) does not answer after 1 sec")


def test_a_process_that_is_no_worker_is_none_that_has_come(monkeypatch):
    monkeypatch.setenv(SECONDS_VARIABLE, "0.5")
    names = _names(2)
    with socket.create_server(("127.0.0.1", int(names["worker 1"].rsplit(":", 1)[1]))):
        (sentence,) = _met((names, "worker 0"))
    assert "Worker 1 (127.0.0.1:" in sentence


def test_other_clusters_are_named_by_all(monkeypatch):
    monkeypatch.setenv(SECONDS_VARIABLE, "20")
    names = _names(2)
    longer = {**names, "worker 2": "127.0.0.1:9"}
    for sentence in _met((names, "worker 0"), (longer, "worker 1")):
        assert sentence.startswith("The workers were started with different clusters in TF_CONFIG")
        assert "worker 2 127.0.0.1:9" in sentence


def test_a_worker_that_is_started_twice_is_one_sentence():
    names = _names(2)
    with socket.create_server(("", int(names["worker 1"].rsplit(":", 1)[1]))):
        (sentence,) = _met((names, "worker 1"))
    assert sentence.startswith(f"worker 1 cannot listen at {names['worker 1']}: another process")


def test_a_time_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv(SECONDS_VARIABLE, "soon")
    (sentence,) = _met((_names(2), "worker 0"))
    assert sentence == f"{SECONDS_VARIABLE} must be a number. Received: soon."


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_of_the_cluster_is_refused(index, monkeypatch):
    config = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": %d}}'
    monkeypatch.setenv("TF_CONFIG", config % index)
    with pytest.raises(UserError, match="an index below the number of workers"):
        make_strategy("multi_worker")


def test_an_address_that_is_named_twice_is_refused(monkeypatch):
    config = '{"cluster": {"worker": ["a:1", "a:1"]}, "task": {"type": "worker", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(UserError, match="TF_CONFIG names a:1 2 times"):
        make_strategy("multi_worker")
