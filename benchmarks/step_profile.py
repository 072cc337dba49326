"""Where the time of a training step goes, by the kernels of TensorFlow that run it."""

import collections
import glob
import tempfile
from collections.abc import Callable

import tensorflow as tf


def kernel_times(step: Callable[[], object], repeats: int) -> dict[str, float]:
    """Milliseconds of each kind of kernel for one call of a step, the longest first."""
    with tempfile.TemporaryDirectory() as directory:
        tf.profiler.experimental.start(directory)
        for _ in range(repeats):
            step()
        tf.profiler.experimental.stop()
        totals = collections.Counter()
        for path in glob.glob(f"{directory}/**/*.xplane.pb", recursive=True):
            with open(path, "rb") as file:
                _add_times(file.read(), totals)
    return {name: ps / 1e9 / repeats for name, ps in totals.most_common()}


def _add_times(content: bytes, totals: collections.Counter) -> None:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(content)
    for plane in space.planes:
        if plane.name != "/host:CPU":
            continue
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                kind = name.split(":")[-1].split("#")[0]
                if _is_kernel(name):
                    totals[kind] += event.duration_ps


def _is_kernel(name: str) -> bool:
    """Kernels are called name:Kind; what they are called from is not."""
    return ":" in name and "::" not in name and name.split(":")[-1].lstrip("_")[:1].isupper()
