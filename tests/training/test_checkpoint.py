import errno
import io
import os
import random
import resource
import uuid

import keras
import ml_dtypes
import numpy as np
import pytest

from keras_attn.errors import UserError
from keras_attn.files import written_whole
from keras_attn.training import (
    RunDirectory,
    WeightAverage,
    load_checkpoint,
    resume,
    save_checkpoint,
)
from keras_attn.training.array_file import BrokenArrayFileError, read_arrays, write_arrays


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


def _kept(run, steps):
    """A run that saved a checkpoint at each of these steps."""
    model, optimizer = _model(), keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    for step in steps:
        save_checkpoint(
            run.last_checkpoint, model, optimizer, {"step": step}, previous=run.previous_checkpoint
        )
    return model, optimizer


def test_the_checkpoint_before_is_kept_and_taken_if_the_last_one_is_damaged(tmp_path):
    run, lines = RunDirectory(tmp_path), []
    model, optimizer = _kept(run, [1, 2, 3])
    assert resume(run, model, optimizer)["step"] == 3
    content = bytearray(run.last_checkpoint.read_bytes())
    content[len(content) // 2] ^= 1  # one bit
    run.last_checkpoint.write_bytes(content)
    assert resume(run, model, optimizer, report=lines.append)["step"] == 2
    assert len(lines) == 1
    assert "previous.npz, the checkpoint before." in lines[0]


def test_a_run_killed_between_the_two_renames_goes_on_from_the_checkpoint_before(tmp_path):
    run = RunDirectory(tmp_path)
    model, optimizer = _kept(run, [1, 2])
    run.last_checkpoint.unlink()
    assert resume(run, model, optimizer)["step"] == 1


def test_two_damaged_checkpoints_are_one_sentence(tmp_path):
    run = RunDirectory(tmp_path)
    model, optimizer = _kept(run, [1, 2])
    for path in (run.last_checkpoint, run.previous_checkpoint):
        path.write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"previous\.npz is not a checkpoint"):
        resume(run, model, optimizer, report=lambda line: None)


def test_a_full_disk_is_one_sentence_and_keeps_the_last_checkpoints(tmp_path):
    run = RunDirectory(tmp_path)
    model, optimizer = _kept(run, [1, 2])
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))  # Python ignores its signal
    try:
        with pytest.raises(UserError, match=r"Cannot write .*last\.npz: .*unharmed"):
            _kept(run, [3])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert resume(run, model, optimizer)["step"] == 2
    assert sorted(os.listdir(tmp_path)) == ["last.npz", "previous.npz"]


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match="Cannot write"):
        _kept(RunDirectory(tmp_path / "file"), [1])


def test_an_optimiser_that_is_not_built_is_built_for_what_is_loaded(tmp_path):
    run = RunDirectory(tmp_path)
    model, optimizer = _kept(run, [4])
    optimizer.iterations.assign(9)
    save_checkpoint(run.last_checkpoint, model, optimizer, {"step": 4})
    for load in (
        lambda model, optimizer: load_checkpoint(run.last_checkpoint, model, optimizer),
        lambda model, optimizer: resume(run, model, optimizer),
    ):
        other, fresh = _model(), keras.optimizers.Adam()
        assert load(other, fresh) == {"step": 4}
        assert int(fresh.iterations) == 9
        assert len(fresh.variables) == len(optimizer.variables)


def test_an_optimiser_that_is_not_built_is_saved_as_it_begins(tmp_path):
    model = _model()
    save_checkpoint(tmp_path / "last.npz", model, keras.optimizers.Adam(), {"step": 0})
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    assert load_checkpoint(tmp_path / "last.npz", _model(), optimizer) == {"step": 0}


@pytest.mark.parametrize(
    ("load", "cause"),
    [
        (lambda path: load_checkpoint(path, _model(5)), r"dense\w*/kernel here, of shape \(3, 5\), "
         r"has the shape \(3, 2\) there; build the model with"),
        (lambda path: load_checkpoint(path, _bare()), "holds 3 variables, and the model.* 1"),
        (lambda path: load_checkpoint(path, _model(), keras.optimizers.SGD()),
         "of another optimizer: it holds 6 variables, and the optimizer here has 2; make the opt"),
        (lambda path: load_checkpoint(path, model := _model(), average=WeightAverage(model)),
         "has no average to load: it was saved without"),
    ],
    ids=["shape", "number", "class of the optimiser", "average"],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_cause(tmp_path, load, cause):
    _saved(tmp_path / "last.npz")
    with pytest.raises(UserError, match=cause):
        load(tmp_path / "last.npz")


def _bare():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, use_bias=False)])


