"""How many tokens a second a training step takes in, and how much memory it takes up."""

import functools
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from measuring import own_peak_memory

from device_checks.machine import Machine
from device_checks.outcome import Check, Outcome, measured, skipped
from keras_attn.layers import MultiHeadAttention
from keras_attn.models import RNNSearch, Transformer
from keras_attn.training import fit, projected_token_objective

WARM_UP = 3
POLICIES = ("float32", "mixed_bfloat16")


@dataclass(frozen=True)
class Size:
    """How large the models and the batch of one device are."""

    vocabulary: int
    width: int
    layers: int
    rows: int
    length: int
    attended: int

    @property
    def words(self) -> str:
        return f"width {self.width}, {self.rows} x {self.length} tokens a device"


SMALL = Size(vocabulary=1_000, width=64, layers=1, rows=16, length=16, attended=1_024)
LARGE = Size(vocabulary=32_000, width=512, layers=6, rows=64, length=64, attended=8_192)


def _transformer(size: Size) -> keras.Model:
    return Transformer(
        size.vocabulary,
        size.vocabulary,
        dim=size.width,
        num_heads=8,
        intermediate_dim=4 * size.width,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
    )


def _rnn_search(size: Size) -> keras.Model:
    return RNNSearch(
        size.vocabulary,
        size.vocabulary,
        embedding_dim=size.width,
        encoder_units=size.width,
        decoder_units=size.width,
        attention_units=size.width,
        readout_units=size.width,
        tie_embeddings=True,
        share_embeddings=True,
    )


MODELS: dict[str, Callable] = {"Transformer": _transformer, "RNNsearch": _rnn_search}


def list_checks(machine: Machine, quick: bool) -> list[Check]:
    """Memory first, while the process is small; then speed, in quick mode on all devices alone."""
    size = SMALL if quick or machine.kind == "CPU" else LARGE
    steps = 5 if quick else 11
    checks = [
        Check(
            "memory",
            f"{method} attention, {size.attended:,} positions",
            functools.partial(_attention_memory, machine, size, method),
        )
        for method in ("blockwise", "dense")
    ]
    for policy in POLICIES[:1] if quick else POLICIES:
        run = functools.partial(_step_memory, machine, size, policy)
        checks.append(Check("memory", f"training step of the Transformer, {policy}", run))
    places = ("all",) if quick or len(machine.devices) == 1 else ("one", "all")
    forms = list(itertools.product(MODELS, places, POLICIES, (False, True)))
    for name, where, policy, jit in forms[:3] + forms[4:5] if quick else forms:
        words = {"one": "one device", "all": f"all devices ({len(machine.devices)})"}[where]
        row = f"{name}, {words}, {policy}, XLA {'on' if jit else 'off'}"
        run = functools.partial(_speed, machine, size, name, where, policy, jit, steps)
        checks.append(Check("tokens a second", row, run))
    return checks


def _speed(machine, size, name, where, policy, jit_compile, steps) -> Outcome:
    if where == "one" and machine.one is None:
        return skipped("this TPU cannot be divided")
    if machine.kind == "TPU" and jit_compile:
        return skipped("XLA compiles everything on a TPU, the rows above too")
    strategy = machine.one if where == "one" else machine.all
    times, tokens = _timed_fit(strategy, MODELS[name], size, policy, jit_compile, steps)
    durations = [after - before for before, after in itertools.pairwise(times[WARM_UP - 1 :])]
    median = statistics.median(durations)
    precision = machine.float32 if policy == "float32" else policy
    return measured(
        f"{tokens / median:,.0f} target tokens a second, {1e3 * median:.1f} ms a step "
        f"({precision}; {size.words})",
        tokens_per_second=round(tokens / median),
        milliseconds=[round(1e3 * each, 2) for each in durations],
    )


def _timed_fit(strategy, build, size: Size, policy, jit_compile, steps):
    """When each step had ended, and the target tokens of a step."""
    tf.config.experimental.enable_tensor_float_32_execution(True)
    default = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        with strategy.scope():
            model, optimizer = build(size), keras.optimizers.Adam(1e-4)
    finally:
        keras.config.set_dtype_policy(default)
    times, tokens = [], []

    def note(step, logs):
        times.append(time.perf_counter())
        tokens.append(logs["tokens"])

    fit(
        model,
        tf.data.Dataset.from_tensors(_batch(size, strategy.num_replicas_in_sync)).repeat(),
        WARM_UP + steps,
        optimizer=optimizer,
        objective=projected_token_objective(0.1),
        clip_norm=1.0,
        strategy=strategy,
        jit_compile=jit_compile,
        callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=note)],
    )
    return times, tokens[-1]


def _batch(size: Size, replicas: int):
    """Random sentences at least half as long as the batch."""
    random = np.random.default_rng(0)
    shape = (size.rows * replicas, size.length)
    source, target = random.integers(3, size.vocabulary, (2, *shape)).astype("int32")
    lengths = random.integers(size.length // 2, size.length + 1, (2, shape[0])).astype("int32")
    inputs = {"source": source, "source_lengths": lengths[0], "target": target}
    return inputs, np.roll(target, -1, 1), np.arange(size.length) < lengths[1][:, None]


def _step_memory(machine: Machine, size: Size, policy: str) -> Outcome:
    strategy = machine.one or machine.all
    return _peak_of(
        machine, lambda: _timed_fit(strategy, _transformer, size, policy, False, steps=1)
    )


def _attention_memory(machine: Machine, size: Size, method: str) -> Outcome:
    """Of both passes of a causal layer over one long sequence."""
    strategy = machine.one or machine.all
    shape = (1, size.attended, size.width)
    with strategy.scope():
        layer = MultiHeadAttention(8, size.width // 8, method=method)
        layer.build(shape, shape)

    def passes():
        tokens = tf.random.stateless_normal(shape, [1, 2])
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tokens, tokens, use_causal_mask=True) ** 2)
        variables = [variable.value for variable in layer.trainable_variables]
        return tf.add_n([tf.norm(x) for x in tape.gradient(loss, variables)])

    run = tf.function(lambda: strategy.run(passes), autograph=False)
    return _peak_of(machine, lambda: strategy.experimental_local_results(run())[0].numpy())


def _peak_of(machine: Machine, run: Callable) -> Outcome:
    """The peak of the last device, or of this process where the device does not tell."""
    device = machine.devices[-1].removeprefix("/device:")
    # TensorFlow counts what is allocated for CPUs together, and there large buffers alone.
    whose = "all CPUs, in large buffers" if machine.kind == "CPU" else device
    try:
        tf.config.experimental.reset_memory_stats(device)
    except (ValueError, tf.errors.OpError):
        run()
        megabytes, whose = (
            own_peak_memory(),
            f"this process so far, for a {machine.kind} does not tell",
        )
    else:
        run()
        megabytes = tf.config.experimental.get_memory_info(device)["peak"] / 1e6
    return measured(f"peak {megabytes:,.0f} MB of {whose}", megabytes=round(megabytes), of=whose)
