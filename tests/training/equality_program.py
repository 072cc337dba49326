"""Train cases under a strategy and write what came out, for another process to compare.

python equality_program.py OUTPUT STRATEGY REPLICAS CASE...
"""

import sys

import numpy as np
import tensorflow as tf

from keras_attn.training import Workers, make_strategy


def main(output: str, name: str, replicas: str, *names: str) -> None:
    devices = [f"CPU:{index}" for index in range(int(replicas))]
    if name == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        logical = [tf.config.LogicalDeviceConfiguration()] * len(devices)
        tf.config.set_logical_device_configuration(cpu, logical)
    strategy = make_strategy(name, devices if name == "mirrored" else None)
    from distributed_cases import CASES, train  # after the strategy, which comes before any op

    found = {
        f"{case}: {key}": value
        for case in names
        for key, value in train(CASES[case], strategy).items()
    }
    np.savez(f"{output}-{Workers(strategy).index}.npz", **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
