"""Runs that go on by themselves, begin with the weights of others, or take options from a file."""

import json
import shutil

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from keras_attn.cli import main
from keras_attn.recipes import make_recipe
from keras_attn.training.array_file import read_arrays
from keras_attn.training.checkpoint import read_progress

TINY = ("--cell", "gru", "--length", 3, "--units", 4, "--validations", 1)


def _run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def _done(*arguments):
    result = _run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stderr


def _sentence(*arguments):
    result = _run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    return result.stderr.strip().splitlines()[-1]


def _described(run):
    return json.loads((run / "settings.json").read_text())


def _step(run):
    return read_progress(run / "last.npz")["step"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A run of three steps; tests that go on with it copy it."""
    run = tmp_path_factory.mktemp("tiny") / "run"
    _done("train", "adding", "--run", run, *TINY, "--steps", 3)
    return run


@pytest.fixture
def run(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "run")


def test_a_run_keeps_all_its_settings(tiny):
    found = _described(tiny)
    assert found["recipe"] == "adding"
    assert found["settings"] == {
        "cell": "gru", "length": 3, "units": 4, "batch_size": 50, "learning_rate": 1e-3,
        "clip_norm": 1.0, "validations": 1, "seed": 1,
    }  # fmt: skip
    assert found["ends"] == {"steps": 3, "minutes": None, "patience": None}


def test_going_on_needs_the_run_alone(run):
    assert "is finished, at step 3; more steps or minutes go on" in _done("train", "--run", run)
    assert _step(run) == 3
    _done("train", "--run", run, "--steps", 5)
    assert _step(run) == 5
    assert "is finished, at step 5" in _done("train", "--run", run)
    _done("train", "--steps", 6, "adding", "--run", run, "--cell", "gru")
    assert _step(run) == 6
    assert _described(run)["settings"]["units"] == 4
    assert "other settings (units 4 there, 5 now)" in _sentence(
        "train", "adding", "--run", run, "--units", 5
    )
    assert "a run of the recipe 'adding', not of 'dates'" in _sentence(
        "train", "dates", "--run", run
    )


def test_more_minutes_go_on_and_used_ones_say_so(run):
    minutes = read_progress(run / "last.npz")["seconds"] / 60
    assert "is finished, at step 3" in _done("train", "--run", run, "--minutes", minutes / 2)
    _done("train", "--run", run, "--minutes", minutes + 0.002)
    assert _step(run) > 3
    assert _described(run)["ends"]["minutes"] == minutes + 0.002
    assert "is finished" in _done("train", "--run", run)


def test_a_run_of_before_goes_on_and_is_evaluated(run):
    description = _described(run)
    old = {name: description["settings"][name] for name in ("cell", "length", "units", "seed")}
    (run / "settings.json").write_text(json.dumps({"recipe": "adding", "settings": old}))
    assert "squared_error" in _run("evaluate", "--run", run).stdout
    _done("train", "--run", run, "--steps", 4, "--patience", 2)
    assert _step(run) == 4
    assert _described(run)["ends"] == {"steps": 4, "minutes": None, "patience": 2}
    assert "clip_norm 1.0 there, 2.0 now" in _sentence(
        "train", "adding", "--run", run, "--clip-norm", 2
    )


@pytest.fixture
def begun(monkeypatch):
    """The recipes, runs and budgets that the command would train."""
    found = []

    def train(recipe, run, budget, *options, **more):
        found.append((recipe.settings, run.path.name, budget.steps))

    monkeypatch.setattr("keras_attn.recipes.run.train", train)
    return found


def test_a_file_gives_options_and_what_is_typed_wins(tiny, tmp_path, begun):
    config = tmp_path / "run.yaml"
    lines = ("recipe: adding", "cell: rnn", "length: 3", "units: 8", "learning-rate: 2e-3")
    config.write_text("\n".join([*lines, "steps: 9", "seed: null", ""]))
    _done("train", "--config", config, "--run", tmp_path / "one")
    _done("train", "adding", "--config", config, "--units", 2, "--steps", 7)
    expected = make_recipe("adding", cell="rnn", length=3, units=8, learning_rate=2e-3).settings
    assert begun == [(expected, "one", 9), ({**expected, "units": 2}, "adding", 7)]
    kept = tiny / "settings.json"  # the file that a run keeps is such a file
    _done("train", "adding", "--config", kept, "--run", tmp_path / "two", "--steps", 1)
    assert begun[-1] == (_described(tiny)["settings"], "two", 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("unit: 3", "sets unit, which adding does not take; it takes cell, length, units"),
        ("units: 2.5", "--units takes a whole number. Received: '2.5'"),
        ("units: true", "--units takes a whole number. Received: 'True'"),
        ("units: [1, 2]", "units takes one value"),
        ("recipe: dates", "is not of the recipe adding"),
        ("units: 3: 4", "is not YAML"),
        ("- units", "has no names and values"),
        ("steps: none", "'--steps': 'none' is not a valid integer"),
    ],
)
def test_a_file_with_a_mistake_is_one_sentence(tmp_path, content, words):
    (tmp_path / "run.yaml").write_text(content)
    options = ("--config", tmp_path / "run.yaml", "--run", tmp_path / "run")
    assert words in _sentence("train", "adding", *options)
    assert not (tmp_path / "run").exists()


def test_a_run_begins_with_the_weights_of_another(tiny, tmp_path):
    run, origin, weights = tmp_path / "run", tmp_path / "origin", "model/0"
    shutil.copytree(tiny, origin)
    before = read_arrays(origin / "best.npz")[weights]
    options = (*TINY, "--seed", 2, "--learning-rate", 1e-9, "--steps", 1)
    shown = _done("train", "adding", "--run", run, "--init-from", origin, *options)
    assert f"Beginning with the weights of {origin}" in shown
    np.testing.assert_allclose(read_arrays(run / "last.npz")[weights], before, atol=1e-6)
    assert _step(run) == 1
    shutil.rmtree(origin)  # which is not needed any more
    assert "Beginning with" not in _done("train", "--run", run, "--steps", 2)
    assert "began with the weights of" in _sentence(
        "train", "adding", "--run", run, *options, "--init-from", run
    )


def test_weights_that_do_not_fit_are_one_sentence(tiny, tmp_path):
    run = tmp_path / "run"
    begin = ("train", "adding", "--run", run, "--init-from", tiny, "--steps", 1)
    found = _sentence(*begin, *TINY, "--units", 5)
    assert f"The weights of {tiny} do not fit" in found
    assert "That run has --units 4." in found
    assert not (run / "settings.json").exists()  # the corrected command may use it
    _done(*begin, *TINY)
    nowhere = ("train", "dates", "--run", tmp_path / "other", "--init-from")
    assert "has no characters.json, the vocabulary" in _sentence(*nowhere, tiny)
    assert "There is no run directory" in _sentence(*nowhere, tmp_path / "none")


def test_what_cannot_go_on_is_one_sentence(tmp_path):
    assert "Name a recipe, one of adding, " in _sentence("train")
    assert "is no run yet" in _sentence("train", "--run", tmp_path)
    assert "train first" in _sentence("train", "--run", tmp_path / "none")
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"units": 3}))
    assert "names no recipe" in _sentence("train", "--config", tmp_path / "run.yaml")


def test_the_numbers_of_a_default_run_are_those_of_before():
    recipe = make_recipe("adding")
    assert (recipe.clip_norm, recipe.validations, recipe.budget.steps) == (1.0, 12, 6_000)
    rate = make_recipe("dates").learning_rate
    assert [rate(0.0, 0), rate(0.0, 99), rate(0.5, 500)] == pytest.approx([6e-5, 6e-3, 3e-3])
    transformer = make_recipe("multi30k-transformer")
    assert (transformer.averaged, transformer.validations) == (10, 10)
    assert transformer.budget.minutes == 25
    assert transformer.learning_rate(0.0, 499) == pytest.approx(3e-3)
