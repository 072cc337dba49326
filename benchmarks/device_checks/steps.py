"""Whether `training.fit` on one and on all devices ends at the weights of one CPU device."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf

from device_checks.machine import Machine
from device_checks.outcome import FAILED, Check, Outcome, compared, skipped
from keras_attn.layers import LSTM
from keras_attn.models import RNNSearch, Transformer
from keras_attn.training import fit, squared_error_objective, token_objective

ROWS, BATCHES, VOCABULARY = 16, 4, 11  # of static shape, in rows that 2, 4, 8 and 16 devices divide
SOURCE, TARGET = 7, 5
ALL_ONE = "there is one device, which the row before has tried"


@dataclass(frozen=True, eq=False)
class TrainingCase:
    """A model and what it is trained on.

    Args:
        build: `build(use_cudnn)`; the CPU beside a GPU must be told not to use cuDNN.
        batches: all of them, in arrays (BATCHES, ROWS, ...).
        objective: of `fit`.
    """

    build: Callable
    batches: Callable
    objective: Callable


@dataclass(frozen=True)
class Likeness:
    """How like the weights must be to those of the CPU, and the optimiser that this is for."""

    optimizer: Callable
    difference: Callable
    tolerance: float


def _lstm(use_cudnn) -> keras.Model:
    inputs = keras.Input((SOURCE, 2))
    hidden = LSTM(5, use_cudnn=use_cudnn)(inputs)
    return keras.Model(inputs, keras.layers.Dense(1, dtype="float32")(hidden))


def _rnn_search(use_cudnn) -> keras.Model:
    sizes = dict.fromkeys(("encoder_units", "decoder_units", "attention_units"), 4)
    return RNNSearch(VOCABULARY, VOCABULARY, embedding_dim=4, readout_units=4, **sizes)


def _transformer(use_cudnn) -> keras.Model:
    # Without dropout, which differs between replicas.
    return Transformer(
        VOCABULARY, VOCABULARY, dim=8, num_heads=2, intermediate_dim=12, encoder_layers=1,
        decoder_layers=1, dropout=0.0,
    )  # fmt: skip


def _numbers():
    x = np.random.default_rng(0).standard_normal((BATCHES, ROWS, SOURCE, 2)).astype("float32")
    return x, x.sum(axis=(2, 3))[..., None]


def _tokens():
    """Sentences whose padding is uneven from row to row."""
    random = np.random.default_rng(1)
    shape = BATCHES, ROWS
    ids = random.integers(3, VOCABULARY, (*shape, SOURCE + TARGET)).astype("int32")
    source, target = ids[..., :SOURCE], ids[..., SOURCE:]
    lengths = random.integers(1, SOURCE + 1, shape).astype("int32")
    mask = np.arange(TARGET) < random.integers(1, TARGET + 1, (*shape, 1))
    inputs = {"source": source, "source_lengths": lengths, "target": target}
    return inputs, np.roll(target, 1, axis=-1), mask


CASES = {
    "LSTM": TrainingCase(_lstm, _numbers, squared_error_objective()),
    "RNNsearch": TrainingCase(_rnn_search, _tokens, token_objective()),
    "Transformer": TrainingCase(_transformer, _tokens, token_objective()),
}


def _adam():
    """A gradient that is rounding alone, as that of a key's bias, must not become a full step."""
    return keras.optimizers.Adam(1e-3, epsilon=1e-4)


def _momentum():
    """For coarse gradients: its steps are as large as they are."""
    return keras.optimizers.SGD(0.02, momentum=0.9)


def _scaled_momentum():
    return keras.optimizers.LossScaleOptimizer(_momentum(), initial_scale=2.0**10)


def _largest(got, start, exact) -> float:
    return max(float(np.max(np.abs(a - b))) for a, b in zip(got, exact, strict=True))


def _share_of_change(got, start, exact) -> float:
    """How far apart the two ends are, as a share of the way from the start."""
    apart = sum(np.sum((a - b) ** 2) for a, b in zip(got, exact, strict=True))
    way = sum(np.sum((b - a) ** 2) for a, b in zip(start, exact, strict=True))
    return float(np.sqrt(apart / way))


