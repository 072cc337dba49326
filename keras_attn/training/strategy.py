"""The devices and processes that train together, by name."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training.meeting import meet
from keras_attn.training.workers import Workers, names_of_cluster

STRATEGIES = ("none", "mirrored", "multi_worker", "tpu")


def make_strategy(
    name: str = "none", devices: Sequence[str] | None = None
) -> tf.distribute.Strategy:
    """The `tf.distribute` strategy of that name; model and optimiser are built in its scope.

    - `"none"`: one device.
    - `"mirrored"`: all GPUs of this machine, or `devices`, each with a copy of the model.
    - `"multi_worker"`: the processes that the environment variable TF_CONFIG names, each with the
      GPUs of its machine. It waits for all of them, 30 seconds or as many as the environment
      variable KERAS_ATTN_WORKER_SECONDS says, and TensorFlow demands that it comes before anything
      else that it is asked to compute.
    - `"tpu"`: the TPU of this machine, or the one that the environment variable TPU_NAME names.

    Args:
        name: of the strategy.
        devices: of `"mirrored"`, such as `["CPU:0", "CPU:1"]`.

    Raises:
        ValueError: if there is no strategy of that name, or it takes no devices.
        UserError: if TF_CONFIG is missing or names no place in a cluster; if another worker does
            not come, was given another cluster, or this one was started twice; if there is no TPU.

    Example:
        >>> import keras
        >>> import tensorflow as tf
        >>> from keras_attn.training import fit, make_strategy, squared_error_objective
        >>> strategy = make_strategy("none")  # or "mirrored" for all GPUs of the machine
        >>> with strategy.scope():
        ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        ...     optimizer = keras.optimizers.Adam()
        >>> batches = tf.data.Dataset.from_tensors((tf.ones([8, 3]), tf.ones([8, 1]))).repeat()
        >>> fit(
        ...     model, batches, 10, optimizer=optimizer,
        ...     objective=squared_error_objective(), strategy=strategy,
        ... )
        10
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
        meet(*_cluster(os.environ.get("TF_CONFIG")))
        return _MultiWorkerStrategy()
    return _tpu() if name == "tpu" else tf.distribute.get_strategy()


def _mirrored(devices: Sequence[str] | None) -> tf.distribute.Strategy:
    devices = devices or [gpu.name for gpu in tf.config.list_logical_devices("GPU")] or ["CPU:0"]
    if not any("CPU" in device.upper() for device in devices):
        return tf.distribute.MirroredStrategy(devices)
    # TensorFlow's collectives on CPUs let one process have one number of replicas only.
    return tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())


class _MultiWorkerStrategy(tf.distribute.MultiWorkerMirroredStrategy):
    """One whose workers compare every variable before they make it.

    TensorFlow sends the chief's initial value to the others, and ends with a lost worker if that
    has another shape.
    """

    def __init__(self):
        super().__init__()
        self._workers = Workers(self)
        self._is_making = False

    @contextmanager
    def scope(self) -> Iterator[None]:
        with super().scope(), tf.variable_creator_scope(self._make):
            yield

    def _make(self, next_creator, **arguments):
        if self._is_making or tf.inside_function():  # of a scope within a scope, of a graph
            return next_creator(**arguments)
        self._is_making = True
        try:
            if callable(arguments.get("initial_value")):
                arguments["initial_value"] = arguments["initial_value"]()
            with self._workers.together():
                self._workers.require_same("next variable", {"it": _form(arguments)})
            return next_creator(**arguments)
        finally:
            self._is_making = False


def _form(arguments: dict) -> str:
    value = arguments.get("initial_value")
    shape = arguments.get("shape")
    shape = getattr(value, "shape", None) if shape is None else shape
    return f"of shape {shape} and dtype {arguments.get('dtype')}"


def _cluster(config: str | None) -> tuple[dict[str, str], str]:
    """The workers that TF_CONFIG names, with their addresses, and the name of this one."""
    try:
        content = json.loads(config or "{}")
        names = names_of_cluster(content["cluster"])
        name = f"{content['task']['type']} {int(content['task']['index'])}"
        ports = [int(address.rsplit(":", 1)[1]) for address in names.values()]
        if name not in names or not all(0 < port < 1 << 16 for port in ports):
            raise KeyError(name)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise UserError(
            "The strategy multi_worker reads its place from the environment variable TF_CONFIG, "
            'such as {"cluster": {"worker": ["host0:2222", "host1:2222"]}, '
            '"task": {"type": "worker", "index": 0}}, with an index below the number of workers; '
            f"it is {'not set' if config is None else config}."
        ) from error
    address, times = Counter(names.values()).most_common(1)[0]
    if times > 1:
        raise UserError(
            f"TF_CONFIG names {address} {times} times; give each worker an address of its own. "
            f"Received: {config}"
        )
    return names, name


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
