"""What every public layer must do, as one function: `check_layer`.

It fails if the layer loses an argument in its config, computes something else after saving, in a
graph, under XLA, in another dtype or with unknown sizes, declares shapes that it does not return,
or lets masked entries through.
"""

import contextlib
import inspect
import json
import logging
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

TOLERANCES = {"float64": 1e-6, "float32": 1e-5, "float16": 2e-2, "bfloat16": 1e-1}
"""Of outputs of size 1, against float64."""


def check_layer(
    factory: Callable[..., keras.Layer],
    inputs: dict[str, np.ndarray],
    directory: Path,
    masks: dict[str, tuple[str, np.ndarray]] | None = None,
    dynamic_axes: tuple[int, ...] = (0, 1),
    call: Callable | None = None,
):
    """Check a layer.

    Args:
        factory: makes the layer; takes `dtype`.
        inputs: the tensors of the call by argument name, the first argument first. Floats are
            given to the layer in its own dtype.
        directory: where to save models, pytest's `tmp_path`.
        masks: by name of the mask argument, the argument that it masks and the mask (B, T), which
            should have both True and False in it.
        dynamic_axes: the axes of all inputs and masks whose size may be unknown or small: batch
            and time. For inputs without time, `(0,)`.
        call: how to call the layer, `call(layer, **tensors)`; by default with the first tensor in
            its place and the others by name.
    """
    masks = masks or {}
    layer = factory(dtype="float32")
    call = _Call(inputs, masks, dynamic_axes, call or _call_by_name)
    call.run(layer)
    _move_weights(layer)
    _check_config(factory, layer, call)
    _check_dtypes(factory, layer, call)
    _check_eager_graph_xla(layer, call)
    model = _check_symbolic_shapes(layer, call)
    _check_odd_sizes(layer, call)
    _check_saving(model, call, directory)
    _check_export(model, call, directory)
    if masks:
        _check_masks(layer, call)


def _call_by_name(layer, **tensors):
    first, *others = tensors
    return layer(tensors[first], **{name: tensors[name] for name in others})


class _Call:
    """The example call of a layer."""

    def __init__(self, inputs, masks, dynamic_axes, call):
        self.inputs = inputs
        self.masks = masks
        self.mask_arrays = {name: mask for name, (_, mask) in masks.items()}
        self.arrays = {**inputs, **self.mask_arrays}
        self.dynamic_axes = dynamic_axes
        self.call = call

    def run(self, layer, arrays=None) -> list:
        """The outputs of the layer, flat."""
        return keras.tree.flatten(self.run_nested(layer, self.arrays if arrays is None else arrays))

    def run_nested(self, layer, arrays):
        return self.call(layer, **arrays)

    def tensors(self, arrays=None, dtype="float32") -> dict:
        """The arrays as tensors, floats in the dtype."""
        arrays = self.arrays if arrays is None else arrays
        return {
            name: tf.cast(a, dtype) if np.issubdtype(a.dtype, np.floating) else tf.constant(a)
            for name, a in arrays.items()
        }

    def symbols(self, shape_of: Callable, arrays=None) -> dict:
        """Keras inputs for the arrays, of the shapes that `shape_of` gives them."""
        arrays = self.arrays if arrays is None else arrays
        return {
            name: keras.Input(batch_shape=shape_of(a), dtype=_input_dtype(a), name=name)
            for name, a in arrays.items()
        }

    def unknown_shape(self, array) -> list:
        return [None if axis in self.dynamic_axes else n for axis, n in enumerate(array.shape)]

    def resized(self, axis: int, size: int) -> dict:
        """The arrays with the first `size` entries of an axis alone."""
        cut = (slice(None),) * axis + (slice(size),)
        return {name: array[cut] for name, array in self.arrays.items()}


def _move_weights(layer):
    """Move every weight off its initial value, so that none is 0 and none can be forgotten."""
    rng = np.random.default_rng(7)
    layer.set_weights([
        (w + 0.2 * rng.standard_normal(w.shape)).astype(w.dtype) if w.dtype.kind == "f" else w
        for w in layer.get_weights()
    ])  # fmt: skip


