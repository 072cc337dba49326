"""The ids that every vocabulary of the library begins with."""

PADDING = 0
START = 1
END = 2
UNKNOWN = 3
NUMBER_OF_SPECIAL_TOKENS = 4
