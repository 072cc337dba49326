"""Every public layer comes back from its file in a process that has only imported the library."""

import inspect
import subprocess
import sys

import keras
import numpy as np

from keras_attn import layers

SYMBOLS = {
    "x": keras.Input((5, 4), name="x"),
    "ids": keras.Input((5,), dtype="int32", name="ids"),
    "lengths": keras.Input((), dtype="int32", name="lengths"),
    "state": keras.Input((3,), name="state"),
    "numbers": keras.Input((5,), name="numbers"),
}


def _attending(cell, x, ids, **options):
    rnn = layers.AttentionRNN(cell, layers.AdditiveAttention(2), return_state=True, **options)
    return rnn(keras.layers.Embedding(9, 4, mask_zero=True)(ids), x)


# A new layer joins with a call of it; the arguments are the symbols that the call reads.
CALLS = {
    "GRU": lambda x, state: layers.GRU(3)(x, initial_state=[state]),
    "LSTM": lambda x: layers.LSTM(3, variant="FGR", peepholes="full")(x),
    "AdditiveAttention": lambda x: layers.AdditiveAttention(3, normalize=True)(x, x),
    "AttentionCell": lambda x, state: layers.AttentionCell(
        layers.GRUCell(3), layers.LuongAttention()
    )(x[:, 0], [state], x)[0],
    "AttentionRNN": lambda x, ids: _attending(layers.GRUCell(3), x, ids),
    "FeedForward": lambda x: layers.FeedForward(8, "swiglu")(x),
    "FilterbankRead": lambda x, numbers: layers.FilterbankRead(3)(x, numbers),
    "FilterbankWrite": lambda x, numbers: layers.FilterbankWrite(6, 7)(x[:, :4], numbers),
    "GRUCell": lambda x: keras.layers.RNN(layers.GRUCell(3))(x),
    "GlimpseSensor": lambda x, numbers: layers.GlimpseSensor(2, scales=2)(x, numbers[:, :2]),
    "LSTMCell": lambda x, ids: _attending([layers.LSTMCell(3), keras.layers.GRUCell(2)], x, ids),
    "LengthMask": lambda x, lengths: layers.LengthMask()(x, lengths),
    "LocationSampler": lambda numbers: layers.LocationSampler(0.1, seed=1)(numbers[:, :2])[0],
    "LuongAttention": lambda x: layers.LuongAttention("scaled")(x, x),
    "Maxout": lambda x: layers.Maxout(2)(x),
    "MultiHeadAttention": lambda x: layers.MultiHeadAttention(2, 4, rotary=True)(x, x),
    "PeepholeLSTM": lambda x: keras.layers.Bidirectional(layers.PeepholeLSTM(3))(x),
    "PeepholeLSTMCell": lambda x, ids: _attending(
        layers.PeepholeLSTMCell(3), x, ids, dtype="mixed_bfloat16"
    ),
    "PositionEmbedding": lambda x: layers.PositionEmbedding(6)(x),
    "RotaryEmbedding": lambda x: layers.RotaryEmbedding(convention="interleaved")(x),
    "SinusoidalEmbedding": lambda x: layers.SinusoidalEmbedding()(x),
    "TransformerDecoderBlock": lambda x: layers.TransformerDecoderBlock(2, 8)(x, x),
    "TransformerEncoderBlock": lambda x: layers.TransformerEncoderBlock(2, 8)(x),
}
READER = """
import pathlib, sys
import numpy as np
import keras_attn
import keras

arrays = dict(np.load("inputs.npz"))
for path in sorted(pathlib.Path().glob("*.keras")):
    model = keras.models.load_model(path)
    outputs = keras.tree.flatten(model({i.name: arrays[i.name] for i in model.inputs}))
    outputs = [np.asarray(keras.ops.cast(each, "float32")) for each in outputs]
    np.savez(path.with_suffix(".read.npz"), *outputs)
"""


def test_every_public_layer_comes_back_bit_for_bit_in_a_fresh_process(tmp_path):
    assert set(CALLS) == set(layers.__all__)
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.standard_normal((2, 5, 4)).astype("float32"),
        "ids": np.array([[3, 2, 0, 0, 0], [1, 4, 2, 8, 0]]),
        "lengths": np.array([5, 2]),
        "state": rng.standard_normal((2, 3)).astype("float32"),
        "numbers": rng.uniform(-0.5, 0.5, (2, 5)).astype("float32"),
    }
    np.savez(tmp_path / "inputs.npz", **arrays)
    expected = {}
    for name, call in CALLS.items():
        symbols = {each: SYMBOLS[each] for each in inspect.signature(call).parameters}
        model = keras.Model(symbols, call(**symbols))
        model.set_weights([0.3 * rng.standard_normal(w.shape) for w in model.get_weights()])
        model.save(tmp_path / f"{name}.keras")
        found = keras.tree.flatten(model({each: arrays[each] for each in symbols}))
        expected[name] = [np.asarray(keras.ops.cast(each, "float32")) for each in found]
    subprocess.run([sys.executable, "-c", READER], cwd=tmp_path, check=True)
    for name, outputs in expected.items():
        read = np.load(tmp_path / f"{name}.read.npz").values()
        for got, wanted in zip(read, outputs, strict=True):
            np.testing.assert_array_equal(got, wanted, err_msg=name)
