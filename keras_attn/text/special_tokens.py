"""The ids that every vocabulary begins with; losses and models read them without this package."""

from keras_attn.special_tokens import END, NUMBER_OF_SPECIAL_TOKENS, PADDING, START, UNKNOWN

__all__ = ["END", "NUMBER_OF_SPECIAL_TOKENS", "PADDING", "START", "UNKNOWN"]
