"""A model that may write only what is a tree: every bracket closed, a leaf for every word."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from keras_attn.protocols import SequenceModel, SupportsAlignment
from keras_attn.special_tokens import END


class BracketTokens(NamedTuple):
    """What the ids of a vocabulary do to a tree.

    Attributes:
        opening: ids (L,) that open a bracket, one for each label.
        closing: ids (L,) that close the bracket of the same label.
        leaves: ids (K,) that stand for a word.
        vocabulary_size: V.

    Example:
        >>> from keras_attn.decoding import BracketTokens
        >>> tokens = BracketTokens(opening=[4, 5], closing=[6, 7], leaves=[8], vocabulary_size=9)
        >>> dict(zip(tokens.opening, tokens.closing))
        {4: 6, 5: 7}
    """

    opening: Sequence[int]
    closing: Sequence[int]
    leaves: Sequence[int]
    vocabulary_size: int


class WellFormed:
    """A sequence model whose answers are trees over the words of its source.

    At each step the tokens that cannot be get the logit -inf, so that the others share the
    probability among them, whatever search is used. A tree has one outermost bracket; it has a leaf
    for every word of the source (`source_lengths` without the end token), every bracket holds one
    at least, each closing token closes the bracket that was opened last, and the end token follows
    where the outermost bracket is closed, and nowhere else. A bracket is opened only where there is
    room to close it within `max_length` tokens.

    A search that cuts answers before `max_length` tokens, or a source of more than `max_length - 3`
    words, leaves trees unfinished.

    Args:
        model: any `protocols.SequenceModel` that takes `source` ids and `source_lengths`.
        tokens: what the ids of its target are.
        max_length: the most tokens an answer has, the end token included.
        max_depth: how many brackets are open at most.

    Raises:
        ValueError: if ids repeat or are none of the vocabulary, labels do not both open and close,
            or a length or depth leaves no room for a tree of one word.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.decoding import BracketTokens, WellFormed, greedy_search
        >>> from keras_attn.models import RNNEncoderDecoder
        >>> model = RNNEncoderDecoder(9, 7, embedding_dim=4, units=4, readout_units=4)
        >>> tokens = BracketTokens(opening=[4], closing=[5], leaves=[6], vocabulary_size=7)
        >>> model = WellFormed(model, tokens, max_length=6)
        >>> source = {"source": tf.constant([[4, 5, 2]]), "source_lengths": tf.constant([3])}
        >>> state = model.initial_state(model.encode(source))
        >>> found = greedy_search(model.step, state, 1, start_id=1, end_id=2, max_length=6)
        >>> found.tokens[0, 0, : found.lengths[0, 0]].numpy()[[0, -2, -1]].tolist()
        [4, 5, 2]
    """

    def __init__(
        self, model: SequenceModel, tokens: BracketTokens, max_length: int, max_depth: int = 48
    ):
        _check(tokens, max_length, max_depth)
        self.model = model
        self.max_length = max_length
        self.aligns = model.aligns if isinstance(model, SupportsAlignment) else True
        self._max_depth = max_depth
        size = tokens.vocabulary_size
        self._opens = _marks(tokens.opening, size)
        self._closes = _marks(tokens.closing, size)
        self._is_leaf = _marks(tokens.leaves, size)
        self._is_end = _marks([END], size)
        partners = dict(zip(tokens.opening, tokens.closing, strict=True))
        self._partner = tf.constant([partners.get(token, 0) for token in range(size)])  # (V,)

    @property
    def variables(self) -> list:
        return self.model.variables

    def encode(self, inputs: Mapping) -> dict:
        """The model's memory, and how many words each source has."""
        return {"model": self.model.encode(inputs), "words": inputs["source_lengths"] - 1}

    def initial_state(self, memory: dict) -> dict:
        """The model's state, beside it a tree of which nothing is written."""
        words = tf.cast(memory["words"], tf.int32)  # (B,)
        return {
            "model": self.model.initial_state(memory["model"]),
            "tree": {
                "words": words,  # that have no leaf yet
                "room": tf.fill(tf.shape(words), self.max_length + 1),  # the start token fills one
                "depth": tf.zeros_like(words),
                "closers": tf.zeros([tf.shape(words)[0], self._max_depth], tf.int32),
            },
        }

    def step(self, tokens, state: dict) -> tuple:
        """The model's step, with -inf for what no tree goes on with."""
        logits, after, attention = (*self.model.step(tokens, state["model"]), None)[:3]
        tree = self._after(tokens, state["tree"])
        logits = tf.where(self._allowed(tokens, tree), logits, -float("inf"))
        return logits, {"model": after, "tree": tree}, attention

    def _after(self, tokens, tree: dict) -> dict:
        """The tree with one more token each, (N,)."""
        opens, closes = (tf.gather(marks, tokens) for marks in (self._opens, self._closes))
        place = tf.range(self._max_depth)
        pushed = opens[:, None] & (place == tree["depth"][:, None])  # (N, D)
        closer = tf.gather(self._partner, tokens)[:, None]
        return {
            "words": tree["words"] - _int(tf.gather(self._is_leaf, tokens)),
            "room": tree["room"] - 1,
            "depth": tree["depth"] + _int(opens) - _int(closes),
            "closers": tf.where(pushed, closer, tree["closers"]),
        }

    def _allowed(self, tokens, tree: dict):
        """Which tokens may follow: (N, V)."""
        words, depth = tree["words"], tree["depth"]
        is_inside, is_written = depth > 0, words == 0
        holds_nothing = tf.gather(self._opens, tokens)
        # A bracket takes two tokens, beside the leaves, the closing ones and the end.
        fits = (depth < self._max_depth) & (words + depth + 1 + 2 <= tree["room"])
        last = tf.range(self._max_depth) == depth[:, None] - 1  # (N, D)
        closer = tf.reduce_sum(tf.where(last, tree["closers"], 0), axis=1)  # (N,)
        is_closer = tf.range(tf.size(self._partner)) == closer[:, None]  # (N, V)
        may_close = is_inside & ~holds_nothing & ((depth > 1) | is_written)
        return (
            ((~is_written & (~is_inside | fits))[:, None] & self._opens)
            | ((~is_written & is_inside)[:, None] & self._is_leaf)
            | (may_close[:, None] & is_closer)
            | ((is_written & ~is_inside)[:, None] & self._is_end)
        )


def _check(tokens: BracketTokens, max_length: int, max_depth: int) -> None:
    named = [*tokens.opening, *tokens.closing, *tokens.leaves]
    known = range(tokens.vocabulary_size)
    if len(set(named) | {END}) <= len(named) or any(token not in known for token in named):
        raise ValueError(
            "Each token does one thing, is one of the vocabulary and not the end token. "
            f"Received: tokens={tokens}"
        )
    if not tokens.leaves or not tokens.opening or len(tokens.opening) != len(tokens.closing):
        raise ValueError(
            "There must be a leaf and a label, and each label must open and close. "
            f"Received: tokens={tokens}"
        )
    for name, value, least in (("max_length", max_length, 4), ("max_depth", max_depth, 1)):
        if value < least:
            raise ValueError(
                f"A tree of one word takes a {name} of {least}. Received: {name}={value}"
            )


def _marks(ids: Sequence[int], size: int) -> tf.Tensor:
    return tf.constant([token in set(ids) for token in range(size)])


def _int(truths) -> tf.Tensor:
    return tf.cast(truths, tf.int32)
