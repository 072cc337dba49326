"""The translation recipes by name: their corpora, their models and what a person may set."""

from keras_attn.errors import UserError
from keras_attn.recipes.file_corpus import FileCorpus
from keras_attn.recipes.multi30k_corpus import Multi30kCorpus, Multi30kPieceCorpus
from keras_attn.recipes.settings import FILES, MODELS, resolved
from keras_attn.recipes.translation import Translation
from keras_attn.recipes.translation_models import ARCHITECTURES
from keras_attn.recipes.translation_subwords import LearnedSubwords, PublishedPieces

MULTI30K_SAMPLES = (
    "A man in an orange hat starring at something.",
    "Two dogs are playing in the snow.",
    "A little girl climbing into a wooden playhouse.",
)
PIECE_SAMPLES = (
    "a man in an orange hat star@@ ring at something .",
    "two dogs are playing in the snow .",
    "a little girl climbing into a wooden play@@ house .",
)


def translation(
    model: str = "rnnsearch", vocabulary_size: int | None = None, **settings
) -> Translation:
    """The user's own aligned files; `model` names one of `ARCHITECTURES`.

    The other settings are the four files and those of the model.
    """
    corpus = FileCorpus(**{name: settings.pop(name, None) for name in FILES})
    options = _options(model, settings)
    settings = {**corpus.settings, "model": model, "vocabulary_size": vocabulary_size, **options}
    return Translation(
        "translation",
        corpus,
        LearnedSubwords(vocabulary_size),
        ARCHITECTURES[model],
        settings,
        options,
    )


def multi30k_rnnsearch(**settings) -> Translation:
    """RNNsearch from English to German on Multi30k's raw text."""
    return _multi30k("rnnsearch", **settings)


def multi30k_transformer(**settings) -> Translation:
    """The Transformer from English to German on Multi30k's raw text."""
    return _multi30k("transformer", **settings)


def multi30k_pieces(model: str = "transformer", **settings) -> Translation:
    """English to German on Multi30k in the pieces of Wu et al. 2021, for their published scores."""
    options = _options(model, {"max_tokens": 64, **settings})  # the longest sentence has 52
    return Translation(
        "multi30k-pieces",
        Multi30kPieceCorpus(),
        PublishedPieces(),
        ARCHITECTURES[model],
        {"model": model, **options},
        options,
        PIECE_SAMPLES,
    )


def _multi30k(model: str, vocabulary_size: int | None = None, **settings) -> Translation:
    options = _options(model, settings)
    return Translation(
        f"multi30k-{model}",
        Multi30kCorpus(),
        LearnedSubwords(vocabulary_size),
        ARCHITECTURES[model],
        {"vocabulary_size": vocabulary_size, **options},
        options,
        MULTI30K_SAMPLES,
    )


def _options(model: str, settings: dict) -> dict:
    """All options of a model, those that were given and the defaults of the others."""
    if model not in MODELS:
        raise UserError(f"There is no model {model!r}; there are {', '.join(MODELS)}.")
    return resolved(MODELS[model], settings, f"The model {model}")
