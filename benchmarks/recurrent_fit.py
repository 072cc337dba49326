"""What our LSTM gains inside `model.fit` of a real model.

The claim: a character language model trained by Keras' own `fit` takes less time a step with our
layer in the place of Keras', all else equal, weights included.

    python benchmarks/recurrent_fit.py

Embedding 64, LSTM 256, 65 characters, batches of 32 sequences of 100. The two are trained in turn
in one process, so many steps at a time. Writes benchmarks/results/recurrent_fit.json.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from report import write_result

from keras_attn.layers import GRU, LSTM

BATCH, LENGTH, CHARACTERS, UNITS = 32, 100, 65, 256
PAIRS = {
    "LSTM": (keras.layers.LSTM, LSTM),
    "GRU": (keras.layers.GRU, lambda units, **options: GRU(units, reset_after=True, **options)),
}


def language_model(make) -> keras.Model:
    keras.utils.set_random_seed(0)
    characters = keras.Input((LENGTH,), batch_size=BATCH, dtype="int32")
    hidden = keras.layers.Embedding(CHARACTERS, 64)(characters)
    hidden = make(UNITS, return_sequences=True)(hidden)
    model = keras.Model(characters, keras.layers.Dense(CHARACTERS)(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), loss)
    return model


class StepTimes(keras.callbacks.Callback):
    """The milliseconds of each training step, from when it begins to when its loss is known."""

    def __init__(self):
        super().__init__()
        self.milliseconds = []

    def on_train_batch_begin(self, batch, logs=None):
        self._started = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        float(logs["loss"])
        self.milliseconds.append(1e3 * (time.perf_counter() - self._started))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--note", default="", help="written beside the figures")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, CHARACTERS, (2, options.steps * BATCH, LENGTH)).astype("int32")
    data = tf.data.Dataset.from_tensor_slices(tuple(ids)).batch(BATCH, drop_remainder=True)
    figures = {}
    for name, makes in PAIRS.items():
        models = dict(zip(("keras", "ours"), map(language_model, makes), strict=True))
        models["ours"].set_weights(models["keras"].get_weights())
        times = {column: [] for column in models}
        for number in range(options.rounds + 1):
            for column, model in models.items():
                step_times = StepTimes()
                # Not the time of `fit` itself, which sleeps before it notices the end of the data.
                model.fit(data, verbose=0, callbacks=[step_times])
                if number:  # the first round traces
                    times[column] += step_times.milliseconds
        medians = {column: round(statistics.median(each), 2) for column, each in times.items()}
        ratio = round(medians["keras"] / medians["ours"], 2)
        figures[name] = {"milliseconds a step": medians, "ratio": ratio}
        print(f"{name}: {ratio}  {medians}", flush=True)
    write_result("recurrent_fit", figures, options.note)


if __name__ == "__main__":
    main()
