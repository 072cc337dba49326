"""Position layers: where the positions come from, and their precision under every policy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import RotaryEmbedding, SinusoidalEmbedding
from keras_attn.ops import rotate, sinusoid

X = np.random.default_rng(1).standard_normal((2, 3, 8)).astype("float32")


@pytest.mark.parametrize(("arguments", "positions"), [
    ({}, [[0, 1, 2]] * 2),
    ({"start_index": 5}, [[5, 6, 7]] * 2),
    ({"start_index": np.array([5, 9])}, [[5, 6, 7], [9, 10, 11]]),
    ({"positions": np.array([4, 2, 7])}, [[4, 2, 7]] * 2),
    ({"positions": np.array([[4, 2, 7], [0, 0, 1]])}, [[4, 2, 7], [0, 0, 1]]),
])  # fmt: skip
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "unknown length"])
def test_positions_are_given_or_counted_from_the_start_index(arguments, positions, wrap):
    rotary, sinusoidal = RotaryEmbedding(), SinusoidalEmbedding("concatenated")
    if wrap is tf.function:
        wrap = tf.function(input_signature=[tf.TensorSpec((None, None, 8))])
    x = tf.constant(X)
    np.testing.assert_allclose(
        wrap(lambda x: rotary(x, **arguments))(x), rotate(X, np.array(positions)), atol=1e-6
    )
    np.testing.assert_allclose(
        wrap(lambda x: sinusoidal(x, **arguments))(x),
        sinusoid(np.array(positions), 8, "concatenated"),
        atol=1e-6,
    )


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16", "float16"])
@pytest.mark.parametrize("layer", [RotaryEmbedding, SinusoidalEmbedding])
def test_far_positions_keep_their_angles_in_half_precision(layer, policy):
    half, exact = (layer(dtype=dtype)(X, start_index=4096) for dtype in (policy, "float32"))
    assert half.dtype == keras.DTypePolicy(policy).compute_dtype
    np.testing.assert_allclose(tf.cast(half, "float32"), exact, atol=2e-2)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: RotaryEmbedding(convention="spiral"), "Received: convention='spiral'"),
    (lambda: RotaryEmbedding(scaling={"type": "cubic"}), "Received: scaling="),
    (lambda: RotaryEmbedding(base=0), "Received: base=0"),
    (lambda: RotaryEmbedding(rotary_dim=3), "Received: rotary_dim=3"),
    (lambda: RotaryEmbedding()(X[..., :5]), "Received: rotary_dim=5"),
    (lambda: SinusoidalEmbedding("stacked"), "Received: layout='stacked'"),
    (lambda: SinusoidalEmbedding(max_wavelength=1), "Received: max_wavelength=1"),
    (lambda: RotaryEmbedding(dtype="bfloat16")(X, positions=np.array([0.0, 1.0, 2.0])),
     "Received: positions.dtype=bfloat16"),
])  # fmt: skip
def test_bad_arguments_are_refused_with_what_was_received(make, message):
    with pytest.raises(ValueError, match=message):
        make()
