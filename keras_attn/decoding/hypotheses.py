"""What every search returns."""

from typing import NamedTuple

import tensorflow as tf


class Hypotheses(NamedTuple):
    """The hypotheses found for each of B examples, best first: W of them, at most L tokens long.

    Lengths count the end token. Past its length a hypothesis has end tokens and attention 0.

    An unused slot has length 0, end tokens and score -inf; an example whose logits were not a
    number has length 0, end tokens and score NaN in every slot, so a broken model is never taken
    for an answer.

    Attributes:
        tokens: (B, W, L) int32, without the start token, with the end token.
        lengths: (B, W) int32.
        scores: (B, W) float32, what the hypotheses are ranked by.
        log_probabilities: (B, W) float32, the natural logarithm of the model's probability of the
            tokens: `sum_t log p(y_t | y_<t)`.
        attention: (B, W, L, S) float32, the attention with which each token was chosen, or None
            if the step returns none.
    """

    tokens: tf.Tensor
    lengths: tf.Tensor
    scores: tf.Tensor
    log_probabilities: tf.Tensor
    attention: tf.Tensor | None
