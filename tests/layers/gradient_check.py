"""Gradients of a recurrent layer against finite differences in float64."""

import numpy as np
import tensorflow as tf


def check_gradients(layer, sequences, mask):
    """Compare the derivative along random directions of a random loss of all outputs and states.

    One direction for each of the inputs, initial states and weights of the layer, which is a
    float64 layer that returns sequences and states.
    """
    rng = np.random.default_rng(4)
    layer.build(sequences.shape)
    states = [rng.standard_normal((len(sequences), size)) for size in layer.state_size]
    weights = [0.7 * rng.standard_normal(v.shape) for v in layer.trainable_variables]
    factors = [rng.standard_normal((*sequences.shape[:2], layer.units)), *map(np.ones_like, states)]

    @tf.function
    def loss_and_gradients(values):
        x, *states = values[: 1 + len(layer.state_size)]
        watched = [x, *states, *(v.value for v in layer.trainable_variables)]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = layer(x, initial_state=states, mask=mask)
            loss = tf.add_n([tf.reduce_sum(o * f) for o, f in zip(outputs, factors, strict=True)])
        return loss, tape.gradient(loss, watched)

    def evaluate(values):
        layer.set_weights(values[1 + len(states) :])
        return loss_and_gradients([tf.constant(v) for v in values])

    values = [sequences, *states, *weights]
    _, gradients = evaluate(values)
    names = ["inputs", *(f"state {n}" for n in range(len(states)))]
    names += [v.name for v in layer.trainable_variables]
    for n, name in enumerate(names):
        direction = rng.standard_normal(values[n].shape)
        ahead, behind = (
            evaluate([*values[:n], values[n] + step * direction, *values[n + 1 :]])[0].numpy()
            for step in (1e-5, -1e-5)
        )
        analytic, numeric = np.sum(gradients[n] * direction), (ahead - behind) / 2e-5
        assert analytic != 0, f"{name}: no gradient"
        np.testing.assert_allclose(analytic, numeric, rtol=1e-6, atol=1e-8, err_msg=name)
