"""What a person asks for of a trained model on the command line, and what comes back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Search:
    """How the tokens of an answer are found: greedily, by a beam, or by drawing them.

    Args:
        beam_width: hypotheses kept at every step; 1 is greedy search.
        length_penalty, coverage_penalty: alpha and beta of a beam's scores, see
            `keras_attn.decoding.beam_search`.
        n_best: how many answers a text gets; by default one, or as many as a beam is wide.
        end_rule: of a beam, see `keras_attn.decoding.beam_search`.
        temperature: tokens are drawn with it, see `keras_attn.decoding.sample`; None draws none.
        top_k, top_p: how many tokens, and which share of the probability, are left to draw from.
        seed: of what is drawn.
        well_formed: whether only tokens are allowed that make the answer a tree, see
            `keras_attn.decoding.WellFormed`; for models that write trees.
    """

    beam_width: int = 1
    length_penalty: float = 0.0
    coverage_penalty: float = 0.0
    n_best: int | None = None
    end_rule: str = "finished"
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 1
    well_formed: bool = False

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest of all tokens is taken at every step, for one answer."""
        is_single = self.beam_width == 1 and self.n_best in (None, 1)
        return is_single and self.temperature is None and not self.well_formed


@dataclass(frozen=True)
class Answer:
    """What a model says to one text.

    Args:
        texts: the answers, best first; one at least.
        scores: of each, its log-probability or what a search makes of it; None if the model has
            none.
        is_cut: whether the text is longer than the model reads, and its end was not looked at.
    """

    texts: tuple[str, ...]
    scores: tuple[float, ...] | None = None
    is_cut: bool = False

    @classmethod
    def of(cls, texts: Sequence[bytes], scores: Sequence[float], is_cut: bool) -> "Answer":
        """From texts and scores (n,); slots without a hypothesis are left out, but the first."""
        kept = [row for row in range(len(texts)) if row == 0 or scores[row] > -math.inf]
        return cls(
            tuple(texts[row].decode() for row in kept),
            tuple(float(scores[row]) for row in kept),
            bool(is_cut),
        )
