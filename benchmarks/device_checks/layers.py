"""Whether every layer computes on the devices what it computes on a CPU.

The reference is float64 on one CPU device, eagerly. The devices compute outputs and the gradients
of a sum that weighs every output for inputs and weights, in a graph, with XLA and without.
"""

import functools

import keras
import numpy as np
import tensorflow as tf

from device_checks.layer_cases import CASES, LayerCase
from device_checks.machine import Machine
from device_checks.outcome import Check, Outcome, compared, skipped

TOLERANCES = {
    "float32": 1e-5,
    "float64": 1e-12,
    "mixed_bfloat16": 1e-1,
    "mixed_float16": 2e-2,
}
"""By dtype policy, of the largest difference, in units of the largest number if that is above 1."""
TPU_TOLERANCES = {**TOLERANCES, "float32": TOLERANCES["mixed_bfloat16"]}
QUICK = {
    "float32": (
        "LSTM, masked",
        "LSTM, variant CIFG",
        "LSTM, variant FGR",
        "PeepholeLSTM",
        "GRU of Cho et al.",
        "GRU, reset after the product",
        "AdditiveAttention",
        "MultiHeadAttention, masks",
        "MultiHeadAttention, window",
        "MultiHeadAttention, rotary, grouped heads",
        "MultiHeadAttention, blockwise, causal",
        "TransformerEncoderBlock",
        "TransformerDecoderBlock",
        "AttentionRNN",
    ),
    "mixed_bfloat16": ("LSTM, masked", "MultiHeadAttention, masks", "TransformerEncoderBlock"),
    "XLA": ("LSTM, masked", "MultiHeadAttention, masks"),
}
"""By policy, and with XLA, the layers that quick mode tries."""


def list_checks(machine: Machine, quick: bool) -> list[Check]:
    """A check for each layer and policy, and for each layer under XLA."""
    forms = {policy: (policy, False) for policy in TOLERANCES} | {"XLA": ("float32", True)}
    names = QUICK if quick else dict.fromkeys(forms, tuple(CASES))
    return [
        Check(
            f"layers, {form}" if form != "XLA" else "layers, float32 with XLA",
            name,
            functools.partial(check_layer, machine, CASES[name], *forms[form]),
        )
        for form in names
        for name in names[form]
    ]


def check_layer(machine: Machine, case: LayerCase, policy: str, jit_compile: bool) -> Outcome:
    """Compare a layer on all devices with float64 on the CPU."""
    if machine.kind == "TPU":
        reason = _why_not_on_a_tpu(policy, jit_compile)
        if reason:
            return skipped(reason)
    weights, expected = reference_of(machine, case)
    on_all = make_on_all(machine.all, case, policy, weights, jit_compile)
    tolerance = (TPU_TOLERANCES if machine.kind == "TPU" else TOLERANCES)[policy]
    return compared(errors_of(machine.all, on_all(), expected), tolerance)


def _why_not_on_a_tpu(policy: str, jit_compile: bool) -> str | None:
    if jit_compile:
        return "XLA compiles everything on a TPU, the rows above too"
    return {
        "float64": "a TPU has no float64",
        "mixed_float16": "a TPU computes in bfloat16; float16 is for GPUs",
    }.get(policy)


@functools.cache
def reference_of(machine: Machine, case: LayerCase):
    """Weights for the case, and `(outputs, gradients)` in float64 on the CPU."""
    keras.utils.set_random_seed(7)
    with machine.cpu.scope():
        layer = case.make(dtype="float64")
        tensors = case.tensors("float64")
        case.build(layer, tensors)
        random = np.random.default_rng(7)
        weights = [w + 0.2 * random.standard_normal(w.shape) for w in layer.get_weights()]
        layer.set_weights(weights)
        # `run`, for a scope alone leaves what is computed to the first GPU.
        outputs, gradients = machine.cpu.run(outputs_and_gradients, args=(layer, case, tensors))
    return weights, ([x.numpy() for x in outputs], [x.numpy() for x in gradients])


def make_on_all(strategy, case: LayerCase, policy: str, weights, jit_compile: bool = False):
    """A `tf.function` without arguments: `(outputs, gradients)`, each of every device."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    tensors = case.tensors(keras.DTypePolicy(policy).compute_dtype)
    with strategy.scope():
        layer = case.make(dtype=policy)
        case.build(layer, tensors)
        layer.set_weights(weights)

    def on_one(tensors):
        compute = functools.partial(outputs_and_gradients, layer, case)
        if jit_compile:  # traced here it reads the variables of this device and of no other
            compute = tf.function(compute, jit_compile=True, autograph=False)
        return compute(tensors)

    return tf.function(lambda: strategy.run(on_one, args=(tensors,)), autograph=False)


def errors_of(strategy, found, expected) -> dict[str, float]:
    """The largest difference on any device, of outputs and of gradients."""
    return {
        what: max(
            largest_difference([np.asarray(each) for each in of_device], exact)
            for of_device in _by_device(strategy, arrays)
        )
        for what, arrays, exact in zip(("outputs", "gradients"), found, expected, strict=True)
    }


def _by_device(strategy, arrays):
    return zip(*map(strategy.experimental_local_results, arrays), strict=True)


def outputs_and_gradients(layer, case: LayerCase, tensors):
    """Outputs, and the gradients of a sum that weighs every output for inputs and weights."""
    watched = [x for x in tensors if x.dtype.is_floating]
    variables = [variable.value for variable in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = keras.tree.flatten(case.call(layer, tensors))
        loss = tf.add_n([_weighed_sum(x) for x in outputs])
    gradients = tape.gradient(loss, variables + watched, unconnected_gradients="zero")
    return outputs, [tf.convert_to_tensor(x) for x in gradients]


def _weighed_sum(x):
    """A sum in which each entry has a weight of its own."""
    size = x.shape.num_elements()
    return tf.reduce_sum(tf.constant(np.sin(np.arange(size)), x.dtype) * tf.reshape(x, [-1]))


def largest_difference(got, exact) -> float:
    """Over all arrays, in units of the largest exact number of each if that is above 1."""
    differences = [
        np.max(np.abs(a.astype("float64") - b)) / max(1.0, np.max(np.abs(b)))
        for a, b in zip(got, exact, strict=True)
    ]
    return float(np.max(differences))  # not a number if one of them is not
