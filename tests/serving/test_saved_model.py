import threading
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.serving import export


class _Constant:
    """Something exportable that is cheap to export."""

    def __init__(self):
        self.resources = [tf.Variable(np.arange(1000.0, dtype="float32"))]

    def signatures(self):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def serve(x):
            return {"y": x + self.resources[0][0]}

        return {"serving_default": serve}


def test_every_export_takes_the_next_number_and_leaves_the_others(tmp_path):
    (tmp_path / "dates" / "7").mkdir(parents=True)
    (tmp_path / "dates" / "7" / "kept").touch()
    (tmp_path / "dates" / "notes").touch()
    assert [export(_Constant(), tmp_path / "dates").name for _ in range(2)] == ["8", "9"]
    assert (tmp_path / "dates" / "7" / "kept").exists()


def test_nobody_sees_half_a_version(tmp_path, monkeypatch):
    seen = []
    save = tf.saved_model.save

    def watched(module, path, **arguments):
        save(module, path, **arguments)
        seen.append([entry.name for entry in tmp_path.iterdir()])

    monkeypatch.setattr(tf.saved_model, "save", watched)
    export(_Constant(), tmp_path)
    assert not any(name.isdecimal() for name in seen[0])
    assert [entry.name for entry in tmp_path.iterdir()] == ["1"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_export_leaves_nothing(tmp_path, monkeypatch, failure):
    def stopped(module, path, **arguments):
        Path(path).mkdir()
        (Path(path) / "saved_model.pb").write_bytes(b"half")
        raise failure

    monkeypatch.setattr(tf.saved_model, "save", stopped)
    with pytest.raises(failure):
        export(_Constant(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_exports_at_the_same_time_get_numbers_of_their_own(tmp_path):
    paths = []
    threads = [
        threading.Thread(target=lambda: paths.append(export(_Constant(), tmp_path)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in paths) == ["1", "2", "3", "4"]


def test_weights_are_stored_once(dates_text_model, dates_base_path):
    stored = sum(f.stat().st_size for f in (dates_base_path / "1" / "variables").iterdir())
    needed = sum(variable.numpy().nbytes for variable in dates_text_model.resources)
    assert needed <= stored < 1.2 * needed
    graph = (dates_base_path / "1" / "saved_model.pb").stat().st_size
    assert graph < 1e6  # no weight was frozen into it


def test_a_place_that_is_a_file_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="Cannot write a model below"):
        export(_Constant(), tmp_path / "file")


@pytest.mark.parametrize("many", [False, True], ids=["one input", "a dict of inputs"])
def test_a_plain_functional_model_is_served_under_the_names_of_its_inputs(tmp_path, many):
    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    model = (
        keras.Model({"b": b, "a": a}, {"sum": keras.layers.Concatenate()([a, b])})
        if many
        else keras.Model(a, keras.layers.Dense(2, dtype="bfloat16")(a))
    )
    values = {"a": tf.ones([4, 3]), **({"b": tf.zeros([4, 2])} if many else {})}
    served = tf.saved_model.load(str(export(model, tmp_path))).signatures["serving_default"]
    outputs = served(**values)
    expected = model(values if many else values["a"])
    assert set(outputs) == ({"sum"} if many else {"output_0"})
    for got in outputs.values():
        assert got.dtype == tf.float32
        np.testing.assert_allclose(got, tf.cast(tf.nest.flatten(expected)[0], tf.float32))


def test_a_sequential_model_exports_and_one_without_inputs_is_refused(tmp_path):
    model = keras.Sequential([keras.Input((3,), name="x"), keras.layers.Dense(2)])
    serve = tf.saved_model.load(str(export(model, tmp_path))).signatures["serving_default"]
    x = np.ones((4, 3), np.float32)
    np.testing.assert_allclose(serve(x=tf.constant(x))["output_0"], model(x), rtol=1e-6)
    with pytest.raises(ValueError, match=r"begin it with a keras.Input. Received: model=own"):
        export(keras.Sequential([keras.layers.Dense(2)], name="own"), tmp_path / "none")
    assert not (tmp_path / "none").exists()
