"""The adding recipe on short streams, from training to the exported model."""

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_attn.cli import main
from keras_attn.errors import UserError
from keras_attn.recipes import make_recipe
from keras_attn.recipes.adding import CELLS, parsed
from keras_attn.recipes.run import train
from keras_attn.training import Budget, RunDirectory


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = RunDirectory(tmp_path_factory.mktemp("adding"))
    train(make_recipe("adding", cell="gru", length=6, units=32), run, Budget(steps=600))
    return run


def _run(*arguments, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def test_the_network_learns_to_add_what_is_marked(run):
    evaluated = _run("evaluate", "--run", run.path)
    assert evaluated.exit_code == 0, evaluated.output
    assert float(evaluated.stdout.split(": ")[1]) < 0.03  # always answering 1: 0.167
    predicted = _run(
        "predict", "--run", run.path, input="0.3 *0.9 0.2 0.1 *0.8 0.4\n*0.1 0.9 0.9 0.9 *0.1 0.9\n"
    )
    large, small = map(float, predicted.stdout.split())
    assert large > 1.2
    assert small < 0.7


def test_the_exported_model_answers_what_the_trained_one_does(run, tmp_path):
    assert _run("export", "--run", run.path, "--directory", tmp_path).exit_code == 0
    serve = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    line = "0.3 *0.9 0.2 0.1 *0.8 0.4"
    answered = serve(sequences=tf.constant(parsed(line)[None]))["sum"].numpy()
    predicted = float(_run("predict", "--run", run.path, input=line).stdout)
    np.testing.assert_allclose(answered, [predicted], atol=6e-4)


def test_the_plot_shows_cells_and_answers(run, tmp_path):
    drawn = _run("plot", "--run", run.path, "--output", tmp_path / "cells.png")
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "cells.png").stat().st_size > 1000


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_builds_and_remembers_its_settings(cell, tmp_path):
    recipe = make_recipe("adding", cell=cell, length=4, units=3)
    model = recipe.build(RunDirectory(tmp_path))
    assert model(np.zeros((2, 4, 2), "float32")).shape == (2, 1)
    bias = model.get_layer("recurrent").cell.bias.numpy()
    if "lstm" in cell or cell == "peephole":
        np.testing.assert_array_equal(bias[3:6], np.full(3, 0.0 if "forgetful" in cell else 1.0))


def test_mistakes_are_answered_in_a_sentence(run, tmp_path):
    with pytest.raises(UserError, match="no cell 'lstn'; there are lstm"):
        make_recipe("adding", cell="lstn")
    with pytest.raises(UserError, match="Received: 1"):
        make_recipe("adding", length=1)
    with pytest.raises(UserError, match=r"Received: '0\.1 two'"):
        parsed("0.1 two")
    searched = _run("predict", "--run", run.path, "--beam-width", 2, input="")
    assert searched.exit_code == 2
    assert "--beam-width" in searched.stderr
