"""The translation recipes by name: their corpora, their models and what a person may set."""

from keras_attn.errors import UserError
from keras_attn.recipes.file_corpus import FileCorpus
from keras_attn.recipes.multi30k_corpus import Multi30kCorpus, Multi30kPieceCorpus
from keras_attn.recipes.translation import Corpus, Translation
from keras_attn.recipes.translation_models import ARCHITECTURES, SCHEDULES
from keras_attn.recipes.translation_subwords import LearnedSubwords, PublishedPieces, Subwords

VOCABULARY_SIZE = 8_000
SAMPLES = {
    "en": (
        "A man in an orange hat starring at something.",
        "Two dogs are playing in the snow.",
        "A little girl climbing into a wooden playhouse.",
    ),
    "de": (
        "Ein Mann mit einem orangefarbenen Hut starrt auf etwas.",
        "Zwei Hunde spielen im Schnee.",
        "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    ),
    "fr": (
        "Un homme avec un chapeau orange regarde quelque chose.",
        "Un chien noir et un chien blanc jouent dans la neige.",
        "Une petite fille grimpe dans une maisonnette en bois.",
    ),
}
PIECE_SAMPLES = (
    "a man in an orange hat star@@ ring at something .",
    "two dogs are playing in the snow .",
    "a little girl climbing into a wooden play@@ house .",
)


def translation(
    source: str | None = None,
    target: str | None = None,
    validation_source: str | None = None,
    validation_target: str | None = None,
    **settings,
) -> Translation:
    """The user's own aligned files; `model` names one of `ARCHITECTURES`, by default rnnsearch.

    The other settings are `vocabulary_size` and the options of the model.
    """
    corpus = FileCorpus(source, target, validation_source, validation_target)
    model, subwords, options = _parts(settings)
    settings = {**corpus.settings, **settings}
    return _recipe("translation", corpus, subwords, model, settings, options)


def multi30k_rnnsearch(**settings) -> Translation:
    """RNNsearch on Multi30k's raw text, from English to German unless `languages` names others."""
    return _multi30k("rnnsearch", settings)


def multi30k_transformer(**settings) -> Translation:
    """The Transformer on Multi30k's raw text; see `multi30k_rnnsearch`."""
    return _multi30k("transformer", settings)


def multi30k_pieces(model: str = "transformer", **options) -> Translation:
    """English to German on Multi30k in the pieces of Wu et al. 2021, for their published scores."""
    name, settings = "multi30k-pieces", {"model": model, **options}
    options = {"max_tokens": 64, **options}  # the longest sentence has 52
    corpus, subwords = Multi30kPieceCorpus(), PublishedPieces()
    return _recipe(name, corpus, subwords, model, settings, options, PIECE_SAMPLES)


def _multi30k(model: str, settings: dict) -> Translation:
    _, subwords, options = _parts(settings)
    source, target = options.pop("languages", ("en", "de"))
    corpus, samples = Multi30kCorpus(source, target), SAMPLES[source]
    return _recipe(f"multi30k-{model}", corpus, subwords, model, settings, options, samples)


def _parts(settings: dict) -> tuple[str, Subwords, dict]:
    """The model, the subwords and the model's options."""
    options = dict(settings)
    model = options.pop("model", "rnnsearch")
    return model, LearnedSubwords(options.pop("vocabulary_size", VOCABULARY_SIZE)), options


def _recipe(
    name: str,
    corpus: Corpus,
    subwords: Subwords,
    model: str,
    settings: dict,
    options: dict,
    samples: tuple[str, ...] = (),
) -> Translation:
    if model not in ARCHITECTURES:
        raise UserError(f"There is no model {model!r}; there are {', '.join(ARCHITECTURES)}.")
    architecture = ARCHITECTURES[model]
    for option in options:
        if option not in architecture.defaults:
            raise UserError(f"The model {model} takes no --{option.replace('_', '-')}.")
    if (schedule := options.get("schedule", "linear")) not in SCHEDULES:
        raise UserError(f"There is no schedule {schedule!r}; there are {', '.join(SCHEDULES)}.")
    return Translation(name, corpus, subwords, architecture, settings, options, samples)
