"""The report on the accelerators of a machine, made on two logical CPUs."""

import json
import sys
from pathlib import Path

import devices
import pytest
from device_checks.outcome import FAILED, HELD, MEASURED, SKIPPED
from device_checks.watching import watch

BROKEN = Path(__file__).parent / "broken_devices.py"
ROWS = ["broken", "AdditiveAttention", "GRU, both", "GRU, Keras'", "LSTM, all", "blockwise att"]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The exit code and the report of broken layers and of a few checks of each kind."""
    path = tmp_path_factory.mktemp("devices") / "report.json"
    code = devices.main(["--quick", "--output", str(path), "--only", *ROWS], BROKEN)
    return code, json.loads(path.read_text())["figures"]


def _rows(report) -> dict:
    return {row["name"]: row for row in report[1]["rows"]}


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("AdditiveAttention", HELD),
        ("GRU, Keras' layer and ours", HELD),
        ("GRU, both by cuDNN", SKIPPED),
        ("LSTM, all devices (2)", HELD),
        ("blockwise attention, 1,024 positions", MEASURED),
    ],
)
def test_a_check_of_each_kind_runs_on_logical_devices(report, name, status):
    row = _rows(report)[name]
    assert row["status"] == status, row["words"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong on one device", "outputs 3.9e-04"),
        ("not a number", "outputs nan"),
        ("refusing", "no such kernel"),
        ("fatal", "The process was ended by SIGABRT"),
    ],
)
def test_a_broken_layer_is_a_row_that_failed_and_not_the_end(report, name, words):
    row = _rows(report)[f"broken, {name}"]
    assert row["status"] == FAILED
    assert words in row["words"]
    assert "long story" not in row["words"]


def test_the_report_says_what_failed_and_on_what(report):
    code, figures = report
    assert code == 1
    assert figures["machine"]["devices"] == ["CPU:0", "CPU:1"]
    assert sum(line.startswith(FAILED) for line in figures["summary"]) == 4


def test_devices_that_are_not_there_are_refused_in_a_sentence(tmp_path, capsys):
    code = devices.main(["--devices", "GPU:7", "--output", str(tmp_path / "none.json")])
    assert code == 2
    assert "There is no device GPU:7 here" in capsys.readouterr().out
    assert not (tmp_path / "none.json").exists()


def test_a_check_that_hangs_is_stopped_and_the_others_go_on(tmp_path):
    program = tmp_path / "hanging.py"
    program.write_text(_HANGING)
    messages = list(watch([sys.executable, str(program)], patience=2))
    rows = [message["row"] for message in messages if "row" in message]
    assert [row["status"] for row in rows] == [FAILED, HELD]
    assert "said nothing for 2 seconds" in rows[0]["words"]
    assert messages[-1] == {"done": True}


_HANGING = """
import json, sys, time
for index in range(int(sys.argv[-1]), 2):
    print(json.dumps({"begin": {"index": index, "group": "g", "name": str(index)}}), flush=True)
    time.sleep(0 if index else 60)
    print(json.dumps({"row": {"status": "held"}}), flush=True)
print(json.dumps({"done": True}))
"""
