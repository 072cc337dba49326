import errno
import os

import keras
import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.training import load_checkpoint, save_checkpoint
from keras_attn.training.files import written_whole


def _model(units=2):
    return keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(units), keras.layers.Dropout(0.5)]
    )


def _saved(path, units=2):
    model, optimizer = _model(units), keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    save_checkpoint(path, model, optimizer, {"step": 7, "seconds": 0.1})
    return model


def test_weights_seeds_optimiser_and_step_come_back_exactly(tmp_path):
    model = _saved(tmp_path / "last.npz")
    other, optimizer = _model(), keras.optimizers.Adam()
    optimizer.build(other.trainable_variables)
    assert load_checkpoint(tmp_path / "last.npz", other, optimizer) == {"step": 7, "seconds": 0.1}
    assert len(other.variables) == 3  # kernel, bias, dropout seed
    for got, expected in zip(other.variables, model.variables, strict=True):
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_a_checkpoint_of_other_shapes_is_one_sentence(tmp_path):
    _saved(tmp_path / "last.npz", units=5)
    with pytest.raises(UserError, match="of another model"):
        load_checkpoint(tmp_path / "last.npz", _model())


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04half"])
def test_a_broken_checkpoint_is_one_sentence(tmp_path, content):
    (tmp_path / "last.npz").write_bytes(content)
    with pytest.raises(UserError, match="not a checkpoint"):
        load_checkpoint(tmp_path / "last.npz", _model())


def test_a_truncated_checkpoint_is_one_sentence(tmp_path):
    _saved(tmp_path / "last.npz")
    whole = (tmp_path / "last.npz").read_bytes()
    (tmp_path / "last.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="not a checkpoint"):
        load_checkpoint(tmp_path / "last.npz", _model())


def test_a_missing_checkpoint_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="train first"):
        load_checkpoint(tmp_path / "last.npz", _model())


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(errno.ENOSPC, "no space left")])
def test_a_file_whose_writing_stops_half_way_is_the_old_one(tmp_path, failure):
    (tmp_path / "file").write_bytes(b"old")

    def write():
        with written_whole(tmp_path / "file") as file:
            file.write(b"new but ha")
            raise failure

    with pytest.raises((KeyboardInterrupt, UserError)):
        write()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_written_file_is_readable_by_others_as_the_umask_says(tmp_path):
    with written_whole(tmp_path / "file") as file:
        file.write(b"new")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode
