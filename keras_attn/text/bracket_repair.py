"""What a model wrote of a tree, with the words put in and made whole, inside the graph."""

from typing import NamedTuple

import tensorflow as tf

from keras_attn.data.bracketed_trees import OUTERMOST, WORD

REPAIRS = (
    "outermost bracket added",
    "label of a closing bracket changed",
    "closing bracket removed",
    "empty bracket removed",
    "leaf removed",
    "leaf added",
    "bracket closed at the end",
)
"""What is counted, see `mended_trees`."""


class MendedTrees(NamedTuple):
    """Trees in brackets, and what had to be mended.

    Attributes:
        texts: (B,) strings, each a tree with its words.
        repairs: (B, 7) int32, how often each of `REPAIRS` was made; all 0 for a well-formed one.
    """

    texts: tf.Tensor
    repairs: tf.Tensor


def mended_trees(tokens: tf.RaggedTensor, words: tf.RaggedTensor) -> MendedTrees:
    """Trees from the tokens of `data.bracketed_trees.linearised` and the words of the sentences.

    Each token is read in its order and mended by these rules:

    1. A first token that opens is the outermost bracket, which closes behind the last word and no
       sooner. If the first token does not open there is an outermost bracket TOP.
    2. A closing token closes the bracket that was opened last, whatever label it names. If only the
       outermost bracket is open and tokens follow it is left out.
    3. A bracket that closes before it has a word is left out, with the token that closes it.
    4. A leaf gets the next word; when there is none it is left out.
    5. Behind the last token the open brackets are closed. Words that are left hang directly below
       the outermost bracket, each with the tag XX.

    Args:
        tokens: (B, None) strings.
        words: (B, None) strings, the sentences. One without a word has an empty text.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.text.bracket_repair import mended_trees
        >>> written = tf.strings.split(["(S (NP XX )VP (VP )VP XX"])
        >>> texts, repairs = mended_trees(written, tf.strings.split(["dogs bark loudly"]))
        >>> texts.numpy()[0].decode(), repairs.numpy()[0].tolist()
        ('(S (NP (XX dogs)) (XX bark) (XX loudly))', [0, 1, 0, 1, 0, 1, 1])
    """
    written = _Written(tokens)
    number = tf.cast(words.row_lengths(), tf.int32)  # (B,)
    read = _read(written, number)
    words = tf.pad(words.to_tensor(""), [[0, 0], [0, 1]])  # (B, W + 1): never without a column
    inner = tf.where(read.kept, written.shown(words, read.place), "")  # (B, T)
    closers = tf.where(tf.sequence_mask(read.left_open, tf.shape(inner)[1] + 1), ")", "")
    column = tf.range(tf.shape(words)[1])
    is_left = (column >= read.used[:, None]) & (column < number[:, None])
    rest = tf.where(is_left, f"({WORD} " + words + ")", "")  # (B, W + 1)
    ends = tf.fill([tf.shape(number)[0], 1], ")")
    root = tf.where(written.has_root, "(" + written.root, f"({OUTERMOST}")
    parts = tf.concat([root[:, None], inner, closers, rest, ends], axis=1)
    texts = tf.strings.reduce_join(
        tf.ragged.boolean_mask(parts, parts != ""), axis=1, separator=" "
    )
    texts = tf.strings.regex_replace(texts, r" \)", ")")
    is_sentence = number > 0
    return MendedTrees(
        tf.where(is_sentence, texts, ""), tf.where(is_sentence[:, None], read.repairs, 0)
    )


class _Written:
    """The tokens (B, T) by their kinds."""

    def __init__(self, tokens: tf.RaggedTensor):
        self.lengths = tf.cast(tokens.row_lengths(), tf.int32)  # (B,)
        # One column more than there are tokens: there is a first one in any case.
        self._tokens = tf.pad(tokens.to_tensor(""), [[0, 0], [0, 1]])
        opens = tf.strings.regex_full_match(self._tokens, r"\(.+")
        self.closes = tf.strings.regex_full_match(self._tokens, r"\).+")
        self.is_leaf = tf.sequence_mask(self.lengths, tf.shape(opens)[1]) & ~opens & ~self.closes
        self.labels = tf.strings.regex_replace(self._tokens, r"^[()]", "")
        self.has_root, self.root = opens[:, 0], self.labels[:, 0]
        self.opens = opens & (tf.range(tf.shape(opens)[1]) > 0)  # below the outermost one

    def shown(self, words: tf.Tensor, place: tf.Tensor) -> tf.Tensor:
        """The tokens as they stand in a tree: (B, T). A leaf has the word at its place (B, T)."""
        own = tf.gather(words, place, batch_dims=1)
        leaves = "(" + self.labels + " " + own + ")"
        closing = tf.where(self.closes, ")", self._tokens)
        return tf.where(self.is_leaf, leaves, closing)


