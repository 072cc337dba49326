"""Every model comes back from its file in a process that has only imported the library."""

import inspect
import subprocess
import sys

import keras
import numpy as np

from keras_attn import models

TOKENS = {
    "source": np.array([[4, 5, 6, 7], [8, 4, 0, 0]]),
    "source_lengths": np.array([4, 2]),
    "target": np.array([[1, 5, 9], [1, 7, 4]]),
}
IMAGES = {"images": np.random.default_rng(0).uniform(size=(2, 8, 9)).astype("float32")}
UNITS = {f"{name}_units": 4 for name in ("encoder", "decoder", "attention", "readout")}
# A new model joins with an example of it, and what it reads.
MODELS = {
    "GNMT": (lambda: models.GNMT(13, 11, 6, 6, 2, 3, 4, input_feeding=True), TOKENS),
    "LSTMParser": (
        lambda: models.LSTMParser(
            13, 11, word_tokens=[4], embedding_dim=6, units=6, attention_units=4
        ),
        TOKENS,
    ),
    "RNNEncoderDecoder": (
        lambda: models.RNNEncoderDecoder(13, 11, 6, 6, scheduled_sampling=0.25),
        TOKENS,
    ),
    "RNNSearch": (lambda: models.RNNSearch(13, 11, 6, **UNITS), TOKENS),
    "RecurrentAttention": (
        lambda: models.RecurrentAttention(10, 3, 2, (8, 9), scales=2, units=6, glimpse_units=4),
        IMAGES,
    ),
    "ShowAttendTell": (
        lambda: models.ShowAttendTell(11, (8, 9, 1), 6, 4, 3, "hard", (2, 3), seed=1),
        {"images": IMAGES["images"][..., None], "target": TOKENS["target"]},
    ),
    "Transformer": (lambda: models.Transformer(13, 13, 8, 2, 16, 1, 1), TOKENS),
}
READER = """
import pathlib, sys
import numpy as np
import keras_attn
import keras

for path in sorted(pathlib.Path().glob("*.keras")):
    model = keras.models.load_model(path)
    inputs = dict(np.load(path.with_suffix(".inputs.npz")))
    outputs = model(inputs if len(inputs) > 1 else inputs["images"])
    np.savez(path.with_suffix(".read.npz"), *map(np.asarray, keras.tree.flatten(outputs)))
    if getattr(model, "sampling_rate", None) is not None:
        print(path.stem, float(model.sampling_rate))
"""


def test_every_model_comes_back_bit_for_bit_in_a_fresh_process(tmp_path):
    classes = [name for name in models.__all__ if inspect.isclass(getattr(models, name))]
    assert set(MODELS) == set(classes)
    expected = {}
    for name, (make, inputs) in MODELS.items():
        model = make()
        model.save(tmp_path / f"{name}.keras")
        np.savez(tmp_path / f"{name}.inputs.npz", **inputs)
        outputs = model(inputs if len(inputs) > 1 else inputs["images"])
        expected[name] = [np.asarray(each) for each in keras.tree.flatten(outputs)]
    done = subprocess.run(
        [sys.executable, "-c", READER], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["RNNEncoderDecoder", "0.25"], done.stderr
    for name, outputs in expected.items():
        read = np.load(tmp_path / f"{name}.read.npz").values()
        for got, wanted in zip(read, outputs, strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=name)
