"""Files of other versions and files that are none are answered in a sentence."""

import zipfile

import keras
import pytest

from keras_attn import layers, models
from keras_attn.errors import UserError
from keras_attn.models import load_model


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.keras"
    x = keras.Input((3, 4))
    attending = layers.AttentionRNN(layers.GRUCell(3), layers.AdditiveAttention(2))
    keras.Model(x, attending(layers.LSTM(3, return_sequences=True)(x), x)).save(path)
    return path


def _changed(written, path, old, new):
    """The file with a part of its configuration replaced."""
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "config.json":
                assert old in content.decode()
                content = content.decode().replace(old, new).encode()
            target.writestr(name, content)
    return path


def test_a_whole_file_is_read(written):
    assert load_model(written).output_shape == (None, 3, 7)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"variant"', '"nonsense": 3, "variant"', ["LSTM was written by another", "nonsense"]),
        ('"normalize"', '"nonsense": 3, "normalize"', ["AdditiveAttention was", "nonsense"]),
        ('"units": 3, "activation"', '"activation"', ["was written by another version"]),
        ("LSTM", "LSTX", ["has a LSTX, which neither Keras nor keras_attn"]),
        ("GRUCell", "GRUX", ["has a GRUX, which neither Keras nor keras_attn"]),
        ('"units": 2', '"units": 5', ["weights do not fit"]),
    ],
    ids=["argument", "argument within", "missing", "class", "class within", "weights"],
)
def test_a_file_of_another_version_is_one_sentence(written, tmp_path, old, new, words):
    path = _changed(written, tmp_path / "changed.keras", old, new)
    with pytest.raises(UserError) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    for word in (str(path), *words):
        assert word in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"nonsense", "half"], ids=["empty", "text", "half"])
def test_a_file_that_is_no_model_is_one_sentence(written, tmp_path, content):
    path = tmp_path / "model.keras"
    whole = written.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content == "half" else content)
    with pytest.raises(UserError, match=r"no `\.keras` file, or a damaged one"):
        load_model(path)
    with pytest.raises(UserError, match="There is no file"):
        load_model(tmp_path / "missing.keras")


@pytest.mark.parametrize(
    "model", [models.GNMT, models.RNNSearch, models.Transformer, models.RecurrentAttention]
)
def test_a_configuration_of_another_version_is_one_sentence(model):
    with pytest.raises(ValueError, match=rf"{model.__name__} was written by another version"):
        model.from_config({"nonsense": 3})
