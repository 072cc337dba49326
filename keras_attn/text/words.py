"""Words as tokens, rare ones as the class that their shape and their ending put them in."""

from collections import Counter
from collections.abc import Iterable, Sequence

import tensorflow as tf

from keras_attn.text.special_tokens import END, NUMBER_OF_SPECIAL_TOKENS, UNKNOWN

_LONGEST_ENDING = 3
_BRACKETS = {"(": "-LRB-", ")": "-RRB-"}  # as treebanks write them


class WordTokenizer(tf.Module):
    """Maps the words between spaces to ids, inside a graph.

    A word without an id counts as its lower-case form if that has one. Otherwise it counts as its
    most special class that has an id: its shape with its last three letters, two, one, or its shape
    alone (`class_candidates`). Round brackets become words of their own, `-LRB-` and `-RRB-`, as
    treebanks write them. Ids 0 to 3 are padding, start, end and unknown; the words follow, then the
    classes, each in their order.

    Args:
        words: that have an id.
        classes: of rare words that have an id.

    Raises:
        ValueError: if there is no word, or a word or a class occurs twice.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.text import WordTokenizer
        >>> tokenizer = WordTokenizer(["the", "dog", "barks"], ["a", "a~ing", "Aa"])
        >>> tokenizer.tokenize(tf.constant(["The dog barks", "meowing Tom"])).to_list()
        [[4, 5, 6], [8, 9]]

    Reference:
        Petrov et al. 2006, "Learning Accurate, Compact, and Interpretable Tree Annotation", whose
        parser knows rare words by such classes.
    """

    def __init__(self, words: Iterable[str], classes: Iterable[str]):
        super().__init__()
        self.words, self.classes = tuple(words), tuple(classes)
        if not self.words or any(len(set(x)) < len(x) for x in (self.words, self.classes)):
            raise ValueError(
                "A word tokenizer needs at least one word, and each word and class only once. "
                f"Received: {len(self.words)} words and {len(self.classes)} classes"
            )
        first = NUMBER_OF_SPECIAL_TOKENS + len(self.words)
        self.vocabulary_size = first + len(self.classes)
        self._spelling = tf.constant(
            [""] * UNKNOWN + ["<unk>", *self.words, *(f"<{name}>" for name in self.classes)]
        )
        self._words = _table(self.words, NUMBER_OF_SPECIAL_TOKENS)
        self._classes = _table(self.classes, first) if self.classes else None

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The words of the texts: (B,) strings -> (B, None) strings.

        Bytes that are not UTF-8 become U+FFFD, white space and control characters end a word.
        """
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        texts = tf.strings.regex_replace(texts, r"[\s\pZ\p{Cc}]+", " ")
        for bracket, name in _BRACKETS.items():
            texts = tf.strings.regex_replace(texts, rf"\{bracket}", f" {name} ")
        return tf.strings.split(texts)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The ids of the words, without start and end: (B,) strings -> (B, None) int32."""
        words = self.split(texts)
        return words.with_values(self._ids(words.values))

    def detokenize(self, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """The first `lengths` words, a class in angle brackets: (B, T), (B,) -> (B,) strings."""
        real = tf.sequence_mask(lengths, tf.shape(ids)[1]) & (ids >= UNKNOWN)
        words = tf.ragged.boolean_mask(tf.gather(self._spelling, ids), real)
        return tf.strings.reduce_join(words, axis=1, separator=" ")

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """What each id stands for, readable: (B, T) integers -> (B, T) strings."""
        return tf.where(ids == END, "</s>", tf.gather(self._spelling, ids))

    def _ids(self, words: tf.Tensor) -> tf.Tensor:
        found = self._words.lookup(words)
        lower = self._words.lookup(tf.strings.lower(words, "utf-8"))
        found = tf.where(found == UNKNOWN, lower, found)
        if self._classes is not None:
            for name in tf.unstack(class_candidates(words), axis=1):
                found = tf.where(found == UNKNOWN, self._classes.lookup(name), found)
        return found


def class_candidates(words: tf.Tensor) -> tf.Tensor:
    """The classes of words, the most special one first: (N,) strings -> (N, 4) strings.

    A shape is `0` for a word with a digit, `AA` for one in capitals, `Aa` for one that begins with
    one, `a` for others, and ends in `-` if there is a hyphen. The ending is in lower case.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.text.words import class_candidates
        >>> class_candidates(tf.constant(["Re-opening", "1989"])).numpy().tolist()
        [[b'Aa-~ing', b'Aa-~ng', b'Aa-~g', b'Aa-'], [b'0~989', b'0~89', b'0~9', b'0']]
    """
    full = tf.strings.regex_full_match
    shape = tf.where(full(words, r"\p{Lu}.*"), "Aa", "a")
    shape = tf.where(full(words, r"\P{Ll}*\p{Lu}\P{Ll}*"), "AA", shape)
    shape = tf.where(full(words, r".*\d.*"), "0", shape)
    shape += tf.where(full(words, r".*-.*"), "-", "")
    lower = tf.strings.lower(words, "utf-8")
    endings = [
        _ending(lower, tf.minimum(tf.strings.length(lower, unit="UTF8_CHAR"), longest))
        for longest in range(_LONGEST_ENDING, 0, -1)
    ]
    return tf.stack([*(shape + "~" + ending for ending in endings), shape], axis=1)


def learn_words(
    sentences: Iterable[Sequence[str]], min_count: int, min_class_count: int
) -> tuple[list[str], list[str]]:
    """The words and the classes of rare words that are worth an id: arguments of `WordTokenizer`.

    Args:
        sentences: words of each.
        min_count: how often a word must occur.
        min_class_count: how often the rare words of a class must occur, together; the shapes
            without an ending are kept however rare they are.

    Returns:
        Words and classes, the most frequent first, then in the order of their letters.

    Example:
        >>> from keras_attn.text import learn_words
        >>> words, classes = learn_words([["the", "dog"], ["the", "cat"]], 2, min_class_count=9)
        >>> words
        ['the']
    """
    counts = Counter(word for words in sentences for word in words)
    frequent = {word: count for word, count in counts.items() if count >= min_count}
    rare = [word for word in counts if word not in frequent and word.lower() not in frequent]
    found = Counter()
    names = class_candidates(tf.constant(rare, tf.string)).numpy() if rare else []
    for word, candidates in zip(rare, names, strict=True):
        for name in set(candidates.tolist()):
            found[name.decode()] += counts[word]
    kept = {
        name: count for name, count in found.items() if count >= min_class_count or "~" not in name
    }
    return _by_frequency(frequent), _by_frequency(kept)


def _by_frequency(counts: dict[str, int]) -> list[str]:
    return sorted(counts, key=lambda word: (-counts[word], word))


def _table(names: Sequence[str], first: int) -> tf.lookup.StaticHashTable:
    ids = tf.range(first, first + len(names))
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant(names), ids), UNKNOWN
    )


def _ending(words: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    return tf.strings.substr(words, -lengths, lengths, unit="UTF8_CHAR")