def _assert_close(got, expected, tolerance, what):
    got, expected = keras.tree.flatten(got), keras.tree.flatten(expected)
    assert len(got) == len(expected), f"{what}: {len(got)} outputs instead of {len(expected)}"
    for g, e in zip(got, expected, strict=True):
        g, e = (np.asarray(tf.cast(x, "float64") if x.dtype != bool else x) for x in (g, e))
        assert g.shape == e.shape, f"{what}: shape {g.shape} instead of {e.shape}"
        np.testing.assert_allclose(g, e, atol=tolerance, rtol=tolerance, err_msg=what)


def _check_config(factory, layer, call):
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    parameters = inspect.signature(type(layer).__init__).parameters.values()
    named = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD} - {"self"}
    missing = named - set(config["config"])
    assert not missing, f"the config lacks arguments of the constructor: {missing}"
    copy = keras.saving.deserialize_keras_object(config)
    again = json.loads(json.dumps(keras.saving.serialize_keras_object(copy)))
    # The copy and its parts need not be built yet.
    same = _without_build_config(again) == _without_build_config(config)
    assert same, "the config of a copy made from the config differs"
    call.run(copy)
    copy.set_weights(layer.get_weights())
    _assert_close(call.run(copy), call.run(layer), 0, "a copy made from the config")


def _without_build_config(config):
    if isinstance(config, list):
        return [_without_build_config(each) for each in config]
    if not isinstance(config, dict):
        return config
    return {k: _without_build_config(v) for k, v in config.items() if k != "build_config"}


