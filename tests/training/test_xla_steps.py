"""What a TPU asks of a training step: XLA compiles it, and nothing in it reads text."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from distributed_cases import adding, adding_batches, squared_error

from keras_attn.recipes.dates import Dates
from keras_attn.recipes.translation import Translation
from keras_attn.training import RunDirectory
from keras_attn.training.replica_step import make_gradient

HOST_OPS = ("String", "Lookup", "HashTable", "PyFunc", "Print", "Regex", "Unicode", "Where")


def _dates(tmp_path):
    recipe, run = Dates(training_dates=200, units=4), RunDirectory(tmp_path)
    recipe.prepare(run)
    inputs, labels, mask = next(iter(recipe.batches(run)))
    short = {  # as in a bucket of short dates: unrolled loops take long to compile
        "source": inputs["source"][:4, :6],
        "source_lengths": tf.minimum(inputs["source_lengths"][:4], 6),
        "target": inputs["target"][:4],
    }
    return recipe.build(run), recipe.objective(), (short, labels[:4], mask[:4])


def _translation(tmp_path):
    class SmallVocabulary:
        vocabulary_size = 20

    recipe = Translation("translation", None, {"embedding_dim": 8, "encoder_units": 4})
    recipe._tokenizer = lambda run: SmallVocabulary
    random = np.random.default_rng(0)
    labels = random.integers(3, 20, (4, 6)).astype("int32")
    inputs = {
        "source": random.integers(3, 20, (4, 7)).astype("int32"),
        "source_lengths": np.array([7, 2, 3, 1], np.int32),
        "target": np.roll(labels, 1, 1),
    }
    mask = np.arange(6) < np.array([[6], [1], [4], [2]])
    batch = tf.nest.map_structure(tf.constant, (inputs, labels, mask))
    return recipe.build(RunDirectory(tmp_path)), recipe.objective(), batch


def _regression(tmp_path):
    return adding(), squared_error, next(iter(adding_batches()))


@pytest.mark.parametrize(
    ("recipe", "policy"),
    [
        (_dates, "float32"),
        (_translation, "mixed_bfloat16"),
        (_translation, "float32"),
        (_regression, "mixed_bfloat16"),
    ],
)
def test_loss_and_gradient_compile_and_read_no_text(recipe, policy, tmp_path):
    keras.config.set_dtype_policy(policy)
    try:
        model, objective, batch = recipe(tmp_path)
    finally:
        keras.config.set_dtype_policy("float32")
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.Dropout):
            layer.rate = 0.0  # XLA draws other random numbers
    optimizer = keras.optimizers.Adam()
    gradient = make_gradient(model, optimizer, objective)
    rows = tf.constant(64.0)
    compiled = tf.function(gradient, jit_compile=True, autograph=False)
    found = compiled(batch, rows)
    plain = tf.function(gradient)(batch, rows)
    if policy == "float32":
        for got, expected in zip(found, plain, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    ours, others = (np.concatenate([np.ravel(x) for x in sums]) for sums in (found, plain))
    assert ours @ others > 0.99 * np.linalg.norm(ours) * np.linalg.norm(others)

    graph = compiled.get_concrete_function(batch, rows).graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    assert len(nodes) > 20
    for node in nodes:
        assert not any(name in node.op for name in HOST_OPS), node.op
        assert all(kind != tf.string.as_datatype_enum for kind in _types(node)), node
    unknown = [x for x in tf.nest.flatten(batch) if not x.shape.is_fully_defined()]
    assert not unknown


def _types(node):
    return [value.type for name, value in node.attr.items() if name in ("T", "dtype", "Tin")]
