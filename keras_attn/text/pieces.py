"""Text that somebody else has cut into pieces: a vocabulary and the way back to words."""

from collections.abc import Iterable

import tensorflow as tf

from keras_attn.text.special_tokens import END, NUMBER_OF_SPECIAL_TOKENS, PADDING, START, UNKNOWN

_SPECIAL_PIECES = {PADDING: "", START: "", END: "", UNKNOWN: "<unk>"}


class PieceTokenizer(tf.Module):
    """Maps pieces between spaces to ids, inside a graph, and ids to the words that they spell.

    A piece that ends in `@@` belongs to the same word as the next, as subword-nmt writes it. Ids 0
    to 3 are padding, start, end and unknown; the pieces follow in their order.

    Args:
        pieces: that have an id.

    Raises:
        ValueError: if there is no piece or one occurs twice.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.text import PieceTokenizer
        >>> tokenizer = PieceTokenizer(["a", "pul@@", "ley"])
        >>> ids = tokenizer.tokenize(tf.constant(["a pul@@ ley"]))
        >>> ids.to_list(), tokenizer.detokenize(ids.to_tensor(), tf.constant([3])).numpy().tolist()
        ([[4, 5, 6]], [b'a pulley'])

    Reference:
        Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
    """

    def __init__(self, pieces: Iterable[str]):
        super().__init__()
        pieces = list(pieces)
        if not pieces or len(set(pieces)) != len(pieces):
            raise ValueError(
                "A piece tokenizer needs at least one piece and each only once. "
                f"Received: {len(pieces)} pieces, {len(set(pieces))} different ones"
            )
        special = [_SPECIAL_PIECES[number] for number in range(NUMBER_OF_SPECIAL_TOKENS)]
        self.vocabulary_size = len(special) + len(pieces)
        self._pieces = tf.constant([*special, *pieces])
        ids = tf.range(len(special), self.vocabulary_size)
        self._ids = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.constant(pieces), ids), UNKNOWN
        )

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The pieces of the texts: (B,) strings -> (B, None) strings."""
        return tf.strings.split(texts)

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The ids of the pieces, without start and end: (B,) strings -> (B, None) int32."""
        pieces = self.split(texts)
        return pieces.with_values(self._ids.lookup(pieces.values))

    def detokenize(self, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """The words that the first `lengths` ids spell: (B, T), (B,) -> (B,) strings.

        Special tokens spell nothing, but for the unknown one.
        """
        real = tf.sequence_mask(lengths, tf.shape(ids)[1]) & (ids >= UNKNOWN)
        pieces = tf.ragged.boolean_mask(tf.gather(self._pieces, ids), real)
        return joined(tf.strings.reduce_join(pieces, axis=1, separator=" "))

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """What each id stands for, readable: (B, T) integers -> (B, T) strings."""
        return tf.where(ids == END, "</s>", tf.gather(self._pieces, ids))


def joined(texts: tf.Tensor) -> tf.Tensor:
    """Texts in pieces as words: (B,) strings -> (B,) strings."""
    return tf.strings.regex_replace(texts, r"@@( |$)", "")
