"""Searches written to be read: Python lists and floats, one example, no stopping before the end.

A model is a function `next_of(tokens) -> (log_probabilities, attention)`: what follows a list of
tokens, and the attention with which it is chosen (or None).
"""

import itertools
import math
from dataclasses import dataclass


@dataclass
class Found:
    tokens: list
    score: float
    log_probability: float
    attention: list


def chain(transition, start_id, attention=None):
    """The model of a Markov chain; row t of `attention` is that of the step fed with token t."""

    def next_of(tokens):
        last = tokens[-1] if tokens else start_id
        return (
            [math.log(p) if p > 0 else -math.inf for p in transition[last]],
            None if attention is None else attention[last],
        )

    return next_of


def changing_chain(transitions, start_id):
    """The model of a chain with a transition table for each position."""

    def next_of(tokens):
        last = tokens[-1] if tokens else start_id
        row = transitions[len(tokens)][last]
        return [math.log(p) if p > 0 else -math.inf for p in row], None

    return next_of


def score_of(log_probability, length, attention, alpha, beta):
    score = log_probability / ((5 + length) / 6) ** alpha
    if beta:
        for column in zip(*attention, strict=True):
            total = min(sum(column), 1.0)
            score += beta * (math.log(total) if total > 0 else 0.0)
    return score


def exhaustive_search(next_of, vocabulary_size, end_id, max_length, alpha=0.0):
    """Every hypothesis that ends, best first."""
    words = [token for token in range(vocabulary_size) if token != end_id]
    found = []
    for length in range(max_length):
        for body in itertools.product(words, repeat=length):
            tokens = [*body, end_id]
            log_probability = sum(next_of(tokens[:t])[0][tokens[t]] for t in range(len(tokens)))
            if log_probability > -math.inf:
                score = score_of(log_probability, len(tokens), [], alpha, 0.0)
                found.append(Found(tokens, score, log_probability, []))
    return sorted(found, key=lambda each: -each.score)


def plain_beam_search(
    next_of, end_id, max_length, beam_width, alpha=0.0, beta=0.0, allowed=lambda tokens, token: True
):
    """The definition of beam search, run to the end."""
    running = [Found([], 0.0, 0.0, [])]
    finished = []
    for _ in range(max_length):
        extended = []
        for each in running:
            log_probabilities, attention = next_of(each.tokens)
            for token, log_probability in enumerate(log_probabilities):
                if log_probability == -math.inf or not allowed(each.tokens, token):
                    continue
                longer = Found(
                    [*each.tokens, token],
                    0.0,
                    each.log_probability + log_probability,
                    [*each.attention, attention],
                )
                longer.score = score_of(
                    longer.log_probability, len(longer.tokens), longer.attention, alpha, beta
                )
                (finished if token == end_id else extended).append(longer)
        running = sorted(extended, key=lambda each: -each.log_probability)[:beam_width]
        finished = sorted(finished, key=lambda each: -each.score)[:beam_width]
    return finished or sorted(running, key=lambda each: -each.score)
