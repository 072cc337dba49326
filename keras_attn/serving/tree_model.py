"""Sentence in, bracketed tree out: a text model that writes trees, as graph functions."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_attn.data.bracketed_trees import PUNCTUATION, WORD
from keras_attn.decoding import BracketTokens, WellFormed
from keras_attn.protocols import SequenceModel
from keras_attn.serving.answers import Answer, Search
from keras_attn.serving.text_model import TextModel
from keras_attn.special_tokens import NUMBER_OF_SPECIAL_TOKENS
from keras_attn.text import PieceTokenizer, WordTokenizer
from keras_attn.text.bracket_repair import mended_trees

_LEAVES = (WORD, *PUNCTUATION)
_SIGNATURES = ("serving_default", "bounded", "attention")


class WrittenTree(NamedTuple):
    """The likeliest tree of a sentence.

    Attributes:
        text: in brackets.
        repairs: how often each of `text.bracket_repair.REPAIRS` was made, (7,).
    """

    text: str
    repairs: np.ndarray

    @property
    def is_malformed(self) -> bool:
        """Whether anything had to be mended."""
        return bool(self.repairs.any())


class TreeModel:
    """Joins a sequence model, the words that it reads and the labels that it writes.

    What the model writes of a tree is made whole by the rules of `text.bracket_repair.mended_trees`
    and holds the words of the sentence. `text` and `score` are those of the best tree, and
    `repairs` (B, 7) how often each of its `REPAIRS` was made; with a beam `texts` and `scores`
    (B, n) are those of the `n_best` ones, best first.

    Args:
        model: any `protocols.SequenceModel` that takes `source` ids and `source_lengths`.
        words: of the sentences.
        labels: the labels of brackets.
        max_words: longer sentences are cut after so many words; the others hang below the outermost
            bracket.
        max_length: tokens of a tree, the end token included; at least three more than words.
        search: how the tokens are found; with `well_formed` only those of a tree are
            (`decoding.WellFormed`).

    Raises:
        ValueError: if there is no room for a tree over so many words, labels repeat, or the search
            cannot be honoured.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.models import RNNEncoderDecoder
        >>> from keras_attn.serving import TreeModel
        >>> from keras_attn.text import WordTokenizer
        >>> words = WordTokenizer(["dogs", "bark"], ["a"])
        >>> model = RNNEncoderDecoder(7, 12, embedding_dim=4, units=4, readout_units=4)
        >>> trees = TreeModel(model, words, ["S"], max_words=9, max_length=12)
        >>> sorted(trees.parse(tf.constant(["dogs bark"])))
        ['repairs', 'score', 'text']
    """

    def __init__(
        self,
        model: SequenceModel,
        words: WordTokenizer,
        labels: Sequence[str],
        max_words: int,
        max_length: int,
        search: Search = Search(),  # noqa: B008
    ):
        if max_length < max_words + 3:
            raise ValueError(
                "A tree takes three tokens more than its sentence has words: give a larger "
                f"max_length or fewer words. Received: max_words={max_words}, "
                f"max_length={max_length}"
            )
        self.model = model
        self.words = words
        self.search = search
        self._given = (words, labels, max_words, max_length)
        tokenizer = label_tokenizer(labels)
        searched = model
        if search.well_formed:
            searched = WellFormed(model, bracket_tokens(labels), max_length)
        self.text_model = TextModel(searched, words, tokenizer, max_words, max_length).with_search(
            replace(search, well_formed=False)
        )
        self.exported = tuple(
            name for name in _SIGNATURES if self.text_model.aligns or name != "attention"
        )
        text = tf.TensorSpec([None], tf.string, name="text")
        limit = tf.TensorSpec(None, tf.int32, name="max_length")
        # One function that the other calls: a SavedModel holds its graph once.
        self.parse_bounded = tf.function(self._parse, input_signature=[text, limit])
        self.parse = tf.function(
            lambda text: self.parse_bounded(text, max_length), input_signature=[text]
        )

    @property
    def resources(self) -> list:
        """What the functions read and an export must keep."""
        return self.text_model.resources

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """`serving_default`, `bounded` with an input `max_length` too, and `attention`.

        A model without attention lacks the last. They are those of `TextModel` otherwise.
        """
        functions = {
            "serving_default": self.parse,
            "bounded": self.parse_bounded,
            "attention": self.text_model.align,
        }
        return {name: functions[name] for name in self.exported}

    def warmup_requests(self) -> list[tuple[str, dict]]:
        """A request for every signature, for a server to trace before people ask."""
        requests = dict(self.text_model.warmup_requests())
        return [(name, requests[name]) for name in self.exported]

    def warm_up(self) -> None:
        """Compile what answers sentences."""
        self.parse_bounded(tf.constant(["warm up"]), 1)

    def with_search(self, search: Search) -> "TreeModel":
        """The same model with the search that is asked for.

        Raises:
            ValueError: if it cannot be honoured.
        """
        return TreeModel(self.model, *self._given, search)

    def answer(self, texts: Iterable[str | bytes], batch_size: int = 64) -> Iterator[str]:
        """The tree of each sentence, in order."""
        texts = iter(texts)
        while batch := list(itertools.islice(texts, batch_size)):
            for answer in self.parse(tf.constant(batch))["text"].numpy():
                yield answer.decode()

    def answers(self, texts: Sequence[str | bytes]) -> list[Answer]:
        """The trees of a batch of sentences with their scores, the `n_best` of each."""
        batch = tf.constant(texts, tf.string)
        found = {name: value.numpy() for name, value in self.parse(batch).items()}
        lengths = self.words.split(batch).row_lengths().numpy()
        trees = found.get("texts", found["text"][:, None])  # (B, n)
        scores = found.get("scores", found["score"][:, None])
        return [
            Answer.of(*row, is_cut=length > self.text_model.max_source_length)
            for *row, length in zip(trees, scores, lengths, strict=True)
        ]

    def trees(
        self,
        texts: Sequence[str | bytes],
        batch_size: int = 64,
        tokens_of_word: int | None = None,
        count: Callable[[int], None] = lambda number: None,
    ) -> list[WrittenTree]:
        """The likeliest tree of each sentence and what was mended of it.

        Args:
            texts: sentences; those of like length are parsed together.
            batch_size: how many.
            tokens_of_word: if given, a tree is cut after so many tokens for each word, and as many
                more: a model that has learned little seldom ends by itself.
            count: called with the number of sentences of each batch that is parsed.
        """
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        found: dict[int, WrittenTree] = {}
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            batch = tf.constant([texts[row] for row in rows])
            if tokens_of_word is None:
                limits = tf.fill([len(rows)], self.text_model.max_length)
            else:
                counts = tf.cast(self.words.split(batch).row_lengths(), tf.int32)
                limits = tokens_of_word * (counts + 1)
            written = self.parse_bounded(batch, limits)
            for row, text, repairs in zip(
                rows, written["text"].numpy(), written["repairs"].numpy(), strict=True
            ):
                found[row] = WrittenTree(text.decode(), repairs)
            count(len(rows))
        return [found[row] for row in range(len(texts))]

    def _parse(self, text: tf.Tensor, max_length: tf.Tensor) -> dict[str, tf.Tensor]:
        found = self.text_model.translate_bounded(text, max_length)
        words = self.words.split(text)
        best = mended_trees(tf.strings.split(found["text"]), words)
        found = {**found, "text": best.texts, "repairs": best.repairs}
        if "texts" in found:
            found["texts"] = self._all_trees(found["texts"], found["scores"], words)
        return found

    def _all_trees(self, written: tf.Tensor, scores: tf.Tensor, words: tf.RaggedTensor):
        """The trees (B, n) of all hypotheses; a slot without one has an empty text."""
        number = tf.shape(written)[1]
        rows = tf.repeat(tf.range(words.nrows(out_type=tf.int32)), number)  # (B n,)
        tokens = tf.strings.split(tf.reshape(written, [-1]))
        texts = tf.reshape(mended_trees(tokens, tf.gather(words, rows)).texts, tf.shape(written))
        return tf.where(scores > -float("inf"), texts, "")


def label_tokenizer(labels: Sequence[str]) -> PieceTokenizer:
    """The tokens of `data.bracketed_trees.linearised`, for these labels.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.serving.tree_model import label_tokenizer
        >>> label_tokenizer(["S", "NP"]).tokenize(tf.constant(["(S (NP XX )NP . )S"])).to_list()
        [[10, 12, 4, 13, 6, 11]]
    """
    brackets = itertools.chain.from_iterable((f"({label}", f"){label}") for label in labels)
    return PieceTokenizer([*_LEAVES, *brackets])


def bracket_tokens(labels: Sequence[str]) -> BracketTokens:
    """What the ids of `label_tokenizer` do to a tree."""
    first = NUMBER_OF_SPECIAL_TOKENS + len(_LEAVES)
    size = first + 2 * len(labels)
    return BracketTokens(
        opening=range(first, size, 2),
        closing=range(first + 1, size, 2),
        leaves=range(NUMBER_OF_SPECIAL_TOKENS, first),
        vocabulary_size=size,
    )
