"""Position layers: where the positions come from, and their precision under every policy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_check import check_layer

from keras_attn.layers import (
    MultiHeadAttention,
    PositionEmbedding,
    RotaryEmbedding,
    SinusoidalEmbedding,
)
from keras_attn.ops import rotate, sinusoid

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 500000.0,
}  # fmt: skip
DYNAMIC = {"type": "dynamic", "factor": 4.0, "original_length": 6}
LONGROPE = {
    "type": "longrope", "factor": 4.0, "original_length": 6,
    "short_factor": [1.0, 1.5, 2.0, 3.0], "long_factor": [1.0, 3.0, 9.0, 27.0],
}  # fmt: skip
YARN = {
    "type": "yarn", "factor": 4.0, "original_length": 64, "truncate": False, "mscale": 0.7,
    "mscale_all_dim": 0.5,
}  # fmt: skip
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


@pytest.mark.parametrize("scaling", [LLAMA3, DYNAMIC, LONGROPE, YARN, {"type": "default"}])
def test_rotary_embedding_with_every_scaling(scaling, tmp_path):
    positions = np.array([[0, 1, 2], [70, 71, 4097]])
    check_layer(
        lambda **kwargs: RotaryEmbedding(scaling=scaling, **kwargs),
        {"inputs": X[:, :, None], "positions": positions},
        tmp_path,
    )
    assert RotaryEmbedding(scaling=scaling).get_config()["scaling"] == scaling


@pytest.mark.parametrize(("layout", "shape"), [
    ("opennmt_tf", (2, 3, 8)), ("opennmt_tf", (2, 3, 3, 8)), ("interleaved", (2, 3, 4, 7)),
    ("concatenated", (2, 3, 4, 3, 7)),
])  # fmt: skip
def test_sinusoidal_embedding_of_every_layout_and_rank(layout, shape, tmp_path):
    check_layer(
        lambda **kwargs: SinusoidalEmbedding(layout, **kwargs),
        {"inputs": np.ones(shape, "float32"), "positions": np.array([[0, 1, 2], [70, 71, 4097]])},
        tmp_path,
    )


@pytest.mark.parametrize("shape", [(2, 3, 8), (2, 3, 3, 8)])
@pytest.mark.parametrize("positions", [{}, {"positions": np.array([[0, 1, 2], [5, 6, 4]])}])
def test_position_embedding(shape, positions, tmp_path):
    arguments = {"embeddings_regularizer": "l2", "embeddings_constraint": "max_norm"}
    check_layer(
        lambda **kwargs: PositionEmbedding(7, **arguments, **kwargs),
        {"inputs": np.ones(shape, "float32"), **positions},
        tmp_path,
    )


@pytest.mark.parametrize("scaling", [DYNAMIC, LONGROPE], ids=["dynamic", "longrope"])
def test_the_length_that_a_scaling_goes_by_counts_from_position_0(scaling):
    """`start_index` is part of it, so that a step that continues a sequence has its frequencies."""
    layer, x = RotaryEmbedding(scaling=scaling), np.tile(X, (1, 3, 1))  # 9 positions, 6 known
    whole = layer(x)
    np.testing.assert_array_equal(layer(x[:, 5:], start_index=5), whole[:, 5:])
    np.testing.assert_array_equal(layer(x[:, 5:], start_index=np.array([5, 5])), whole[:, 5:])
    assert np.max(np.abs(layer(x[:, :5]) - whole[:, :5])) > 0.01


@pytest.mark.parametrize("scaling", [DYNAMIC, LONGROPE], ids=["dynamic", "longrope"])
def test_cached_steps_equal_the_whole_sequence_up_to_the_original_length(scaling):
    """Beyond it the keys of earlier steps keep the frequencies of their time."""
    layer = MultiHeadAttention(2, 8, rotary={"scaling": scaling})
    x = keras.random.normal((1, 8, 5))

    def whole(length):
        return layer(x[:, :length], x[:, :length], use_causal_mask=True)[:, -1]

    whole(1)
    cache, steps = layer.initial_cache(1, 8), []
    for t in range(8):
        step, cache = layer(
            x[:, t : t + 1], x[:, t : t + 1], cache=cache, cache_position=t, use_causal_mask=True
        )
        steps.append(step[:, 0])
    for t in range(6):
        np.testing.assert_allclose(steps[t], whole(t + 1), atol=1e-5)
    assert np.max(np.abs(steps[7] - whole(8))) > 1e-4
    first_key = layer.rotary(layer._key_dense(x[:, :1]))
    np.testing.assert_allclose(cache[:, 0, :1], first_key, atol=1e-6)
    at_the_end = layer.rotary(layer._key_dense(x))[:, 7:]
    np.testing.assert_allclose(cache[:, 0, 7:], at_the_end, atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 3, 3, 8), (2, 3, 4, 8), (2, 3, 4, 3, 8)])
@pytest.mark.parametrize("positions", [{}, {"start_index": np.array([4, 9])}])
def test_positions_run_along_axis_1_whatever_lies_between(shape, positions):
    table = PositionEmbedding(16)
    for layer in (SinusoidalEmbedding(), table):
        expected = np.array(layer(X, **positions))[
            (slice(None), slice(None), *[None] * (len(shape) - 3))
        ]
        y = layer(np.ones(shape, "float32"), **positions)
        np.testing.assert_array_equal(y, np.broadcast_to(expected, shape))


@pytest.mark.parametrize("layer", [RotaryEmbedding, SinusoidalEmbedding])
def test_a_start_index_written_in_python_has_the_digits_of_the_computation(layer):
    x = X.astype("float64")
    exact = layer(dtype="float64")(x, positions=np.array([0.1, 1.1, 2.1], "float64"))
    np.testing.assert_allclose(layer(dtype="float64")(x, start_index=0.1), exact, atol=1e-14)
    np.testing.assert_allclose(
        layer(dtype="float64")(x, positions=[0.1, 1.1, 2.1]), exact, atol=1e-14
    )
    assert layer(dtype="bfloat16")(X, start_index=0.5).dtype == "bfloat16"


def test_the_table_of_positions_is_what_is_returned_and_trained():
    layer = PositionEmbedding(4)
    with tf.GradientTape() as tape:
        y = layer(X, start_index=1)
        loss = tf.reduce_sum(y * X)
    np.testing.assert_array_equal(y, np.broadcast_to(layer.embeddings[1:], X.shape))
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.embeddings.value))
    np.testing.assert_allclose(gradient, np.pad(X.sum(0), ((1, 0), (0, 0))), atol=1e-6)
    assert [w.name for w in layer.weights] == ["embeddings"]
    assert layer.weights[0].shape == (4, 8)


OUTSIDE = [
    {"start_index": 2}, {"start_index": -1}, {"start_index": np.array([0, 2])},
    {"positions": np.array([0, 1, 4])}, {"positions": np.array([[0, 1, 2], [0, -1, 2]])},
]  # fmt: skip


@pytest.mark.parametrize("arguments", OUTSIDE)
def test_positions_beyond_the_table_are_refused_and_stop_a_graph(arguments):
    layer = PositionEmbedding(4)
    with pytest.raises(
        ValueError, match=r"from 0 to 3.*Received: max_length=4, smallest_position="
    ):
        layer(X, **arguments)
    constants = {name: tf.constant(value) for name, value in arguments.items()}
    run = tf.function(lambda x, arguments: layer(x, **arguments))
    run(X, {name: tf.maximum(value, 1) * 0 for name, value in constants.items()})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Positions must lie in the table"):
        run(X, constants)


def test_a_sequence_longer_than_the_table_is_refused_as_soon_as_its_length_is_known(tmp_path):
    refused = r"smallest_position=0, largest_position=4"
    with pytest.raises(ValueError, match=refused):
        PositionEmbedding(4)(keras.Input((5, 8)))
    model = keras.Sequential([keras.Input((None, 8)), PositionEmbedding(4)])
    with pytest.raises(ValueError, match=refused):
        model.predict(np.ones((1, 5, 8), "float32"), verbose=0)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "served"))
    assert tuple(served.serve(tf.ones((1, 4, 8))).shape) == (1, 4, 8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Positions must lie in the table"):
        served.serve(tf.ones((1, 5, 8)))


def test_masks_go_through_learned_positions():
    inputs = keras.layers.Embedding(9, 8, mask_zero=True)(np.array([[1, 2, 0]]))
    mask = keras.src.backend.get_keras_mask(PositionEmbedding(4)(inputs))
    np.testing.assert_array_equal(mask, [[True, True, False]])


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
    (lambda: RotaryEmbedding(scaling=LLAMA3, base=2000.0), "contradict.*Received: base=2000.0"),
    (lambda: RotaryEmbedding(scaling=LLAMA3 | {"betafast": 2}), r"has no 'betafast'"),
    (lambda: RotaryEmbedding()(X[0]), r"Received: inputs.shape=\(3, 8\)"),
    (lambda: SinusoidalEmbedding()(X[0]), r"Received: inputs.shape=\(3, 8\)"),
    (lambda: SinusoidalEmbedding()(X, np.arange(2)), r"positions.shape=\(2,\)"),
    (lambda: SinusoidalEmbedding("opennmt_tf")(X[..., :7]), "Received: dim=7"),
    (lambda: RotaryEmbedding()(keras.Input((3, 5))), "Received: rotary_dim=5"),
    (lambda: SinusoidalEmbedding("opennmt_tf")(keras.Input((3, 2))), "Received: dim=2"),
    (lambda: PositionEmbedding(0), "Received: max_length=0"),
    (lambda: PositionEmbedding(4)(X[0]), r"Received: inputs.shape=\(3, 8\)"),
    (lambda: PositionEmbedding(4)(X, np.arange(2)), r"positions.shape=\(2,\)"),
    (lambda: PositionEmbedding(4)(X, start_index=0.5), "Received: positions.dtype=float32"),
    (lambda: PositionEmbedding(4)(keras.Input((3, None))), "Received: inputs.shape="),
    (lambda: SinusoidalEmbedding("stacked"), "Received: layout='stacked'"),
    (lambda: SinusoidalEmbedding(max_wavelength=1), "Received: max_wavelength=1"),
    (lambda: RotaryEmbedding(dtype="bfloat16")(X, positions=np.array([0.0, 1.0, 2.0])),
     "Received: positions.dtype=bfloat16"),
])  # fmt: skip
def test_bad_arguments_are_refused_with_what_was_received(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_integers_are_turned_as_the_numbers_that_they_are(dtype):
    numbers = (np.arange(24).reshape(2, 3, 4) % 3).astype(dtype)
    turned = RotaryEmbedding()(numbers)
    np.testing.assert_array_equal(turned, RotaryEmbedding()(numbers.astype("float32")))
    assert RotaryEmbedding()(keras.Input((3, 4), dtype=dtype)).dtype == "float32"


REFUSED_SHAPES = {
    "rotary-rank": (RotaryEmbedding, (2, 6)),
    "rotary-odd": (RotaryEmbedding, (2, 4, 7)),
    "sinusoidal-rank": (SinusoidalEmbedding, (6,)),
    "table-rank": (lambda: PositionEmbedding(5), (2, 6)),
    "table-length": (lambda: PositionEmbedding(5), (2, 9, 6)),
}


@pytest.mark.parametrize("name", REFUSED_SHAPES)
def test_a_declared_shape_is_refused_as_the_call_is(name):
    make, shape = REFUSED_SHAPES[name]
    with pytest.raises(ValueError, match="Received: "):
        make().compute_output_shape(shape)
    with pytest.raises(ValueError, match="Received: "):
        make()(np.ones(shape, "float32"))


def test_a_table_refuses_other_features_than_its_own():
    layer = PositionEmbedding(5)
    layer(np.ones((2, 4, 6)))
    for call in (layer.compute_output_shape, lambda shape: layer(np.ones(shape))):
        with pytest.raises(ValueError, match=r"Received: inputs.shape=\(2, 4, 7\)"):
            call((2, 4, 7))
