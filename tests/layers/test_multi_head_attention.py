"""Multi-head attention: equal to Keras where Keras is right, masks, zeros, NaN, dropout, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.layers import MultiHeadAttention, RotaryEmbedding


def _moved(layer, *inputs, **options):
    """The layer, built, with weights of which none is 0."""
    layer(*inputs, **options)
    layer.set_weights([w + 0.1 * np.random.standard_normal(w.shape) for w in layer.get_weights()])
    return layer


def _copy_of(reference, ours, *inputs):
    _moved(reference, *inputs)
    ours(*inputs)
    ours.set_weights(reference.get_weights())
    return ours


@pytest.mark.parametrize("options", [
    {}, {"value_dim": 3}, {"use_bias": False}, {"output_shape": 5}, {"output_shape": (2, 3)},
])  # fmt: skip
@pytest.mark.parametrize("causal", [False, True])
def test_equals_keras_with_copied_weights(options, causal):
    query, value, key = (keras.random.normal((2, 5, size)) for size in (6, 7, 8))
    reference = keras.layers.MultiHeadAttention(4, 2, **options)
    ours = _copy_of(reference, MultiHeadAttention(4, 2, **options), query, value, key)
    call = {"use_causal_mask": causal, "return_attention_scores": True}
    for got, expected in zip(
        ours(query, value, key, **call), reference(query, value, key, **call), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize(("heads", "groups"), [(4, 2), (4, 1), (6, 3)])
def test_equals_grouped_query_attention_of_keras_with_copied_weights(heads, groups):
    query, value = keras.random.normal((2, 3, 6)), keras.random.normal((2, 5, 6))
    reference = keras.layers.GroupQueryAttention(2, heads, groups)
    ours = MultiHeadAttention(heads, 2, num_key_value_heads=groups)
    _copy_of(reference, ours, query, value)
    for got, expected in zip(
        ours(query, value, return_attention_scores=True),
        reference(query, value, return_attention_scores=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("axes", [None, (1,), (2,), (1, 2), (-2,), (2, 1)])
def test_equals_keras_over_some_axes(axes):
    query, value = keras.random.normal((2, 3, 4, 6)), keras.random.normal((2, 3, 4, 6))
    reference = keras.layers.MultiHeadAttention(2, 3, attention_axes=axes)
    ours = _copy_of(reference, MultiHeadAttention(2, 3, attention_axes=axes), query, value)
    call = {"return_attention_scores": True}
    for got, expected in zip(
        ours(query, value, **call), reference(query, value, **call), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_masks_over_some_axes_equal_a_loop_over_the_others():
    query, value = keras.random.normal((2, 3, 4, 6)), keras.random.normal((2, 3, 5, 6))
    layer = _moved(MultiHeadAttention(2, 3, attention_axes=(2,)), query, value)
    flat = MultiHeadAttention(2, 3)
    flat(query[:, 0], value[:, 0])
    flat.set_weights(layer.get_weights())
    rng = np.random.default_rng(5)
    query_mask, value_mask = rng.random((2, 3, 4)) < 0.7, rng.random((2, 3, 5)) < 0.7
    attention_mask = rng.random((2, 3, 4, 5)) < 0.7
    got, weights = layer(
        query, value, query_mask=query_mask, value_mask=value_mask, attention_mask=attention_mask,
        return_attention_scores=True,
    )  # fmt: skip
    for axis in range(3):
        expected, expected_weights = flat(
            query[:, axis], value[:, axis], query_mask=query_mask[:, axis],
            value_mask=value_mask[:, axis], attention_mask=attention_mask[:, axis],
            return_attention_scores=True,
        )  # fmt: skip
        np.testing.assert_allclose(got[:, axis], expected, atol=1e-5)
        np.testing.assert_allclose(weights[:, axis], expected_weights, atol=1e-5)


def _model_with_automatic_masks():
    tokens = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(9, 6, mask_zero=True)(tokens)
    return keras.Model(tokens, MultiHeadAttention(2, 3, name="attention")(embedded, embedded))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "tf.function"])
def test_automatic_masks_are_honoured_like_explicit_ones(wrap):
    model = _model_with_automatic_masks()
    tokens = np.array([[3, 4, 5, 0, 0], [0, 0, 6, 7, 8]])
    embedded = model.layers[1](tokens)
    embedded = tf.identity(embedded)  # without the mask
    layer, exists = model.get_layer("attention"), tokens != 0
    explicit = layer(embedded, embedded, query_mask=exists, value_mask=exists)
    np.testing.assert_allclose(wrap(model)(tf.constant(tokens)), explicit, atol=1e-6)
    assert np.max(np.abs(layer(embedded, embedded) - explicit)) > 1e-3


def test_masks_are_passed_across_a_tf_function_of_the_layers_own():
    model = _model_with_automatic_masks()
    tokens = np.array([[3, 4, 5, 0, 0]])
    embedded, layer = model.layers[1](tokens), model.get_layer("attention")
    run = tf.function(lambda x, m: layer(x, x, query_mask=m, value_mask=m))
    np.testing.assert_allclose(run(embedded, tokens != 0), model(tokens), atol=1e-6)


def test_each_explicit_mask_hides_what_it_names():
    query, value = keras.random.normal((2, 3, 6)), keras.random.normal((2, 4, 6))
    layer = _moved(MultiHeadAttention(2, 3), query, value)
    exists = np.array([[1, 1, 0, 1], [0, 1, 1, 1]], bool)
    full = np.broadcast_to(exists[:, None], (2, 3, 4))
    expected = layer(query, value, attention_mask=full)
    for masks in ({"value_mask": exists}, {"key_mask": exists},
                  {"attention_mask": full[:, None]}):  # fmt: skip
        np.testing.assert_allclose(layer(query, value, **masks), expected, atol=1e-6)
    shared = np.array([[1, 1, 0, 1]] * 3, bool)
    np.testing.assert_allclose(
        layer(query, value, attention_mask=shared)[0], expected[0], atol=1e-6
    )
    asked = np.array([[1, 1, 0], [0, 1, 1]], bool)
    output, weights = layer(query, value, query_mask=asked, return_attention_scores=True)
    assert np.all(output.numpy()[~asked] == 0)
    assert np.all(np.moveaxis(weights.numpy(), 1, 2)[~asked] == 0)
    np.testing.assert_allclose(output.numpy()[asked], layer(query, value).numpy()[asked], atol=1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 1])
def test_query_without_keys_gets_exactly_zero_in_spite_of_the_bias(policy, causal, window):
    x = keras.random.normal((2, 4, 6))
    layer = _moved(MultiHeadAttention(2, 4, window=window, dtype=policy), x, x)
    exists = np.array([[False, True, True, True], [False, False, False, False]])
    with tf.GradientTape() as tape:
        output, weights = layer(
            x, x, value_mask=exists, use_causal_mask=causal, return_attention_scores=True
        )
        loss = tf.reduce_sum(tf.cast(output, "float32") ** 2)
    output, weights = (tf.cast(t, "float32").numpy() for t in (output, weights))
    blind = np.zeros((2, 4), bool)
    blind[1] = True
    blind[0, 0] = causal or window == 1
    assert np.all(output[blind] == 0)
    assert np.all(weights[1] == 0)
    assert np.all(output[~blind] != 0)
    gradients = tape.gradient(loss, layer.trainable_variables)
    assert all(np.all(np.isfinite(tf.cast(g, "float32"))) for g in gradients)


def test_more_queries_than_keys_leaves_the_first_causal_queries_blind():
    query, value = keras.random.normal((1, 5, 6)), keras.random.normal((1, 3, 6))
    layer = _moved(MultiHeadAttention(2, 3), query, value)
    output = layer(query, value, use_causal_mask=True).numpy()
    assert np.all(output[:, :2] == 0)
    assert np.all(output[:, 2:] != 0)
    graph = tf.function(lambda q, v: layer(q, v, use_causal_mask=True), input_signature=[
        tf.TensorSpec((None, None, 6)), tf.TensorSpec((None, None, 6)),
    ])  # fmt: skip
    np.testing.assert_allclose(graph(query, value), output, atol=1e-6)


def test_nan_of_masked_tokens_reaches_no_output_and_no_gradient():
    x = np.random.default_rng(2).standard_normal((2, 4, 6)).astype("float32")
    exists = np.array([[True, True, False, False], [True, True, True, True]])
    poisoned = x.copy()
    poisoned[~exists] = np.nan
    layer = _moved(MultiHeadAttention(2, 3, rotary=False), x, x)
    results = []
    for inputs in (x, poisoned):
        with tf.GradientTape() as tape:
            output = layer(inputs, inputs, query_mask=exists, value_mask=exists)
            loss = tf.reduce_sum(output**2)
        results.append([output, *tape.gradient(loss, layer.trainable_variables)])
    for clean, got in zip(*results, strict=True):
        np.testing.assert_array_equal(clean, got)


def test_learned_queries_attend_to_every_example():
    queries, memory = keras.random.normal((1, 3, 6)), keras.random.normal((5, 7, 8))
    layer = _moved(MultiHeadAttention(2, 4, num_key_value_heads=1), queries, memory)
    exists = np.arange(7)[None] < np.array([7, 3, 1, 0, 5])[:, None]
    output, weights = layer(queries, memory, value_mask=exists, return_attention_scores=True)
    assert output.shape == (5, 3, 6)
    assert weights.shape == (5, 2, 3, 7)
    repeated = layer(tf.repeat(queries, 5, axis=0), memory, value_mask=exists)
    np.testing.assert_allclose(output, repeated, atol=1e-6)
    assert np.all(output[3] == 0)


def test_symbolic_shapes_of_cross_attention_and_scores():
    layer = MultiHeadAttention(4, 3)
    output, scores = layer(keras.Input((5, 6)), keras.Input((7, 8)), return_attention_scores=True)
    assert output.shape == (None, 5, 6)
    assert scores.shape == (None, 4, 5, 7)


def test_scores_are_returned_before_dropout_and_dropout_is_applied():
    x = keras.random.normal((2, 6, 8))
    layer = MultiHeadAttention(2, 4, dropout=0.5, seed=1)
    still, _ = layer(x, x, return_attention_scores=True)
    output, scores = layer(x, x, return_attention_scores=True, training=True)
    np.testing.assert_allclose(np.sum(scores, axis=-1), 1, atol=1e-6)
    assert np.max(np.abs(output - still)) > 1e-3
    assert np.max(np.abs(layer(x, x, training=True) - layer(x, x, training=True))) > 1e-3
    np.testing.assert_allclose(layer(x, x), still, atol=1e-6)


@pytest.mark.parametrize("convention", ["half_split", "interleaved"])
def test_rotary_scores_depend_on_distances(convention):
    x = tf.repeat(keras.random.normal((1, 1, 8)), 6, axis=1)
    layer = MultiHeadAttention(2, 4, rotary=convention)
    _, scores = layer(x, x, return_attention_scores=True)
    logs = np.log(scores[0, 0])
    assert np.ptp(logs[0] - logs[0, 0]) > 1e-3, "positions matter"
    np.testing.assert_allclose(logs[1, 1:] - logs[1, 1], logs[0, :-1] - logs[0, 0], atol=1e-5)


@pytest.mark.parametrize("rotary", [
    True, "half_split", {"base": 10000.0}, RotaryEmbedding(),
], ids=["True", "convention", "dict", "layer"])  # fmt: skip
def test_every_way_to_ask_for_rotary_positions_is_the_same(rotary):
    x = keras.random.normal((1, 4, 8))
    layers = [MultiHeadAttention(2, 4, rotary=way) for way in (True, rotary)]
    outputs = []
    for layer in layers:
        layer(x, x)
        layer.set_weights(layers[0].get_weights())
        outputs.append(layer(x, x))
    np.testing.assert_array_equal(*outputs)


X = np.ones((2, 3, 6), "float32")


@pytest.mark.parametrize(("arguments", "message"), [
    ({"num_heads": 0}, "positive integer. Received: num_heads=0"),
    ({"key_dim": 2.5}, "Received: key_dim=2.5"),
    ({"value_dim": -1}, "Received: value_dim=-1"),
    ({"num_key_value_heads": 3}, "multiple.*Received: num_heads=4, num_key_value_heads=3"),
    ({"key_dim": 3, "rotary": True}, "even.*Received: key_dim=3, rotary_dim=None"),
    ({"rotary": {"rotary_dim": 3}}, "even.*Received: rotary_dim=3"),
    ({"rotary": {"rotary_dim": 6}}, "Received: key_dim=4, rotary_dim=6"),
    ({"rotary": "spiral"}, "Received: convention='spiral'"),
    ({"rotary": 3}, "Received: rotary=3"),
    ({"window": -2}, "Received: window=-2"),
])  # fmt: skip
def test_bad_constructor_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**({"num_heads": 4, "key_dim": 4} | arguments))


@pytest.mark.parametrize(("arguments", "message"), [
    ({"attention_mask": np.ones((2, 3, 3), "float32")}, "Received: attention_mask.dtype="),
    ({"attention_mask": np.ones((2, 4, 3), bool)}, r"Received: attention_mask.shape=\(2, 4, 3\)"),
    ({"attention_mask": np.ones((2, 4), bool)}, r"Received: attention_mask.shape=\(1, 2, 4\)"),
    ({"value_mask": np.ones((2, 4), bool)}, r"Received: value_mask.shape=\(2, 4\)"),
    ({"key_mask": np.ones((3,), bool)}, r"Received: key_mask.shape=\(3,\)"),
    ({"query_mask": np.ones((2, 1, 3), bool)}, r"Received: query_mask.shape=\(2, 1, 3\)"),
    ({"query_mask": np.ones((2, 3), "int32")}, "Received: query_mask.dtype="),
    ({"value": X[0]}, r"equally many axes.*Received: query.shape=.*value.shape=\(3, 6\)"),
    ({"key": X[:, :2]}, "equally many.*Received: query.shape="),
    ({"value": X[:, :, None]}, "equally many axes"),
    ({"cache": np.zeros((2, 2, 5, 4, 4), "float32")}, r"cache_position.*Received: cache.shape="),
    ({"cache_position": 0}, r"Received: cache=None, cache_position=0"),
    ({"cache": np.zeros((2, 2, 5, 3, 4), "float32"), "cache_position": 0},
     r"\(batch, 2, length, 4, 4\).*Received: cache.shape=\(2, 2, 5, 3, 4\)"),
    ({"cache": np.zeros((2, 2, 2, 4, 4), "float32"), "cache_position": 0}, "3 new tokens"),
    ({"cache": np.zeros((2, 2, 5, 4, 4), "float32"), "cache_position": 3},
     r"Received: cache_position=\[3\]"),
    ({"cache": np.zeros((2, 2, 5, 4, 4), "float32"), "cache_position": -1},
     r"Received: cache_position=\[-1\]"),
    ({"cache": np.zeros((2, 2, 5, 4, 4), "float32"), "cache_position": 0.5},
     "Received: cache_position with dtype=float32"),
])  # fmt: skip
def test_bad_calls_are_refused_with_what_was_received(arguments, message):
    layer = MultiHeadAttention(4, 4)
    layer(X, X)
    with pytest.raises(ValueError, match=message):
        layer(**({"query": X, "value": X} | arguments))


def test_bad_attention_axes_are_refused():
    with pytest.raises(ValueError, match=r"Received: attention_axes=\(3,\)"):
        MultiHeadAttention(4, 4, attention_axes=(3,))(X[:, :, None], X[:, :, None])
