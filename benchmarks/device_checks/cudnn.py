"""cuDNN's kernels: whether they are taken where they should be, and compute what our loops do."""

import functools

import keras
import tensorflow as tf

from device_checks.layer_cases import SEQUENCE, STEP_MASK, UNITS, LayerCase
from device_checks.layers import TOLERANCES, TPU_TOLERANCES, errors_of, make_on_all, reference_of
from device_checks.machine import Machine
from device_checks.outcome import FAILED, HELD, Check, Outcome, compared, skipped
from keras_attn.layers import GRU, LSTM, PeepholeLSTM

GROUP = "cuDNN"
NO_GPU = "cuDNN is for NVIDIA's GPUs, and the devices here are {kind}s"


def _case(layer, masks=None, **settings) -> LayerCase:
    def make(dtype):
        return layer(UNITS, return_sequences=True, dtype=dtype, **settings)

    return LayerCase(make, (SEQUENCE,), masks or {})


GRU_AFTER = functools.partial(GRU, reset_after=True)
PAIRS = {"LSTM": (keras.layers.LSTM, LSTM), "GRU": (keras.layers.GRU, GRU_AFTER)}
"""By name, the layer of Keras and ours."""

EXCLUDED = {
    "LSTM with a mask": _case(LSTM, {"mask": STEP_MASK}),
    "LSTM with recurrent dropout": _case(LSTM, recurrent_dropout=0.1),
    "LSTM, variant CIFG": _case(LSTM, variant="CIFG"),
    "PeepholeLSTM": _case(PeepholeLSTM),
    "GRU of Cho et al.": _case(GRU),
}
"""What cuDNN does not compute as our layers do."""


def list_checks(machine: Machine, quick: bool) -> list[Check]:
    """The same few checks, quick or not."""
    return [
        *(
            Check(GROUP, f"{name}, Keras' layer and ours", functools.partial(_agree, machine, name))
            for name in PAIRS
        ),
        *(
            Check(GROUP, f"{name}, both by cuDNN", functools.partial(_by_cudnn, machine, name))
            for name in PAIRS
        ),
        *(
            Check(GROUP, f"{name}, by our loop", functools.partial(_by_loop, machine, case))
            for name, case in EXCLUDED.items()
        ),
    ]


def _agree(machine: Machine, name: str) -> Outcome:
    """Keras' layer, ours as it comes, and our loop against our loop on the CPU in float64."""
    theirs, ours = PAIRS[name]
    weights, expected = reference_of(machine, _case(ours, use_cudnn=False))
    candidates = {
        "Keras'": _case(theirs, use_cudnn="auto"),
        "ours": _case(ours, use_cudnn="auto"),
        "ours with use_cudnn=False": _case(ours, use_cudnn=False),
    }
    errors, paths = {}, []
    for candidate, case in candidates.items():
        on_all = make_on_all(machine.all, case, "float32", weights)
        errors[candidate] = max(errors_of(machine.all, on_all(), expected).values())
        paths.append(f"{candidate} {'by cuDNN' if _takes_cudnn(on_all) else 'by a loop'}")
    tolerance = (TPU_TOLERANCES if machine.kind == "TPU" else TOLERANCES)["float32"]
    return compared(errors, tolerance, ", ".join(paths))


def _by_cudnn(machine: Machine, name: str) -> Outcome:
    if machine.kind != "GPU":
        return skipped(NO_GPU.format(kind=machine.kind))
    takes = {
        whose: _takes_cudnn(_traced(machine, _case(layer, use_cudnn="auto")))
        for whose, layer in zip(("Keras'", "ours"), PAIRS[name], strict=True)
    }
    words = ", ".join(f"{whose}: {'yes' if each else 'no'}" for whose, each in takes.items())
    return Outcome(HELD if all(takes.values()) else FAILED, words, {"takes cuDNN": takes})


def _by_loop(machine: Machine, case: LayerCase) -> Outcome:
    if machine.kind != "GPU":
        return skipped(NO_GPU.format(kind=machine.kind))
    if _takes_cudnn(_traced(machine, case)):
        return Outcome(FAILED, "it is run by cuDNN, which computes something else")
    return Outcome(HELD, "it is run by our loop")


def _traced(machine: Machine, case: LayerCase):
    with machine.cpu.scope():
        layer = case.make(dtype="float32")
        case.build(layer, case.tensors("float32"))
    return make_on_all(machine.all, case, "float32", layer.get_weights())


def _takes_cudnn(function: tf.types.experimental.PolymorphicFunction) -> bool:
    """Whether there is an operation of cuDNN anywhere in the graph, whatever was asked for."""
    graph = function.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
    return any(node.op.startswith("CudnnRNN") for node in nodes)
