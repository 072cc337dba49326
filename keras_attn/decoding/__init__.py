"""Greedy, sampling and beam search over any step function."""

from keras_attn.decoding.greedy import greedy_search
from keras_attn.decoding.hypotheses import Hypotheses

__all__ = [
    "Hypotheses",
    "greedy_search",
]
