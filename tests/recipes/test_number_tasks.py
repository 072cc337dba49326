"""Reversal and sorting: what is asked, where to look, and a small model that learns it."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.recipes import make_recipe
from keras_attn.recipes.number_settings import ReversalSettings
from keras_attn.recipes.number_task import NumberTask
from keras_attn.recipes.reversal import anti_diagonal
from keras_attn.recipes.sorting import same_value
from keras_attn.training import RunDirectory, fit

STEPS = 200
ANSWERS = {"reversal": [5, 3, 9, 3], "sorting": [3, 3, 5, 9]}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_batch_asks_for_what_the_task_says(name, tmp_path):
    recipe = make_recipe(name)
    found = recipe.task.answers(tf.constant([[3, 9, 3, 5]])).numpy()
    np.testing.assert_array_equal(found, [ANSWERS[name]])
    inputs, labels, mask = next(iter(recipe.batches(RunDirectory(tmp_path))))
    source, length = inputs["source"].numpy(), labels.shape[1] - 1
    assert 5 <= length <= 15
    wanted = recipe.task.answers(inputs["source"][:, :-1]).numpy()  # ids are in the numbers' order
    np.testing.assert_array_equal(labels[:, :-1], wanted)
    np.testing.assert_array_equal(inputs["target"][:, 1:], wanted)
    assert set(source[:, -1]) == set(labels[:, -1].numpy()) == {2}  # the end token
    assert set(inputs["target"][:, 0].numpy()) == {1}  # the start token
    assert mask.numpy().all()


def test_batches_of_few_shapes_hold_every_length_of_training(tmp_path):
    batches = make_recipe("reversal").fixed_batches(RunDirectory(tmp_path)).take(30)
    assert {labels.shape[1] for _, labels, _ in batches} == {8, 16}


def test_where_each_task_ought_to_look():
    np.testing.assert_array_equal(anti_diagonal("abc", "cb"), [[0, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(
        same_value(["8", "0", "8"], ["0", "8", "8"]), [[0, 1, 0], [1, 0, 1], [1, 0, 1]]
    )


class _Answers:
    """Stands for a text model that has written the answers, and looked at these places."""

    def __init__(self, examples):
        self._examples = examples

    def alignments(self, texts):
        assert len(texts) == len(self._examples)
        return self._examples


def test_an_answer_is_right_only_as_a_whole_and_its_end_token_counts_for_no_attention():
    source = ["4", "7", "</s>"]
    right = (source, ["7", "4", "</s>"], np.array([[0.0, 0.8, 0.2], [1.0, 0.0, 0.0], [0, 0, 1.0]]))
    longer = (source, ["7", "4", "4", "</s>"], np.array([*right[2][:2], [1.0, 0, 0], [0, 0, 1.0]]))
    shorter = (source, ["7", "</s>"], np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))
    recipe, numbers = make_recipe("reversal"), np.array([[4, 7]] * 3)
    found = recipe.measured(_Answers([right, longer, shorter]), numbers)
    assert found["exact_match"] == pytest.approx(1 / 3)
    assert found["attention"] == pytest.approx((0.9 + 0.9 + 0.25) / 3)


def test_a_small_model_learns_where_to_look_and_fails_if_it_gets_another_place(tmp_path):
    usual, nowhere = make_recipe("reversal"), RunDirectory(tmp_path)
    task = dataclasses.replace(usual.task, lengths=(3,), shown_length=3, trained_lengths=(2, 3))
    settings = ReversalSettings(encoder_units=24, decoder_units=32, attention_units=32, dropout=0.0)
    recipe = NumberTask("reversal", task, settings, ())
    model = recipe.build(nowhere)
    fit(
        model,
        recipe.batches(nowhere),
        STEPS,
        optimizer=keras.optimizers.Adam(0.01),
        objective=recipe.objective(),
        clip_norm=recipe.clip_norm,
    )
    found = recipe.evaluate(recipe.text_model(model, nowhere), count=200)
    assert found["exact_match at 3"] > 0.9
    assert found["attention at 3"] > 0.5  # a uniform alignment: 0.25
    assert found["shuffled exact_match at 3"] < 0.35  # one order of six is the right one


def test_lines_are_answered_by_lines_and_alignments_are_drawn(tmp_path):
    recipe, nowhere = make_recipe("sorting", seed=5), RunDirectory(tmp_path)
    text_model = recipe.text_model(recipe.build(nowhere), nowhere)
    answers = list(text_model.answer(["3 1 2", "", "7 what 99"]))
    assert len(answers) == 3
    assert set(" ".join(answers).split()) <= {*map(str, range(20)), "<unk>"}
    figure = recipe.plot(text_model, ["3 1 2"])
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()][:3] == ["3", "1", "2"]
