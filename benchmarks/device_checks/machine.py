"""The devices of this machine, the strategies over them, and what the report says of both."""

import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import keras
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training import make_strategy
from keras_attn.version import __version__

SETTINGS = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_TF32_OVERRIDE",
    "TF_DETERMINISTIC_OPS",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
)
"""Variables of the environment that change numbers or speed."""


@dataclass(frozen=True)
class Machine:
    """Devices of one kind, and what runs on them.

    Args:
        kind: "CPU", "GPU" or "TPU".
        devices: their names.
        cpu: what everything is compared with, one CPU device.
        one: one of the devices, the last; None on a TPU that cannot be divided.
        all: all of them.
    """

    kind: str
    devices: tuple[str, ...]
    cpu: tf.distribute.Strategy
    one: tf.distribute.Strategy | None
    all: tf.distribute.Strategy

    @property
    def float32(self) -> str:
        """What float32 means in a product on these devices, by default."""
        return {
            "CPU": "float32",
            "GPU": "float32, TF32 products where the GPU has them",
            "TPU": "float32, bfloat16 products",
        }[self.kind]


def find_machine(names: list[str]) -> Machine:
    """The devices of these names; without any a TPU, else all GPUs, else two logical CPUs.

    Raises:
        UserError: if there is no such device.
    """
    names = names or _names_found()
    kind = names[0].upper().partition(":")[0]
    if kind == "CPU":
        _divide_cpu(1 + max(int(name.partition(":")[2]) for name in names))
    cpu = tf.config.list_logical_devices("CPU")[0].name
    on_cpu = tf.distribute.OneDeviceStrategy(cpu)
    if kind == "TPU":
        every, one = _tpu_strategies()
        devices = tuple(device.name for device in tf.config.list_logical_devices("TPU"))
        return Machine(kind, devices, on_cpu, one, every)
    known = [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices()]
    for name in names:
        if name.upper() not in known:
            raise UserError(f"There is no device {name} here, but {', '.join(known)}.")
    # On CPUs the last one is another device than the one it is compared with.
    one = tf.distribute.OneDeviceStrategy(f"/device:{names[-1].upper()}")
    return Machine(kind, tuple(names), on_cpu, one, make_strategy("mirrored", names))


def _names_found() -> list[str]:
    if "TPU_NAME" in os.environ or tf.config.list_physical_devices("TPU"):
        return ["TPU"]
    gpus = tf.config.list_physical_devices("GPU")
    return [f"GPU:{index}" for index in range(len(gpus))] or ["CPU:0", "CPU:1"]


def _divide_cpu(number: int) -> None:
    tf.config.set_visible_devices([], "GPU")  # else Keras takes cuDNN to be there
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration()] * number
    tf.config.set_logical_device_configuration(cpu, logical)


def _tpu_strategies() -> tuple[tf.distribute.Strategy, tf.distribute.Strategy | None]:
    """All cores, and one of them if the TPU can be divided."""
    every = make_strategy("tpu")
    try:
        # It holds no variables yet that this would lose.
        topology = tf.tpu.experimental.initialize_tpu_system(every.cluster_resolver)
        core = tf.tpu.experimental.DeviceAssignment.build(topology, num_replicas=1)
        one = tf.distribute.TPUStrategy(every.cluster_resolver, experimental_device_assignment=core)
    except (tf.errors.OpError, ValueError, RuntimeError):
        one = None
    return every, one


def description(machine: Machine) -> dict:
    """Names and versions of all that the numbers depend on."""
    build = tf.sysconfig.get_build_info()
    return {
        "kind": machine.kind,
        "devices": list(machine.devices),
        "hardware": _hardware(machine.kind),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "driver": _driver(),
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "keras_attn": __version__,
        "intra-op threads": tf.config.threading.get_intra_op_parallelism_threads(),
        "inter-op threads": tf.config.threading.get_inter_op_parallelism_threads(),
        "environment": {name: os.environ[name] for name in SETTINGS if name in os.environ},
    }


def _hardware(kind: str) -> list[str]:
    """What the makers call the devices, and for GPUs what they can compute."""
    if kind == "CPU":
        return []
    found = []
    for device in tf.config.list_physical_devices(kind):
        try:
            details = tf.config.experimental.get_device_details(device)
        except (ValueError, tf.errors.OpError):
            details = {}
        capability = ".".join(map(str, details.get("compute_capability", ())))
        found.append(f"{details.get('device_name', device.name)} {capability}".strip())
    return found


def _processor() -> str:
    try:
        return re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):
        return platform.processor() or platform.machine()


def _driver() -> str | None:
    """The version of NVIDIA's driver, or None without one."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except subprocess.TimeoutExpired:
        return None
    return shown.strip().splitlines()[0] if shown.strip() else None