def _check_dtypes(factory, layer, call):
    policies = {dtype: dtype for dtype in TOLERANCES}
    policies |= {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
    exact = None
    for policy, dtype in policies.items():
        copy = factory(dtype=policy)
        tensors = call.tensors(dtype=dtype)
        call.run(copy, tensors)
        copy.set_weights([w.astype("float64") for w in layer.get_weights()])
        outputs = call.run(copy, tensors)
        exact = outputs if exact is None else exact
        for output in outputs:
            expected = dtype if output.dtype.is_floating else output.dtype
            assert output.dtype == expected, f"{policy}: an output is {output.dtype.name}"
        _assert_close(outputs, exact, TOLERANCES[dtype], f"dtype {policy}")


def _outputs_and_gradients(layer, call, tensors):
    """Outputs, and gradients for weights and float inputs of a sum that weighs every output."""
    watched = [t for t in tensors.values() if t.dtype.is_floating]
    variables = [v.value for v in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = call.run(layer, tensors)
        loss = _weighed_sum([o for o in outputs if o.dtype.is_floating])
    gradients = tape.gradient(loss, variables + watched, unconnected_gradients="zero")
    return outputs, [tf.convert_to_tensor(g) for g in gradients]


def _weighed_sum(outputs):
    """A sum in which each entry of each output has a weight of its own; 0 without outputs."""
    sums = [
        tf.reduce_sum(tf.sin(tf.range(tf.size(o), dtype=o.dtype)) * tf.reshape(o, [-1]))
        for o in outputs
    ]
    return tf.add_n(sums) if sums else tf.zeros([])


def _check_eager_graph_xla(layer, call):
    tensors = call.tensors()
    eager = _outputs_and_gradients(layer, call, tensors)
    for jit_compile in (False, True):
        run = tf.function(
            lambda t: _outputs_and_gradients(layer, call, t),
            jit_compile=jit_compile,
            autograph=False,
        )
        what = f"{'XLA' if jit_compile else 'graph'} against eager"
        _assert_close(run(tensors), eager, 1e-5, what)


def _check_symbolic_shapes(layer, call):
    """Declared shapes with unknown and known sizes; returns the functional model of the layer."""
    symbols = call.symbols(call.unknown_shape)
    symbolic = call.run_nested(layer, symbols)
    keras.tree.assert_same_structure(symbolic, call.run_nested(layer, call.tensors()))
    _assert_declared(symbolic, call.run(layer, call.tensors()))
    for axis in (None, *call.dynamic_axes):
        arrays = call.arrays if axis is None else call.resized(axis, 1)
        declared = call.run(layer, call.symbols(np.shape, arrays))
        real = call.run(layer, call.tensors(arrays))
        _assert_declared(declared, real)
        assert not any(None in d.shape for d in declared), "a known size is not declared"
    return keras.Model(symbols, keras.tree.flatten(symbolic))  # signatures return no nests


def _assert_declared(symbolic, real):
    for s, r in zip(keras.tree.flatten(symbolic), real, strict=True):
        agree = len(s.shape) == len(r.shape) and all(
            a in (None, b) for a, b in zip(s.shape, r.shape, strict=True)
        )
        assert agree, f"symbolic shape {s.shape}, real shape {r.shape}"
        dtype = keras.backend.standardize_dtype(r.dtype)
        assert s.dtype == dtype, f"symbolic dtype {s.dtype}, real dtype {dtype}"


def _input_dtype(array) -> str:
    return "float32" if np.issubdtype(array.dtype, np.floating) else str(array.dtype)


def _check_odd_sizes(layer, call):
    signature = {
        name: tf.TensorSpec(call.unknown_shape(t), t.dtype) for name, t in call.tensors().items()
    }
    run = tf.function(
        lambda t: _outputs_and_gradients(layer, call, t),
        input_signature=[signature],
        autograph=False,
    )
    sizes = [(axis, size) for axis in call.dynamic_axes for size in ((0, 1) if axis == 0 else (1,))]
    for axis, size in sizes:
        tensors = call.tensors(call.resized(axis, size))
        what = f"unknown sizes, axis {axis} of size {size}"
        got = run(tensors)
        _assert_close(got, _outputs_and_gradients(layer, call, tensors), 1e-5, what)
        _assert_finite(got, what)


def _check_saving(model, call, directory):
    path = directory / "model.keras"
    model.save(path)
    loaded = keras.models.load_model(path)
    tensors = call.tensors()
    _assert_close(loaded(tensors), model(tensors), 0, ".keras file")


def _check_export(model, call, directory):
    path = str(directory / "saved_model")
    model.export(path, verbose=False)
    with _warnings() as warnings:
        reloaded = tf.saved_model.load(path)
    assert not warnings, f"loading the SavedModel warns: {warnings}"
    _assert_close(
        _input_gradients(reloaded.serve, call.tensors()),
        _input_gradients(model, call.tensors()),
        1e-5,
        "gradients through the SavedModel",
    )
    for axis in (None, *call.dynamic_axes):
        tensors = call.tensors(None if axis is None else call.resized(axis, 1))
        _assert_close(
            reloaded.serve(tensors), model(tensors), 1e-6, f"SavedModel, axis {axis} cut to 1"
        )


def _input_gradients(function, tensors) -> list:
    """Gradients of a sum that weighs every output, for the float inputs."""
    watched = [t for t in tensors.values() if t.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = [o for o in keras.tree.flatten(function(tensors)) if o.dtype.is_floating]
        loss = _weighed_sum(outputs)
    return tape.gradient(loss, watched, unconnected_gradients="zero")


@contextlib.contextmanager
def _warnings():
    """The warnings that TensorFlow logs within this."""
    messages = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("absl")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _check_masks(layer, call):
    plain = call.run(layer, call.tensors(call.inputs))
    all_true = {name: np.ones_like(mask) for name, mask in call.mask_arrays.items()}
    tensors = call.tensors({**call.inputs, **all_true})
    _assert_close(call.run(layer, tensors), plain, 1e-6, "masks of True against no masks")

    outputs = call.run(layer, call.tensors())
    changes = [np.any(o != p) for o, p in zip(outputs, plain, strict=True)]
    assert any(changes), "the masks change nothing"
    for name, (target, mask) in call.masks.items():
        changed = np.array(call.inputs[target])
        changed[~mask] = 1 - changed[~mask]
        got = call.run(layer, call.tensors({**call.arrays, target: changed}))
        for output, expected in zip(got, outputs, strict=True):
            by_step = output.shape[: mask.ndim] == mask.shape
            seen = mask if by_step else ...
            what = f"{target} where {name} is False"
            np.testing.assert_array_equal(output.numpy()[seen], expected.numpy()[seen], what)

    all_false = {name: np.zeros_like(mask) for name, mask in call.mask_arrays.items()}
    tensors = call.tensors({**call.inputs, **all_false})
    _assert_finite(_outputs_and_gradients(layer, call, tensors), "masks of False")


def _assert_finite(values, what):
    for value in keras.tree.flatten(values):
        assert np.isfinite(np.asarray(value, dtype="float64")).all(), f"{what}: not finite"
