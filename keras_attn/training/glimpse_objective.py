"""What a model that classifies by glimpses minimises."""

from collections.abc import Callable

import tensorflow as tf

from keras_attn.reinforce import reinforce


def glimpse_objective(policy_weight: float = 1.0) -> Callable:
    """The objective of `models.RecurrentAttention`: batches of (images, labels).

    `sum_b [-log p(y_b) + sum_t ((r_b - b_bt)^2 - policy_weight A_bt log p(l_bt)) / (T - 1)]` and
    the number of images, with the reward r = 1 for a right answer and else 0, the baselines b_t and
    the advantages `A = r - b_t`, normalised over the batch: see `keras_attn.reinforce`.

    Args:
        policy_weight: of the locations' term.

    Returns:
        `objective(model, batch, training=True) -> (sum, count)`.

    Reference:
        Mnih et al. 2014, "Recurrent models of visual attention", section 3.1.
    """

    def objective(model, batch, training=True):
        images, labels = batch
        outputs = model(images, training=training)
        logits = outputs["logits"]
        classes = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        count = tf.cast(tf.size(labels), tf.float32)
        total = tf.reduce_sum(classes)
        log_probabilities = outputs["log_probabilities"]
        if log_probabilities.shape[1]:
            is_right = tf.equal(tf.argmax(logits, axis=-1, output_type=labels.dtype), labels)
            terms = reinforce(
                log_probabilities,
                tf.cast(is_right, tf.float32),
                outputs["baselines"],
                normalize=True,
            )
            choices = log_probabilities.shape[1]
            total += (terms.baseline + policy_weight * terms.policy) / choices
        return total, count

    return objective
