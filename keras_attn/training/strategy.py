"""The devices and processes that train together, by name."""

import json
import os
from collections.abc import Sequence

import tensorflow as tf

from keras_attn.errors import UserError

STRATEGIES = ("none", "mirrored", "multi_worker", "tpu")


def make_strategy(
    name: str = "none", devices: Sequence[str] | None = None
) -> tf.distribute.Strategy:
    """The `tf.distribute` strategy of that name; model and optimiser are built in its scope.

    - `"none"`: one device.
    - `"mirrored"`: all GPUs of this machine, or `devices`, each with a copy of the model.
    - `"multi_worker"`: the processes that the environment variable TF_CONFIG names, each with the
      GPUs of its machine. It waits for all of them, and TensorFlow demands that it comes before
      anything else that it is asked to compute.
    - `"tpu"`: the TPU of this machine, or the one that the environment variable TPU_NAME names.

    Args:
        name: of the strategy.
        devices: of `"mirrored"`, such as `["CPU:0", "CPU:1"]`.

    Raises:
        ValueError: if there is no strategy of that name, or it takes no devices.
        UserError: if TF_CONFIG is missing or names no place in a cluster; if there is no TPU.

    Example:
        >>> strategy = make_strategy("mirrored")
        >>> with strategy.scope():
        ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        ...     optimizer = keras.optimizers.Adam()
        >>> fit(model, batches, steps=100, optimizer=optimizer, strategy=strategy)
        100
    """
    if name not in STRATEGIES:
        raise ValueError(f"A strategy is one of {', '.join(STRATEGIES)}. Received: name={name!r}")
    if devices is not None and name != "mirrored":
        raise ValueError(
            f"Only the strategy mirrored takes devices, {name} finds its own. "
            f"Received: devices={list(devices)}"
        )
    if name == "mirrored":
        return _mirrored(devices)
    if name == "multi_worker":
        _require_cluster(os.environ.get("TF_CONFIG"))
        return tf.distribute.MultiWorkerMirroredStrategy()
    return _tpu() if name == "tpu" else tf.distribute.get_strategy()


def _mirrored(devices: Sequence[str] | None) -> tf.distribute.Strategy:
    devices = devices or [gpu.name for gpu in tf.config.list_logical_devices("GPU")] or ["CPU:0"]
    if not any("CPU" in device.upper() for device in devices):
        return tf.distribute.MirroredStrategy(devices)
    # TensorFlow's collectives on CPUs let one process have one number of replicas only.
    return tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())


def _require_cluster(config: str | None) -> None:
    """Raise `UserError` unless TF_CONFIG names workers and one of them as this process."""
    try:
        content = json.loads(config or "{}")
        task = content["task"]
        content["cluster"][task["type"]][int(task["index"])].rsplit(":", 1)[1]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise UserError(
            "The strategy multi_worker reads its place from the environment variable TF_CONFIG, "
            'such as {"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
            '"task": {"type": "worker", "index": 0}}; '
            f"it is {'not set' if config is None else config}."
        ) from error


def _tpu() -> tf.distribute.Strategy:
    name = os.environ.get("TPU_NAME", "local")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (tf.errors.OpError, ValueError, RuntimeError, OSError) as error:
        reason = str(error).strip().splitlines()[0].split(". ")[0].rstrip(".")
        raise UserError(
            f"There is no TPU {name!r} here ({reason}); run on a TPU VM, name one in the "
            "environment variable TPU_NAME, or choose another strategy."
        ) from error
