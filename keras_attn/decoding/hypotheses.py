"""What every search returns."""

from typing import NamedTuple

import tensorflow as tf


class Hypotheses(NamedTuple):
    """The hypotheses found for each of B examples, best first: W of them, at most L tokens long.

    Lengths count the end token. Past its length a hypothesis has end tokens, attention 0 and token
    log-probabilities of 0. Of several end tokens the first that was named fills up; without any
    (`end_id=None`), token 0 does.

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
        token_log_probabilities: (B, W, L) float32, `log p(y_t | y_<t)` of each token; over the
            tokens of a hypothesis they add up to its log-probability.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.decoding import greedy_search
        >>> chain = tf.math.log([[0.0, 0.1, 0.9], [0.0, 1.0, 0.0], [0.0, 0.7, 0.3]])
        >>> def step(tokens, state):  # what follows a token depends on it alone
        ...     return tf.gather(chain, tokens), state
        >>> found = greedy_search(step, {}, 1, start_id=0, end_id=1, max_length=5)
        >>> found.tokens.numpy().tolist(), found.lengths.numpy().tolist()
        ([[[2, 1, 1, 1, 1]]], [[2]])
    """

    tokens: tf.Tensor
    lengths: tf.Tensor
    scores: tf.Tensor
    log_probabilities: tf.Tensor
    attention: tf.Tensor | None
    token_log_probabilities: tf.Tensor
