"""Additive attention against numbers worked out by hand, and against its own step form."""

import keras
import numpy as np
import pytest
from reference import cases

from keras_attn.layers import AdditiveAttention


def _layer_of(case, **arguments):
    layer = AdditiveAttention(len(case["score_vector"]), normalize="g" in case, **arguments)
    query, key = np.array(case["query"], "float32"), np.array(case["key"], "float32")
    layer.build(query.shape, key.shape)
    weights = [case["query_kernel"], case["key_kernel"], case["score_vector"]]
    if "g" in case:
        weights += [case["b"], case["g"]]
    layer.set_weights([np.array(weight, "float32") for weight in weights])
    mask = np.array(case["mask"]) if "mask" in case else None
    return layer, query, key, mask


@pytest.mark.parametrize("case", cases("attention", "additive"))
def test_the_call_gives_the_reference_numbers(case):
    layer, query, key, mask = _layer_of(case)
    context, weights = layer(query, key, value_mask=mask, return_attention_scores=True)
    np.testing.assert_allclose(weights, case["expect"]["weights"], atol=1e-5)
    np.testing.assert_allclose(context, case["expect"]["context"], atol=1e-5)
    if mask is not None:
        assert np.all(np.array(weights)[~np.broadcast_to(mask[:, None], weights.shape)] == 0)


@pytest.mark.parametrize("case", cases("attention", "additive"))
def test_steps_over_a_memory_projected_once_equal_the_call(case):
    layer, query, key, mask = _layer_of(case)
    keys = layer.project_memory(key, mask)
    for step in range(query.shape[1]):
        context, weights = layer.attend(query[:, step], keys, key, mask)
        np.testing.assert_allclose(weights, np.array(case["expect"]["weights"])[:, step], atol=1e-5)
        np.testing.assert_allclose(context, np.array(case["expect"]["context"])[:, step], atol=1e-5)


def test_weights_have_the_published_names_and_order():
    layer = AdditiveAttention(4, normalize=True)
    layer.build((None, None, 2), (None, None, 3))
    assert [weight.name for weight in layer.weights] == [
        "query_kernel", "key_kernel", "score_vector", "bias", "score_scale",
    ]  # fmt: skip
    layer = AdditiveAttention(4)
    layer.build((None, None, 2), (None, None, 3))
    assert [weight.name for weight in layer.weights] == [
        "query_kernel", "key_kernel", "score_vector",
    ]  # fmt: skip


def test_query_of_batch_one_attends_to_every_memory():
    layer = AdditiveAttention(4)
    query, memory = keras.random.normal((1, 2, 3)), keras.random.normal((5, 6, 7))
    context, weights = layer(query, memory, return_attention_scores=True)
    assert context.shape == (5, 2, 7)
    assert weights.shape == (5, 2, 6)
    symbolic = layer(
        keras.Input(batch_shape=(1, 2, 3)), keras.Input((6, 7)), return_attention_scores=True
    )
    assert [tensor.shape for tensor in symbolic] == [(None, 2, 7), (None, 2, 6)]
