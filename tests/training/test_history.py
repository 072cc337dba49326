import keras
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training import KeepHistory, RunDirectory, fit, read_history


def _trained(run, steps, **options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    batches = tf.data.Dataset.from_tensors(tf.ones([3, 1])).repeat()
    fit(
        model, batches, steps, optimizer=keras.optimizers.SGD(0.25), callbacks=[KeepHistory(run)],
        objective=lambda model, batch: (tf.reduce_sum(model(batch) ** 2), tf.constant(3.0)),
        **options,
    )  # fmt: skip


def test_every_step_is_a_line_and_none_is_written_while_it_trains(tmp_path):
    run = RunDirectory(tmp_path)
    run.flush = lambda: pytest.fail("A step waited for the disk.")
    with pytest.raises(pytest.fail.Exception):
        _trained(run, 3)
    assert not run.history.exists()
    del run.flush
    run.flush()
    entries = read_history(tmp_path)
    assert [entry["step"] for entry in entries] == [1, 2, 3]
    assert entries[0]["loss"] > entries[1]["loss"] > 0
    assert [entry["learning_rate"] for entry in entries] == [0.25] * 3


def test_steps_of_one_call_are_one_line(tmp_path):
    _trained(RunDirectory(tmp_path), 5, steps_per_call=2)
    assert [entry["step"] for entry in read_history(tmp_path)] == [2, 4, 5]


def test_what_is_not_finite_is_null(tmp_path):
    run = RunDirectory(tmp_path)
    run.record({"step": 1, "loss": float("nan")})
    run.flush()
    assert run.history.read_text() == '{"step": 1, "loss": null}\n'


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path):
    history = tmp_path / "history.jsonl"
    history.write_text('{"step": 1}\n{"step": 2, "lo')
    assert read_history(tmp_path) == [{"step": 1}]
    history.write_text('{"step": 1}\nwhat\n{"step": 3}\n')
    with pytest.raises(UserError, match=r"line 2 is not JSON; remove it\.$"):
        read_history(tmp_path)
    history.unlink()
    with pytest.raises(UserError, match="give the directory of a run that has trained"):
        read_history(tmp_path)
