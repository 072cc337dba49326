"""What a TPU asks of a training step: XLA compiles it, and nothing in it reads text."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from distributed_cases import adding, adding_batches, squared_error

from keras_attn.recipes import make_recipe
from keras_attn.recipes.dates import Dates
from keras_attn.training import RunDirectory
from keras_attn.training.replica_step import make_gradient

HOST_OPS = ("String", "Lookup", "HashTable", "PyFunc", "Print", "Regex", "Unicode", "Where")


def _dates(tmp_path):
    recipe, run = Dates(training_dates=200, units=4), RunDirectory(tmp_path)
    recipe.prepare(run)
    return recipe.build(run), recipe.objective(), next(iter(recipe.fixed_batches(run)))


def _translation(tmp_path, model, **options):
    for name in ("source", "target"):
        lines = "".join(f"{'ab ' * length}c\n" for length in (2, 5, 1, 7, 3, 4) * 4)
        (tmp_path / name).write_text(lines, encoding="utf-8")
    files = {name: tmp_path / name for name in ("source", "target")}
    held_out = {f"validation_{name}": path for name, path in files.items()}
    sizes = {"vocabulary_size": 264, "batch_tokens": 64, "max_tokens": 32, **options}
    recipe = make_recipe("translation", model=model, **files, **held_out, **sizes)
    run = RunDirectory(tmp_path)
    recipe.prepare(run)
    batches = list(recipe.fixed_batches(run).take(20))  # each fits its shape, or this fails
    return recipe.build(run), recipe.objective(), batches[0]


def _rnnsearch(tmp_path):
    return _translation(tmp_path, "rnnsearch", embedding_dim=8, encoder_units=4, decoder_units=8)


def _transformer(tmp_path):
    sizes = {"dim": 8, "num_heads": 2, "intermediate_dim": 16}
    return _translation(tmp_path, "transformer", **sizes, encoder_layers=1, decoder_layers=1)


def _regression(tmp_path):
    return adding(), squared_error, next(iter(adding_batches()))


@pytest.mark.parametrize(
    ("recipe", "policy"),
    [
        (_dates, "float32"),
        (_rnnsearch, "float32"),
        (_transformer, "mixed_bfloat16"),
        (_regression, "mixed_bfloat16"),
    ],
)
def test_loss_and_gradient_compile_and_read_no_text(recipe, policy, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_attn.ops.chunks.CHUNK", 2)  # longer ones take long to compile
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
