"""Greedy, sampling and beam search over any step function."""

from keras_attn.decoding.beam import beam_search
from keras_attn.decoding.greedy import greedy_search
from keras_attn.decoding.hypotheses import Hypotheses
from keras_attn.decoding.penalties import coverage_penalty, length_penalty
from keras_attn.decoding.sampling import sample
from keras_attn.decoding.well_formed import BracketTokens, WellFormed

__all__ = [
    "BracketTokens",
    "Hypotheses",
    "WellFormed",
    "beam_search",
    "coverage_penalty",
    "greedy_search",
    "length_penalty",
    "sample",
]
