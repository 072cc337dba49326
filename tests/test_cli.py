"""The commands, as a person runs them."""

import json
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from keras_attn.cli import main

KERAS_ATTN = [sys.executable, "-c", "from keras_attn.cli import main; main()"]


def _run(*arguments, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def _assert_one_sentence(result, *words):
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    for word in words:
        assert word in lines[0]


def test_the_demo_trains_exports_serves_asks_and_draws(tmp_path):
    reply = subprocess.run(
        [*KERAS_ATTN, "demo", "--directory", "demo", "--steps", "5"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert reply.returncode == 0, reply.stderr
    assert "step 5 of 5" in reply.stderr
    expected = ("dates: step", "dates: compiled", "test: answered")
    noise = [line for line in reply.stderr.splitlines() if not line.startswith(expected)]
    assert noise == []
    assert "exact_match" in reply.stdout
    assert '{"instances": ["Dienstag, 3. März 1998"' in reply.stdout
    assert (tmp_path / "demo/models/dates/1/saved_model.pb").stat().st_size > 0
    assert (tmp_path / "demo/alignment.png").read_bytes()[:4] == b"\x89PNG"


def test_a_stopped_training_keeps_its_steps_and_goes_on(tmp_path):
    command = [*KERAS_ATTN, "train", "dates", "--run", "run", "--steps"]
    subprocess.run([*command, "2"], cwd=tmp_path, check=True, stderr=subprocess.PIPE)
    command.append("200")
    step = 2
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        assert f"step {step} of 200" in process.stderr.readline()
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 128 + number
        *_, last_status, sentence = errors.strip().splitlines()
        assert sentence == "Stopped; the same command goes on from here."
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
            "best.npz",
            "characters.json",
            "history.jsonl",
            "last.npz",
            "previous.npz",
            "settings.json",
        ]
        assert int(last_status.split()[2]) >= step
        step = int(last_status.split()[2])
        with np.load(tmp_path / "run" / "last.npz") as checkpoint:
            assert checkpoint["progress/step"] == step


def test_predict_and_export_with_a_beam(dates_run, tmp_path):
    search = ("--beam-width", 3, "--length-penalty", 0.6)
    predicted = _run("predict", "--run", dates_run.path, *search, input="3. März 1998")
    assert predicted.exit_code == 0, predicted.stderr
    assert len(predicted.stdout.splitlines()) == 1
    exported = _run("export", "--run", dates_run.path, "--directory", tmp_path, *search)
    assert exported.exit_code == 0, exported.stderr
    import tensorflow as tf

    answer = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    found = answer(text=tf.constant(["3. März 1998"]))
    assert found["texts"].shape == found["scores"].shape == (1, 3)
    assert found["text"].numpy()[0].decode() == predicted.stdout.strip()


@pytest.mark.parametrize(
    "search", [("--length-penalty", 0.6), ("--beam-width", 2, "--length-penalty", "nan")]
)
def test_a_length_penalty_that_cannot_be_honoured_is_refused(search, tmp_path):
    result = _run("predict", "--run", tmp_path, *search)
    _assert_one_sentence(result, "--length-penalty")


def test_evaluate_predict_export_and_plot_a_run(dates_run, tmp_path):
    evaluated = _run("evaluate", "--run", dates_run.path)
    assert evaluated.exit_code == 0
    assert float(evaluated.stdout.split(":")[1]) > 0.3
    assert "Evaluated on 2,000 dates of days that are neither" in evaluated.stderr
    predicted = _run("predict", "--run", dates_run.path, input="3. März 1998\r\n\n1/2/03")
    assert predicted.exit_code == 0
    assert len(predicted.stdout.splitlines()) == 3
    exported = _run("export", "--run", dates_run.path, "--directory", tmp_path / "dates")
    assert exported.stdout == f"Exported {tmp_path / 'dates' / '1'}\n"
    for name in ("picture.png", "picture.svg"):
        drawn = _run("plot", "--run", dates_run.path, "--output", tmp_path / name, "1/2/03")
        assert drawn.exit_code == 0
        assert (tmp_path / name).stat().st_size > 1000


def test_an_unknown_recipe_is_one_sentence(tmp_path):
    _assert_one_sentence(_run("train", "nonsense", "--run", tmp_path), "nonsense", "dates")


def test_a_run_of_another_recipe_is_one_sentence(dates_run):
    result = _run("evaluate", "--run", dates_run.path, "--recipe", "adding")
    _assert_one_sentence(result, "'dates'", "'adding'")


def test_a_run_of_other_settings_is_one_sentence(dates_run):
    result = _run("train", "dates", "--run", dates_run.path, "--training-dates", "7")
    _assert_one_sentence(result, "other settings", "training_dates")


@pytest.mark.parametrize("command", ["evaluate", "predict", "export", "plot", "tokenize"])
def test_a_missing_run_is_one_sentence(command, tmp_path):
    options = {"export": ["--directory", "x"], "plot": ["--output", "x.png"]}.get(command, [])
    _assert_one_sentence(_run(command, "--run", tmp_path / "none", *options), "train first")
    (tmp_path / "file").write_bytes(b"")
    _assert_one_sentence(
        _run(command, "--run", tmp_path / "file", *options), "file is a file; give"
    )


def test_a_run_in_the_place_of_a_file_is_one_sentence(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    result = _run("train", "dates", "--run", tmp_path / "file", "--steps", "1")
    _assert_one_sentence(result, "Cannot write", "file is not a directory")


def test_a_checkpoint_of_another_model_is_one_sentence(dates_run, tmp_path):
    settings = json.loads((dates_run.path / "settings.json").read_text())
    settings["settings"]["units"] = 8
    for name in ("characters.json", "last.npz"):
        (tmp_path / name).write_bytes((dates_run.path / name).read_bytes())
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    _assert_one_sentence(_run("evaluate", "--run", tmp_path), "last.npz", "another model")


def test_a_plot_of_an_unknown_kind_is_one_sentence(dates_run, tmp_path):
    result = _run("plot", "--run", dates_run.path, "--output", tmp_path / "picture.bmp", "1/2/03")
    _assert_one_sentence(result, ".png", "picture.bmp")


def test_a_port_in_use_is_one_sentence(dates_base_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = _run("serve", f"--model_base_path={dates_base_path}", f"--rest_api_port={port}")
    _assert_one_sentence(result, str(port))


def test_a_config_that_does_not_parse_is_one_sentence(tmp_path):
    (tmp_path / "models.config").write_text("model_config_list { nonsense")
    result = _run("serve", f"--model_config_file={tmp_path / 'models.config'}")
    _assert_one_sentence(result, "models.config", "line 1")


def test_a_model_directory_without_a_version_is_one_sentence(tmp_path):
    result = _run("serve", f"--model_base_path={tmp_path}", "--rest_api_port=0")
    _assert_one_sentence(result, str(tmp_path), "version")


@pytest.mark.parametrize(
    "flag", ["--enable_batching", "--enable_batching=true", "--monitoring_config_file=x"]
)
def test_a_flag_that_is_not_supported_yet_says_so(flag, tmp_path):
    result = _run("serve", f"--model_base_path={tmp_path}", flag)
    _assert_one_sentence(result, flag.split("=")[0], "not supported yet")


def test_a_boolean_flag_may_be_false(tmp_path):
    result = _run("serve", f"--model_base_path={tmp_path}", "--enable_batching=false")
    assert "not supported" not in result.stderr
