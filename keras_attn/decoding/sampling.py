"""Sampling: a token drawn at random at every step."""

import tensorflow as tf

from keras_attn.decoding import arguments, top
from keras_attn.decoding.hypotheses import Hypotheses
from keras_attn.decoding.path import follow
from keras_attn.protocols import StepFunction


def sample(
    step: StepFunction,
    state,
    batch_size,
    start_id,
    end_id,
    max_length,
    temperature=1.0,
    top_k=None,
    top_p=None,
    seed=None,
    *,
    min_length=0,
    prefix=None,
    forbidden_tokens=None,
    no_repeat_ngram_size=0,
    n_best=1,
) -> Hypotheses:
    """Draw a token from the model's distribution at every step, until the end token.

        y_t ~ q(v) = p(v | y_<t)^(1/T) / Z  over the tokens that are left by top-k and top-p

    `temperature` T is applied first, then `top_k` leaves the k likeliest tokens (Fan et al. 2018),
    then `top_p` the fewest of the likeliest whose share of what is left reaches p (the nucleus,
    Holtzman et al. 2020); the likeliest token is always left. Of tokens equally likely the lower id
    is left.

    One uniform number a hypothesis and step is drawn from `seed` and the position by the Philox
    generator, and turned into a token by the inverse of the cumulative distribution: the same seed
    gives the same tokens eagerly, in a graph and under XLA.

    `n_best` samples are drawn of each example, independently: the same tokens may be drawn twice.
    They are those of a batch in which every example stands `n_best` times in a row.

    Example:

    ```python
    import tensorflow as tf
    from keras_attn.decoding import sample

    logits = tf.math.log([[0.0, 0.2, 0.8], [0.0, 1.0, 0.0], [0.0, 0.9, 0.1]])

    def step(tokens, state):
        return tf.gather(logits, tokens), state

    drawn = sample(step, {}, 100, start_id=0, end_id=1, max_length=5, top_p=0.9, seed=7)
    drawn.tokens[:, 0]  # (100, 5): 20 of 100 are expected to be [1, 1, 1, 1, 1]
    ```

    Args:
        step, state, batch_size, start_id, end_id, max_length: as in `greedy_search`.
        temperature: T above 0; below 1 it sharpens the distribution.
        top_k: an int of at least 1, or None for all tokens.
        top_p: above 0 and at most 1, or None for all tokens.
        seed: an int, or an integer tensor of shape (2,); None draws one from TensorFlow's global
            generator at each call.
        min_length, prefix, forbidden_tokens, no_repeat_ngram_size: as in `beam_search`.
        n_best: how many samples to draw of each example. The state is repeated for them once.

    Returns:
        `Hypotheses` with W = `n_best`, best first. Score and log-probability are the model's,
        `sum_t log p(y_t | y_<t)`: temperature, top-k and top-p decide what is drawn, not what it is
        worth.

    Raises:
        ValueError: as `greedy_search`, and if temperature, top_k, top_p or n_best are out of range.

    References:
        Fan et al., "Hierarchical Neural Story Generation", 2018, arXiv:1805.04833.
        Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020, arXiv:1904.09751.
    """
    temperature = arguments.number(temperature, "temperature", above=0.0)
    if top_k is not None:
        top_k = arguments.static_integer_at_least(top_k, 1, "top_k")
    if top_p is not None:
        top_p = arguments.number(top_p, "top_p", above=0.0, most=1.0)
    count = arguments.static_integer_at_least(n_best, 1, "n_best")
    seed = _seed(seed)

    def choose(logits, position):
        # Of (N, V) tokens, C candidates: all in their own order, or the likeliest first.
        logits, tokens = _candidates(logits, top_k, ordered=top_p is not None)
        logits -= tf.reduce_max(logits, axis=1, keepdims=True)
        weights = tf.exp(logits / temperature)  # (N, C), the largest is 1
        if top_p is not None:
            weights = _nucleus(weights, top_p)
        uniform = _uniform(tf.shape(weights)[:1], seed, position)  # (N,)
        chosen = _inverse_cumulative(weights, uniform)  # (N,)
        return chosen if tokens is None else tf.gather(tokens, chosen, batch_dims=1)

    drawn = follow(
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
        count=count,
    )
    return _best_first(drawn)


def _best_first(drawn: Hypotheses) -> Hypotheses:
    """The hypotheses ranked by their scores; of equal ones the first drawn comes first."""
    scores = tf.where(tf.math.is_nan(drawn.scores), -float("inf"), drawn.scores)
    order = tf.math.top_k(scores, scores.shape[1]).indices  # (B, W)
    return Hypotheses(
        *(None if each is None else tf.gather(each, order, batch_dims=1) for each in drawn)
    )


def _candidates(logits, top_k, ordered):
    """The logits that may be drawn and their tokens (None: all, in the order of the tokens)."""
    if top_k is None and not ordered:
        return logits, None
    if top_k is None:
        return tf.math.top_k(logits, tf.shape(logits)[1])
    return top.top_k(logits, top.at_most(top_k, logits))


def _nucleus(weights, top_p):
    """Weights (N, C), in falling order, with 0 past the fewest whose share reaches `top_p`."""
    before = tf.cumsum(weights, axis=1, exclusive=True)
    return tf.where(before < top_p * tf.reduce_sum(weights, axis=1, keepdims=True), weights, 0.0)


def _inverse_cumulative(weights, uniform):
    """The first index whose cumulative weight exceeds that share of the total: (N, C) -> (N,)."""
    cumulative = tf.cumsum(weights, axis=1)
    threshold = uniform[:, None] * tf.reduce_max(cumulative, axis=1, keepdims=True)
    # Rounding may make a cumulative sum exceed the threshold where the weight is 0: not there.
    beyond = (cumulative > threshold) & (weights > 0)
    likeliest = tf.argmax(weights, axis=1, output_type=tf.int32)
    first = tf.argmax(tf.cast(beyond, tf.int32), axis=1, output_type=tf.int32)
    return tf.where(tf.reduce_any(beyond, axis=1), first, likeliest)


def _uniform(shape, seed, position):
    """Numbers in [0, 1), different at each position.

    Philox gives the same integers on every path of TensorFlow, but XLA makes other floats of them.
    """
    integers = tf.random.stateless_uniform(
        shape,
        tf.stack([seed[0], seed[1] + position]),
        minval=None,
        maxval=None,
        dtype=tf.uint32,
        alg="philox",
    )
    return tf.cast(tf.bitwise.right_shift(integers, tf.constant(8, tf.uint32)), tf.float32) * 2**-24


def _seed(seed):
    """Two integers."""
    if seed is None:
        return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
    seed = tf.cast(tf.convert_to_tensor(seed), tf.int32)
    if seed.shape.rank == 0:
        return tf.stack([seed, 0])
    if seed.shape.rank != 1 or seed.shape[0] not in (None, 2):
        raise ValueError(
            "seed must be an integer, or an integer tensor of shape (2,). "
            f"Received: seed.shape={seed.shape}"
        )
    return seed
