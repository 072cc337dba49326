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
    token_log_probabilities: list


def ends_of(end_id):
    """The set of end tokens: of one, of several, or of None."""
    if end_id is None:
        return set()
    return {end_id} if isinstance(end_id, int) else set(end_id)


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


def exhaustive_search(next_of, vocabulary_size, end_id, max_length, alpha=0.0, end_rule="finished"):
    """Every hypothesis that ends, and by the rule those that are cut, best first."""
    ends = ends_of(end_id)
    words = [token for token in range(vocabulary_size) if token not in ends]
    finished, cut = [], []
    for length in range(max_length + 1):
        for body in itertools.product(words, repeat=length):
            for last in ends if length < max_length else [None]:
                tokens = [*body] if last is None else [*body, last]
                of_tokens = [next_of(tokens[:t])[0][tokens[t]] for t in range(len(tokens))]
                score = score_of(sum(of_tokens), len(tokens), [], alpha, 0.0)
                if score > -math.inf:
                    found = Found(tokens, score, sum(of_tokens), [], of_tokens)
                    (cut if last is None else finished).append(found)
    answers = finished + cut if end_rule == "running" else finished or cut
    return sorted(answers, key=lambda each: -each.score)


def extensions_of(each, next_of, alpha, beta):
    """A hypothesis with every token that can follow it."""
    log_probabilities, attention = next_of(each.tokens)
    for token, log_probability in enumerate(log_probabilities):
        if log_probability > -math.inf:
            longer = Found(
                [*each.tokens, token],
                0.0,
                each.log_probability + log_probability,
                [*each.attention, attention],
                [*each.token_log_probabilities, log_probability],
            )
            longer.score = score_of(
                longer.log_probability, len(longer.tokens), longer.attention, alpha, beta
            )
            yield longer


def plain_beam_search(
    next_of,
    end_id,
    max_length,
    beam_width,
    alpha=0.0,
    beta=0.0,
    allowed=lambda tokens, token: True,
    end_rule="finished",
):
    """The definition of beam search, run to the end."""
    ends = ends_of(end_id)
    running = [Found([], 0.0, 0.0, [], [])]
    finished = []
    for _ in range(max_length):
        extended = []
        for each in running:
            for longer in extensions_of(each, next_of, alpha, beta):
                if allowed(each.tokens, longer.tokens[-1]):
                    (finished if longer.tokens[-1] in ends else extended).append(longer)
        running = sorted(extended, key=lambda each: -each.log_probability)[:beam_width]
        finished = sorted(finished, key=lambda each: -each.score)[:beam_width]
    answers = finished + running if end_rule == "running" else finished or running
    return sorted(answers, key=lambda each: -each.score)[:beam_width]


def shared_beam_search(next_of, end_id, max_length, beam_width, alpha=0.0):
    """Beam search with one list: finished hypotheses keep their place in it, as in TF Addons."""
    ends = ends_of(end_id)
    beam = [Found([], 0.0, 0.0, [], [])]
    for _ in range(max_length):
        extended = []
        for each in beam:
            ended = each.tokens and each.tokens[-1] in ends
            extended += [each] if ended else extensions_of(each, next_of, alpha, 0.0)
        beam = sorted(extended, key=lambda each: -each.score)[:beam_width]
    return beam