EXACT = Likeness(_adam, _largest, 1e-5)
LIKENESS = {
    "float32": EXACT,
    "mixed_bfloat16": Likeness(_momentum, _share_of_change, 2e-1),
    "mixed_float16": Likeness(_scaled_momentum, _share_of_change, 5e-2),
}


def list_checks(machine: Machine, quick: bool) -> list[Check]:
    """`fit` on one and on all devices, with XLA, and in mixed precision."""
    steps = 5 if quick else 20
    run = functools.partial(check_fit, machine, steps=steps)
    number = len(machine.devices)
    checks = []
    for name in CASES:
        for where in ("one", "all"):
            words = {"one": "one device", "all": f"all devices ({number})"}[where]
            checks.append(Check("fit", f"{name}, {words}", functools.partial(run, name, where)))
    some = ("Transformer",) if quick else CASES
    for name in some:
        with_xla = functools.partial(run, name, "all", jit_compile=True)
        checks.append(Check("fit with jit_compile", name, with_xla))
    for name in some:
        for policy in ("mixed_bfloat16", "mixed_float16"):
            mixed = functools.partial(run, name, "all", policy=policy)
            checks.append(Check("fit in mixed precision", f"{name}, {policy}", mixed))
    return checks


def check_fit(
    machine: Machine,
    name: str,
    where: str,
    *,
    steps: int,
    policy: str = "float32",
    jit_compile: bool = False,
) -> Outcome:
    """Train on the devices and compare with float32 on one CPU device."""
    reason = _why_not(machine, where, policy, jit_compile)
    if reason:
        return skipped(reason)
    like = LIKENESS["mixed_bfloat16" if machine.kind == "TPU" else policy]
    start, exact, _ = _on_cpu(machine, name, like.optimizer, steps)
    strategy = machine.one if where == "one" else machine.all
    optimizer = like.optimizer
    got, losses = _train(
        strategy, CASES[name], optimizer, start, steps, policy, jit_compile, use_cudnn="auto"
    )
    note = f"{steps} steps, loss {losses[0]:.3f} to {losses[-1]:.3f}"
    outcome = compared({"weights": like.difference(got, start, exact)}, like.tolerance, note)
    if not np.isfinite(losses).all():
        return Outcome(FAILED, f"a loss is not finite; {outcome.words}", outcome.values)
    return outcome


def _why_not(machine: Machine, where: str, policy: str, jit_compile: bool) -> str | None:
    if where == "one" and machine.one is None:
        return "this TPU cannot be divided"
    if where == "all" and len(machine.devices) == 1 and policy == "float32" and not jit_compile:
        return ALL_ONE
    if machine.kind == "TPU" and jit_compile:
        return "XLA compiles everything on a TPU, the rows above too"
    if machine.kind == "TPU" and policy == "mixed_float16":
        return "a TPU computes in bfloat16; float16 is for GPUs"
    return None


@functools.cache
def _on_cpu(machine: Machine, name: str, make_optimizer, steps: int):
    """Weights at the start and at the end on one CPU device, and the losses."""
    case = CASES[name]
    keras.utils.set_random_seed(7)
    with machine.cpu.scope():
        start = case.build(use_cudnn=False).get_weights()
    # A scaled loss is for float16 alone.
    make_optimizer = _momentum if make_optimizer is _scaled_momentum else make_optimizer
    end, losses = _train(
        machine.cpu, case, make_optimizer, start, steps, "float32", False, use_cudnn=False
    )
    return start, end, losses


def _train(strategy, case, make_optimizer, start, steps, policy, jit_compile, use_cudnn):
    """The weights after so many steps, and the losses of all of them."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    default = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        with strategy.scope():
            model, optimizer = case.build(use_cudnn=use_cudnn), make_optimizer()
    finally:
        keras.config.set_dtype_policy(default)
    model.set_weights(start)
    losses = []
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: losses.append(logs["loss"])
    )
    batches = tf.data.Dataset.from_tensor_slices(case.batches()).repeat()
    fit(
        model, batches, steps, optimizer=optimizer, objective=case.objective, strategy=strategy,
        callbacks=[watch], jit_compile=jit_compile,
    )  # fmt: skip
    return model.get_weights(), losses
