"""Random numbers that differ between replicas."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf

_STRIDE = 1_000_003


@contextmanager
def seeds_of_replicas(model: keras.Model, strategy: tf.distribute.Strategy) -> Iterator[None]:
    """While this lasts replica r draws with the model's seeds plus r times a large number.

    Copies of a model have copies of its seeds, and would drop the same units of different rows.
    The first replica keeps the seeds of the model, as one device has them and as a checkpoint
    written meanwhile holds them; at the end all replicas have them again. What is drawn depends on
    the seeds, the number of steps and the number of replicas alone.
    """
    states = seed_states(model)
    if strategy.num_replicas_in_sync == 1 or not states:
        yield
        return
    _shift(states, strategy, _STRIDE)
    try:
        yield
    finally:
        _shift(states, strategy, -_STRIDE)


def seed_states(model: keras.Model) -> list[keras.Variable]:
    """The states (2,) of the model's seed generators: a seed, and how often it was drawn from."""
    return [variable for variable in model.variables if variable.name == "seed_generator_state"]


def _shift(states, strategy, stride: int) -> None:
    @tf.function
    def shift():
        rank = tf.distribute.get_replica_context().replica_id_in_sync_group
        for state in states:
            seed_and_count = tf.stack([stride * rank, 0])
            state.assign_add(tf.cast(seed_and_count, state.value.dtype))

    strategy.run(shift)
