"""The translation recipes by name: their corpora and what a person may set."""

from keras_attn.recipes.file_corpus import FileCorpus
from keras_attn.recipes.multi30k_corpus import Multi30kCorpus
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
    **options,
) -> Translation:
    """RNNsearch on the user's own aligned files; the options are those of `Translation`."""
    corpus = FileCorpus(source, target, validation_source, validation_target)
    return Translation("translation", corpus, {**corpus.settings, **options})


def multi30k_rnnsearch(**options) -> Translation:
    """RNNsearch from English to German on Multi30k; the options are those of `Translation`."""
    return Translation("multi30k-rnnsearch", Multi30kCorpus(), options, MULTI30K_SAMPLES)
