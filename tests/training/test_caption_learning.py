"""A small captioner learns to look at what it names, and broken twins of it do not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.caption_batches import caption_batch
from keras_attn.models import ShowAttendTell
from keras_attn.training import caption_objective, fit

BRIGHTNESS = np.array([0.3, 0.6, 0.9], np.float32)
NAMES = 4  # ids of the three things begin here


def _scenes(count: int, seed: int):
    """Two things in a grid of 3 by 3: images, the ids of both in reading order, their places."""
    generator = np.random.default_rng(seed)
    places = np.sort([generator.choice(9, 2, replace=False) for _ in range(count)], axis=1)
    things = generator.integers(0, 3, (count, 2))
    grid = np.zeros((count, 9), np.float32)
    np.put_along_axis(grid, places, BRIGHTNESS[things], axis=1)
    images = np.kron(grid.reshape(count, 3, 3), np.ones((2, 2), np.float32))[..., None]
    return images, (things + NAMES).astype(np.int32), places


def _batch(images, captions):
    return caption_batch(images, tf.RaggedTensor.from_tensor(captions), 3)


def _learned(attention: str, freezes: bool = False) -> ShowAttendTell:
    images, captions, _ = _scenes(4_000, seed=1)
    data = tf.data.Dataset.from_tensor_slices((images, captions)).repeat().batch(64).map(_batch)
    keras.utils.set_random_seed(3)
    model = ShowAttendTell(
        NAMES + 3, (6, 6, 1), embedding_dim=16, decoder_units=32, attention_units=32,
        attention=attention, filters=(16,), first_state="learned", seed=1,
    )  # fmt: skip
    model.decoder.attention.trainable = not freezes
    objective = caption_objective(coverage_weight=0.0)
    adam = keras.optimizers.Adam(5e-3)
    fit(model, data, 600, optimizer=adam, objective=objective, clip_norm=1.0)
    return model


def _measures(model, moves: bool = False, swaps: bool = False) -> tuple[float, float]:
    """The share of right captions, and the mean weight of the place that is being named."""
    images, captions, places = _scenes(400, seed=2)
    inputs, labels, _ = _batch(images, captions)
    if swaps:
        inputs = {**inputs, "images": np.roll(inputs["images"], 1, axis=0)}
    memory = model.encode({"images": inputs["images"]})
    state = model.initial_state(memory)
    if moves:  # what is looked at is what lies elsewhere
        moved = tf.gather(memory["annotations"], np.random.default_rng(1).permutation(9), axis=1)
        state = {**state, "memory": {**memory, "annotations": moved}}
    rights, weights = [], []
    for time in range(2):
        logits, state, attention = model.step(inputs["target"][:, time], state)
        told = tf.argmax(logits, axis=-1, output_type=tf.int32)
        rights.append(told == labels[:, time])
        weights.append(tf.gather(attention, places[:, time], axis=1, batch_dims=1))
    return float(np.mean(np.all(rights, axis=0))), float(np.mean(weights))


@pytest.mark.parametrize(("attention", "least"), [("soft", 0.5), ("hard", 0.65)])
def test_it_looks_at_what_it_names_and_needs_to(attention, least):
    model = _learned(attention)
    right, weight = _measures(model)
    assert right > 0.85
    assert weight > least  # of an even map: 0.11
    assert _measures(model, moves=True)[0] < 0.4
    assert _measures(model, swaps=True)[0] < 0.25  # chance: 0.11


def test_without_a_gradient_to_the_attention_it_neither_looks_nor_names():
    right, weight = _measures(_learned("soft", freezes=True))
    assert right < 0.84
    assert weight < 0.3
