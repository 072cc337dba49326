"""Text as characters: a tokenizer that is a handful of graph operations, without tables."""

import tensorflow as tf

from keras_attn.text.normalization import normalize
from keras_attn.text.special_tokens import END, NUMBER_OF_SPECIAL_TOKENS, UNKNOWN


class CharacterTokenizer:
    """Maps text to the ids of its characters and back, inside a graph.

    Ids 0 to 3 are padding, start, end and unknown; the characters follow in the order of their code
    points. Text is normalised first (`keras_attn.text.normalize`).

    Args:
        characters: the characters that have an id; their order does not matter.

    Raises:
        ValueError: if there is no character or one occurs twice.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer("0123456789-")
        >>> tokenizer.tokenize(tf.constant(["2-1"])).to_list()
        [[7, 4, 6]]
    """

    def __init__(self, characters: str):
        if not characters or len(set(characters)) != len(characters):
            raise ValueError(
                "A character tokenizer needs at least one character and each only once. "
                f"Received: characters={characters!r}"
            )
        self.characters = "".join(sorted(characters))
        self.vocabulary_size = NUMBER_OF_SPECIAL_TOKENS + len(characters)

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The characters of the normalised texts: (B,) strings -> (B, None) strings."""
        return tf.strings.unicode_split(normalize(texts), "UTF-8")

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The ids of the characters, without start and end: (B,) strings -> (B, None) int32."""
        code_points = tf.strings.unicode_decode(normalize(texts), "UTF-8")
        return code_points.with_values(self._ids(code_points.values))

    def detokenize(self, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """The texts that the first `lengths` ids spell: (B, T), (B,) -> (B,) strings.

        Special tokens spell nothing.
        """
        real = tf.sequence_mask(lengths, tf.shape(ids)[1])
        return tf.strings.reduce_join(tf.where(real, self._spelling(ids), ""), axis=1)

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """What each id stands for, readable: (B, T) integers -> (B, T) strings."""
        return tf.where(ids == END, "</s>", self._spelling(ids))

    def get_config(self) -> dict:
        return {"characters": self.characters}

    def _ids(self, code_points: tf.Tensor) -> tf.Tensor:
        known = tf.constant([ord(character) for character in self.characters], tf.int32)
        rank = tf.minimum(tf.searchsorted(known, code_points), len(self.characters) - 1)
        found = tf.gather(known, rank) == code_points
        return tf.where(found, rank + NUMBER_OF_SPECIAL_TOKENS, UNKNOWN)

    def _spelling(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant([""] * NUMBER_OF_SPECIAL_TOKENS + list(self.characters)), ids)
