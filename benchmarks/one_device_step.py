"""The training step of `keras_attn.training.fit` on one device, to be timed by itself."""

import keras

from keras_attn.training import make_strategy
from keras_attn.training.replica_step import make_replica_step
from keras_attn.training.train_step import make_train_step


def one_device_step(model, optimizer: keras.optimizers.Optimizer, objective, clip_norm, batch_spec):
    """`step(batch) -> (sum, count)`."""
    optimizer.build(model.trainable_variables)
    step = make_replica_step(model, optimizer, objective, clip_norm=clip_norm)
    train_step = make_train_step(make_strategy("none"), step, batch_spec)
    return lambda batch: train_step(batch)[:2]