class _Reading(NamedTuple):
    """What is known when the first `position` tokens have been read."""

    position: tf.Tensor  # ()
    used: tf.Tensor  # (B,) words
    depth: tf.Tensor  # (B,) open brackets below the outermost one
    opened: tf.Tensor  # (B, T) the token that opened each of them
    before: tf.Tensor  # (B, T) the words used before it
    kept: tf.Tensor  # (B, T) bool: tokens that stand in the tree
    place: tf.Tensor  # (B, T) the word of each leaf
    is_whole: tf.Tensor  # (B,) bool: the last token has closed the outermost bracket
    repairs: tf.Tensor  # (B, 7)

    @property
    def is_open(self):
        """Which places of the stack hold an open bracket: (B, T)."""
        return tf.sequence_mask(self.depth, tf.shape(self.kept)[1])

    @property
    def left_open(self):
        """The open brackets that hold a word: (B,)."""
        return _number(self.is_open & (self.before < self.used[:, None]))


def _read(written: _Written, number: tf.Tensor) -> _Reading:
    """Read all tokens of sentences of so many words (B,)."""
    shape = tf.shape(written.opens)
    row, square = tf.zeros([shape[0]], tf.int32), tf.zeros(shape, tf.int32)
    begin = _Reading(
        position=tf.constant(0),
        used=row,
        depth=row,
        opened=square,
        before=square,
        kept=square > 0,
        place=square,
        is_whole=row > 0,
        repairs=tf.zeros([shape[0], len(REPAIRS)], tf.int32),
    )
    longest = tf.reduce_max(tf.concat([written.lengths, [0]], axis=0))
    read = tf.while_loop(
        lambda *variables: _Reading(*variables).position < longest,
        lambda *variables: tuple(_step(_Reading(*variables), written, number)),
        tuple(begin),
        shape_invariants=tuple(tf.TensorShape([None] * value.shape.rank) for value in begin),
    )
    return _ended(_Reading(*read), written, number)


def _step(read: _Reading, written: _Written, number: tf.Tensor) -> _Reading:
    """Read the token at the position of every example."""
    at = read.position
    opens, closes, is_leaf = written.opens[:, at], written.closes[:, at], written.is_leaf[:, at]
    column = tf.range(tf.shape(read.kept)[1])
    here, top = column == at, column == read.depth[:, None] - 1  # (T,), (B, T)
    opened = tf.reduce_sum(tf.where(top, read.opened, 0), axis=1)  # (B,) by which token
    is_empty = _any(top & (read.before == read.used[:, None]))
    closes_inner = closes & (read.depth > 0)
    is_end = closes & (read.depth == 0) & written.has_root & (at == written.lengths - 1)
    fits = is_leaf & (read.used < number)
    label = tf.gather(written.labels, tf.where(closes_inner, opened, 0), batch_dims=1)
    keeps = opens | fits | (closes_inner & ~is_empty)
    was_empty = (closes_inner & is_empty)[:, None] & (column == opened[:, None])
    pushed = opens[:, None] & (column == read.depth[:, None])
    return read._replace(
        position=at + 1,
        used=read.used + _int(fits),
        depth=read.depth + _int(opens) - _int(closes_inner),
        opened=tf.where(pushed, at, read.opened),
        before=tf.where(pushed, read.used[:, None], read.before),
        kept=(read.kept & ~was_empty) | (here & keeps[:, None]),
        place=tf.where(here & fits[:, None], read.used[:, None], read.place),
        is_whole=read.is_whole | is_end,
        repairs=read.repairs
        + _counts(
            {
                1: (is_end | (closes_inner & ~is_empty)) & (written.labels[:, at] != label),
                2: closes & (read.depth == 0) & ~is_end,
                3: closes_inner & is_empty,
                4: is_leaf & ~fits,
            }
        ),
    )


def _ended(read: _Reading, written: _Written, number: tf.Tensor) -> _Reading:
    """Leave out the open brackets that hold nothing, and count what is missing."""
    is_empty = read.is_open & (read.before == read.used[:, None])  # (B, T)
    column = tf.range(tf.shape(read.kept)[1])
    dropped = tf.reduce_any(is_empty[:, :, None] & (read.opened[:, :, None] == column), axis=1)
    unclosed = read.left_open + _int(written.has_root & ~read.is_whole)
    counts = {0: ~written.has_root, 3: _number(is_empty), 5: number - read.used, 6: unclosed}
    return read._replace(kept=read.kept & ~dropped, repairs=read.repairs + _counts(counts))


def _counts(found: dict[int, tf.Tensor]) -> tf.Tensor:
    """Numbers or truths (B,) by the place of their repair: (B, 7)."""
    nothing = tf.zeros_like(_int(next(iter(found.values()))))
    return tf.stack([_int(found.get(place, nothing)) for place in range(len(REPAIRS))], axis=1)


def _int(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(values, tf.int32)


def _number(truths: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(_int(truths), axis=1)


def _any(truths: tf.Tensor) -> tf.Tensor:
    return tf.reduce_any(truths, axis=1)