def test_a_checkpoint_to_be_used_is_not_trained_on(tmp_path):
    save_checkpoint(tmp_path / "best.npz", _model(), None, {"step": 3})
    with pytest.raises(UserError, match=r"the model alone.*load it without an optimizer"):
        load_checkpoint(tmp_path / "best.npz", _model(), keras.optimizers.Adam())


@pytest.mark.parametrize("use", [load_checkpoint, save_checkpoint], ids=["load", "save"])
def test_a_model_without_weights_is_refused(tmp_path, use):
    _saved(tmp_path / "last.npz")
    unbuilt = keras.Sequential([keras.layers.Dense(2)])
    more = ({},) if use is save_checkpoint else ()
    with pytest.raises(ValueError, match=r"no weights yet: call it once.*Received: model="):
        use(tmp_path / "last.npz", unbuilt, None, *more)


def test_weights_in_bfloat16_come_back_exactly(tmp_path):
    models = [
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="bfloat16")])
        for _ in range(2)
    ]
    save_checkpoint(tmp_path / "last.npz", models[0], None, {"step": 1})
    load_checkpoint(tmp_path / "last.npz", models[1])
    for got, expected in zip(models[1].weights, models[0].weights, strict=True):
        assert got.dtype == "bfloat16"
        np.testing.assert_array_equal(got.numpy(), expected.numpy())


_TYPES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "int4", "uint4"),
]


def _all_bits(name) -> np.ndarray:
    """Numbers of a type with every pattern of bits in their bytes: zeros of both signs,
    subnormals, infinities, and what is no number in all its kinds.
    """
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    values = {"bool": 2, "int4": 16, "uint4": 16}.get(name, 256)
    patterns = np.arange(values, dtype=np.uint8)
    rows = [np.roll(patterns, 7 * byte) for byte in range(dtype.itemsize)]
    return np.stack(rows, axis=-1).reshape(-1).view(dtype)


def test_every_type_comes_back_bit_for_bit(tmp_path):
    arrays = {name: _all_bits(name) for name in _TYPES}
    arrays |= {f"{name} alone": array[-1:].reshape(()) for name, array in arrays.items()}
    write_arrays(tmp_path / "a.npz", arrays)
    found = read_arrays(tmp_path / "a.npz")
    assert set(found) == set(arrays)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == array.tobytes(), name


class _OfEveryType(keras.layers.Layer):
    """Weights that are trained or not, in all types that Keras has."""

    def build(self, shape):
        for name in _TYPES:
            if not name.endswith("int4"):  # Keras packs these into int8
                value = np.zeros(_all_bits(name).shape, _all_bits(name).dtype)
                self._track_variable(keras.Variable(value, dtype=name, name=name, trainable=False))
        self.kernel = self.add_weight(shape=(256,), dtype="bfloat16", name="kernel")

    def call(self, x):
        return x


def test_variables_of_every_type_and_their_optimiser_and_average_come_back(tmp_path):
    models = [keras.Sequential([keras.Input((1,)), _OfEveryType()]) for _ in range(2)]
    optimizers = [keras.optimizers.AdamW() for _ in models]
    averages = [WeightAverage(model) for model in models]
    for variable in models[0].non_trainable_variables:
        variable.assign(_all_bits(variable.dtype))
    optimizers[0].build(models[0].trainable_variables)
    bits = _all_bits("bfloat16")
    for variable in (
        models[0].layers[0].kernel,
        averages[0].variables[0],
        *optimizers[0].variables,
    ):
        if variable.shape == (256,) and variable.dtype == "bfloat16":
            variable.assign(bits)
    path = tmp_path / "last.npz"
    save_checkpoint(path, models[0], optimizers[0], {"step": 1}, averages[0])
    load_checkpoint(path, models[1], optimizers[1], averages[1])
    for expected, got in (models, optimizers, averages):
        for one, other in zip(expected.variables, got.variables, strict=True):
            assert one.value.numpy().tobytes() == other.value.numpy().tobytes(), one.path
    assert optimizers[1].variables[2].value.numpy().tobytes() == bits.tobytes()


