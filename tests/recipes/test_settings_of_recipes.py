"""What a recipe says of its settings, and the options that are made of it."""

import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
from click.testing import CliRunner

from keras_attn.cli import main
from keras_attn.errors import UserError
from keras_attn.recipes import NAMES, make_recipe, settings_class
from keras_attn.recipes.adding import CELLS
from keras_attn.recipes.adding_settings import AddingSettings
from keras_attn.recipes.settings import made, settings_of
from keras_attn.recipes.translation_models import SCHEDULES
from keras_attn.recipes.translation_settings import MODELS, TransformerSettings, TranslatorSettings

OF_RUNS = {
    "--run", "--init-from", "--config", "--steps", "--minutes", "--patience", "--tensorboard",
    "--strategy", "--checkpoint-steps", "--help",
}  # fmt: skip


def _help(*arguments):
    result = CliRunner().invoke(main, [*arguments, "--help"], terminal_width=500)
    assert result.exit_code == 0, result.output
    return result.stdout


def _options(text):
    lines = [line.split() for line in text.splitlines()]
    return {word.rstrip(",") for line in lines for word in line[:2] if word.startswith("--")}


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_recipe_shows_its_own_options_and_their_defaults(name):
    kind, text = settings_class(name), _help("train", name)
    settings = settings_of(kind).values()
    assert _options(text) == OF_RUNS | {each.flag for each in settings}
    words = " ".join(text.split())
    for each in settings:
        if each.described_default is not None:
            of_option = words.split(f" {each.flag} ", 1)[1].split(" --")[0]
            assert f"[default: {each.described_default}]" in of_option
    assert f"[default: {kind.default_minutes or 'no limit'}]" in text
    assert f"[default: {kind.default_steps or 'no limit'}]" in text
    assert f"[default: runs/{name}]" in text
    assert "Of adding" not in text


def test_the_help_lists_the_recipes():
    text = _help("train")
    assert [line.split()[0] for line in text.split("Commands:\n")[1].splitlines()] == list(NAMES)


def test_help_in_a_fresh_process_imports_no_tensorflow():
    code = """
import sys
from keras_attn.cli import main
for arguments in (["--help"], ["train", "--help"], ["train", "translation", "--help"]):
    main(arguments, standalone_mode=False)
    print("heavy:", {"tensorflow", "keras", "keras_attn.recipes.dates"} & set(sys.modules))
"""
    reply = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert reply.stdout.count("heavy: set()") == 3, reply.stdout


def test_choices_are_those_that_the_recipes_have():
    assert settings_of(AddingSettings)["cell"].choices == tuple(CELLS)
    assert settings_of(TranslatorSettings)["schedule"].choices == tuple(SCHEDULES)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"length": 1}, "--length must be at least 2. Received: 1"),
        ({"units": True}, "--units takes a whole number. Received: True"),
        ({"units": 2.5}, "--units takes a whole number. Received: 2.5"),
        ({"units": "many"}, "--units takes a whole number. Received: 'many'"),
        ({"units": None}, "--units takes a whole number. Received: None"),
        ({"learning_rate": float("nan")}, "--learning-rate takes a number. Received: nan"),
        ({"learning_rate": 0}, "--learning-rate must be more than 0. Received: 0"),
        ({"cell": 3}, "There is no cell 3; there are lstm"),
        ({"seed": -1}, "--seed must be at least 0 and less than 4294967296. Received: -1"),
        ({"dim": 3}, "The recipe adding takes no --dim; it takes --cell, --length"),
    ],
)
def test_a_setting_that_does_not_fit_is_one_sentence(given, words):
    with pytest.raises(UserError, match=words):
        made(AddingSettings, given, "The recipe adding")


def test_values_are_read_into_their_own_types():
    found = made(AddingSettings, {"units": np.int64(3), "learning_rate": "1e-2"}, "adding")
    assert (found.units, found.learning_rate) == (3, 0.01)
    assert type(found.units) is int
    assert made(TransformerSettings, {"normalize_first": "False"}, "it").normalize_first is False
    with pytest.raises(UserError, match="--dropout must be at least 0 and less than 1"):
        made(TransformerSettings, {"dropout": 1.0}, "it")
    with pytest.raises(UserError, match=r"--normalize-first is true or false\. Received: 'maybe'"):
        made(TransformerSettings, {"normalize_first": "maybe"}, "it")


@pytest.mark.parametrize("model", MODELS)
def test_a_translator_has_the_defaults_of_its_model(model, tmp_path):
    names = ("source", "target", "validation_source", "validation_target")
    files = {name: tmp_path / name for name in names}
    found = make_recipe("translation", **files, model=model, max_tokens=40).settings
    expected = {**asdict(MODELS[model]()), "max_tokens": 40}
    assert {name: found[name] for name in expected} == expected
    assert found["vocabulary_size"] is None
    assert make_recipe("multi30k-pieces", model=model).settings["max_tokens"] == 64
    again = make_recipe("translation", **found)
    assert again.settings == found
