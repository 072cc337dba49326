"""Greedy search: the likeliest token at every step."""

import tensorflow as tf

from keras_attn.decoding.hypotheses import Hypotheses
from keras_attn.decoding.path import follow
from keras_attn.protocols import StepFunction


def greedy_search(
    step: StepFunction,
    state,
    batch_size,
    start_id,
    end_id,
    max_length,
    *,
    min_length=0,
    prefix=None,
    forbidden_tokens=None,
    no_repeat_ngram_size=0,
    n_best=1,
) -> Hypotheses:
    """Choose the likeliest token at every step, until the end token or `max_length` tokens.

        y_t = argmax_v p(v | y_<t),   log p(y) = sum_t log p(y_t | y_<t)

    A tie goes to the lowest token id. The loop is a `tf.while_loop` that stops when every example
    of the batch has ended; it runs eagerly, in a graph, under XLA and in a SavedModel.

    Logits that are NaN or +inf make the example's answer length 0 and score NaN. Logits of which
    none is above -inf leave the example without an answer: length 0 and score -inf. The other
    examples of the batch are untouched.

    Example:

    ```python
    import tensorflow as tf
    from keras_attn.decoding import greedy_search

    # A Markov chain: start (0) to 2 to end (1).
    logits = tf.math.log([[0.0, 0.2, 0.8], [0.0, 1.0, 0.0], [0.0, 0.9, 0.1]])

    def step(tokens, state):
        return tf.gather(logits, tokens), state

    found = greedy_search(step, {}, batch_size=1, start_id=0, end_id=1, max_length=5)
    found.tokens[0, 0]  # [2, 1, 1, 1, 1]
    found.lengths[0, 0]  # 2
    found.scores[0, 0]  # log(0.8 * 0.9)
    ```

    Args:
        step: `step(tokens (B,) int32, state) -> (logits (B, V), state[, attention (B, S)])`, a
            `keras_attn.protocols.StepFunction`.
        state: any nest of tensors with leading dimension B; a step returns it with the same
            structure, shapes and dtypes.
        batch_size: B, an int or an integer scalar tensor.
        start_id: the token fed at the first step, one for all or of shape (B,).
        end_id: the token that ends a hypothesis, several such tokens (E,), or None: then every
            answer has `max_length` tokens.
        max_length: the most tokens a hypothesis may have, the end token counted; an int or an
            integer scalar tensor, or integers (B,), one for each example. L is the largest.
        min_length, prefix, forbidden_tokens, no_repeat_ngram_size: as in `beam_search`.
        n_best: 1, for there is only one likeliest token at every step. `beam_search` finds the n
            best hypotheses, and `sample` draws n.

    Returns:
        `Hypotheses` with W = 1; the score is the log-probability. An example without an end token
        after `max_length` tokens is returned as it is.

    Raises:
        ValueError: if an argument is out of range, or a state, logits or attention have a wrong
            shape; as far as shapes are known at tracing.
    """
    if tf.get_static_value(n_best) != 1:
        raise ValueError(
            "Greedy search finds one hypothesis for each example; for several use beam_search or "
            f"sample. Received: n_best={n_best}"
        )

    def choose(logits, position):
        del position
        return tf.argmax(logits, axis=-1, output_type=tf.int32)

    return follow(
        choose,
        step,
        state,
        batch_size,
        start_id,
        end_id,
        max_length,
        min_length=min_length,
        prefix=prefix,
        forbidden_tokens=forbidden_tokens,
        no_repeat_ngram_size=no_repeat_ngram_size,
    )