def test_progress_has_numbers_text_and_arrays(tmp_path):
    progress = {"seed": 2**62 + 1, "share": 0.1, "best": float("-inf"), "due": True, "of": "één"}
    save_checkpoint(tmp_path / "a.npz", _model(), None, {**progress, "sums": np.arange(3)})
    found = load_checkpoint(tmp_path / "a.npz", _model())
    np.testing.assert_array_equal(found.pop("sums"), [0, 1, 2])
    assert found == progress
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in progress.items()
    }
    with pytest.raises(ValueError, match=r"numbers and text.*Received: progress/what of type obj"):
        save_checkpoint(tmp_path / "a.npz", _model(), None, {"what": None})


def test_a_checkpoint_of_before_there_were_checksums_is_loaded(tmp_path):
    model = _model()
    arrays = {f"model/{index}": v.value.numpy() for index, v in enumerate(model.variables)}
    np.savez(tmp_path / "old.npz", **{"progress/step": np.float64(3)}, **arrays)
    other = _model()
    assert load_checkpoint(tmp_path / "old.npz", other) == {"step": 3}
    np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])


def test_no_damage_is_taken_for_a_checkpoint(tmp_path):
    """Of damaged files each is refused, or its values are those that were written."""
    path, chance = tmp_path / "a.npz", random.Random(20261201)
    written = {
        "model/0": np.arange(700, dtype=np.float32).reshape(7, 100),
        "model/1": np.arange(64, dtype=ml_dtypes.bfloat16),
        "progress/step": np.asarray(7),
    }
    write_arrays(path, written)
    whole, refused = path.read_bytes(), 0
    for number in range(400):
        path.write_bytes(_damaged(whole, number % 8, chance))
        try:
            found = read_arrays(path)
        except BrokenArrayFileError:
            refused += 1
            continue
        assert set(found) == set(written)
        for name, array in written.items():
            assert found[name].tobytes() == array.tobytes(), (number, name)
    assert refused > 250


def _damaged(whole: bytes, kind: int, chance: random.Random) -> bytes:
    size, content = len(whole), bytearray(whole)
    # Half of the damage is done to the table of contents at the end.
    place = chance.randrange(size - 600, size) if chance.random() < 0.5 else chance.randrange(size)
    other = chance.randrange(size)
    if kind == 0:
        content[place] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del content[place:]
    elif kind == 2:
        content[place:] = bytes(size - place)
    elif kind == 3:
        content[place : place + 16] = bytes(len(content[place : place + 16]))
    elif kind == 4:
        content[place : place + 1], content[other : other + 1] = (
            whole[other:][:1],
            whole[place:][:1],
        )
    elif kind == 5:
        content += chance.randbytes(1 + other)
    elif kind == 6:
        del content[place : place + 9]
    else:
        content[place:place] = chance.randbytes(9)
    return bytes(content)


def test_what_zip_and_numpy_raise_for_damage_is_a_broken_checkpoint(tmp_path):
    """A method of compression and a shape that do not exist are no errors of a value or a file."""
    _saved(tmp_path / "last.npz")
    whole = (tmp_path / "last.npz").read_bytes()
    file = io.BytesIO()
    np.savez(file, **{"model/0": np.zeros(3)})
    for content in (
        whole.replace(b"PK\x01\x02", b"PK\x01\x02\x14\x00\x14\x00\x01\x00\x63\x00", 1),
        file.getvalue().replace(b"'shape': (3,)", b"'shape': (3((", 1),
    ):
        (tmp_path / "last.npz").write_bytes(content)
        with pytest.raises(UserError, match="not a checkpoint"):
            load_checkpoint(tmp_path / "last.npz", _model())


def test_checkpoints_of_a_file_system_of_tensorflow_are_kept_and_resumed():
    run = RunDirectory(f"ram://{uuid.uuid4().hex}/run")
    model, optimizer = _kept(run, [1, 2])
    assert resume(run, model, optimizer)["step"] == 2
    run.last_checkpoint.unlink()  # for ram:// adds to a file that is there
    run.last_checkpoint.write_bytes(b"nonsense")
    assert resume(run, model, optimizer, report=lambda line: None)["step"] == 1
