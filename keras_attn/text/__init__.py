"""Text to ids and back, inside the graph."""

from keras_attn.text.characters import CharacterTokenizer
from keras_attn.text.normalization import normalize
from keras_attn.text.pieces import PieceTokenizer
from keras_attn.text.special_tokens import END, PADDING, START, UNKNOWN
from keras_attn.text.subwords import SubwordTokenizer, first_merges, learn_subwords
from keras_attn.text.words import WordTokenizer, learn_words

__all__ = [
    "END",
    "PADDING",
    "START",
    "UNKNOWN",
    "CharacterTokenizer",
    "PieceTokenizer",
    "SubwordTokenizer",
    "WordTokenizer",
    "first_merges",
    "learn_subwords",
    "learn_words",
    "normalize",
]
