import subprocess
import sys

import pytest

import keras_attn

HEAVY = ("tensorflow", "keras", "numpy", "matplotlib", "babel", "uvicorn", "google.protobuf")


def _modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    reply = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert reply.stderr == ""
    return set(reply.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import keras_attn",
        "import keras_attn.cli",
        "import keras_attn.serving",
        "import keras_attn.recipes",
        "import keras_attn.protocols",
    ],
)
def test_importing_is_light_and_silent(statement):
    assert not _modules_after(statement) & set(HEAVY)


@pytest.mark.parametrize("name", [name for name in keras_attn.__all__ if name != "__version__"])
def test_every_submodule_is_there_when_it_is_asked_for(name):
    assert getattr(keras_attn, name).__name__ == f"keras_attn.{name}"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        keras_attn.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "first",
    [
        "import keras_attn, keras",
        "import keras, keras_attn",
        "import keras_attn.decoding",
        "from keras_attn.layers import GRU",
    ],
)
def test_keras_knows_every_saved_class_in_a_fresh_process(first):
    names = ("GRU", "MultiHeadAttention", "RNNSearch", "TokenLoss", "Transformer")
    found = (
        "import keras\n"
        f"for name in {names}:\n"
        "    assert keras.saving.get_registered_object('keras_attn>' + name), name"
    )
    subprocess.run([sys.executable, "-c", f"{first}\n{found}"], capture_output=True, check=True)
