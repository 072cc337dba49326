"""The translation recipes by name: their corpora and what a person may set."""

from keras_attn.data.multi30k import Multi30k
from keras_attn.recipes.file_corpus import FileCorpus
from keras_attn.recipes.translation import Translation

MULTI30K_SAMPLES = (
    "A man in an orange hat starring at something.",
    "Two dogs are playing in the snow.",
    "A little girl climbing into a wooden playhouse.",
)


def translation(
    source: str | None = None,
    target: str | None = None,
    validation_source: str | None = None,
    validation_target: str | None = None,
    vocabulary_size: int | None = None,
    seed: int | None = None,
) -> Translation:
    """RNNsearch on the user's own aligned files."""
    corpus = FileCorpus(source, target, validation_source, validation_target)
    settings = {**corpus.settings, **_given(vocabulary_size=vocabulary_size, seed=seed)}
    return Translation("translation", corpus, settings)


def multi30k_rnnsearch(vocabulary_size: int | None = None, seed: int | None = None) -> Translation:
    """RNNsearch from English to German on Multi30k's raw text."""
    settings = _given(vocabulary_size=vocabulary_size, seed=seed)
    return Translation("multi30k-rnnsearch", Multi30k(), settings, MULTI30K_SAMPLES)


def _given(**settings) -> dict:
    return {name: value for name, value in settings.items() if value is not None}
