"""Load the quantised models of a directory and compare what they compute with what was saved.

Run as a program of its own, so that nothing of the process that saved them is left:
`python quantized_program.py DIRECTORY`. It prints the name of each model, the largest difference,
and whether all its kernels are quantised.
"""

import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import keras_attn.layers
import keras_attn.models  # noqa: F401


def float_kernels(model) -> list[str]:
    """The paths of kernels and embeddings that are no integers, of all but recurrent layers."""
    names = ("kernel", "embeddings")
    return [
        weight.path
        for weight in model.weights
        if weight.path.split("/")[-1] in names
        and weight.dtype != "int8"
        and "_cell" not in weight.path
    ]


def main(directory: Path):
    results = {}
    for path in sorted(directory.glob("*.keras")):
        model = keras.models.load_model(path)
        with np.load(path.with_suffix(".npz")) as arrays:
            expected = arrays["outputs"]
            inputs = {name: arrays[name] for name in arrays.files if name != "outputs"}
        outputs = tf.cast(model(inputs), "float32").numpy()
        if "int4" in path.stem:
            model.save(path)  # and once more
            outputs = tf.cast(keras.models.load_model(path)(inputs), "float32").numpy()
        difference = np.max(np.abs(outputs - expected))
        results[path.stem] = [float(difference), float_kernels(model)]
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
