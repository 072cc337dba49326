"""The translation recipes by name: their corpora, their models and what a person may set."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from keras_attn.recipes.file_corpus import FileCorpus
from keras_attn.recipes.multi30k_corpus import Multi30kCorpus, Multi30kPieceCorpus
from keras_attn.recipes.settings import made
from keras_attn.recipes.translation import Corpus, Translation
from keras_attn.recipes.translation_models import ARCHITECTURES
from keras_attn.recipes.translation_settings import (
    PIECES_DEFAULTS,
    Files,
    Multi30kRNNSearchSettings,
    Multi30kTransformerSettings,
    PiecesSettings,
    TranslationSettings,
    of_model,
)
from keras_attn.recipes.translation_subwords import LearnedSubwords, PublishedPieces, Subwords

MULTI30K_SAMPLES = {
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
_CHOSEN_BY = (
    "the validation text, by which the best checkpoint was chosen, so that these scores flatter "
    "the model; give text that it never saw as --source and --target."
)
_TEST2016 = "the test set of 2016, which is neither in the training nor in the validation text."


def translation(**settings) -> Translation:
    """The user's own pairs; the settings are those of `TranslationSettings`."""
    given = asdict(made(TranslationSettings, settings, "The recipe translation"))
    files = {each.name: given.pop(each.name) for each in fields(Files)}
    corpus = FileCorpus(**files)
    subwords = LearnedSubwords(given["vocabulary_size"])
    own = {**corpus.settings, "vocabulary_size": given.pop("vocabulary_size")}
    return _recipe("translation", corpus, subwords, given, own, test_data=_CHOSEN_BY)


def multi30k_rnnsearch(**settings) -> Translation:
    """RNNsearch on Multi30k's raw text."""
    return _multi30k("rnnsearch", Multi30kRNNSearchSettings, settings)


def multi30k_transformer(**settings) -> Translation:
    """The Transformer on Multi30k's raw text."""
    return _multi30k("transformer", Multi30kTransformerSettings, settings)


def multi30k_pieces(**settings) -> Translation:
    """English to German on Multi30k in the pieces of Wu et al. 2021, for their published scores."""
    name = "multi30k-pieces"
    given = asdict(made(PiecesSettings, settings, f"The recipe {name}"))
    corpus, subwords = Multi30kPieceCorpus(), PublishedPieces()
    return _recipe(name, corpus, subwords, given, {}, PIECES_DEFAULTS, samples=PIECE_SAMPLES)


def _multi30k(model: str, kind: type, settings: dict) -> Translation:
    name = f"multi30k-{model}"
    given = asdict(made(kind, settings, f"The recipe {name}"))
    size, languages = given.pop("vocabulary_size"), given.pop("languages")
    source, target = languages.split()
    return Translation(
        name,
        Multi30kCorpus(source, target),
        LearnedSubwords(size),
        ARCHITECTURES[model].build,
        settings={"languages": languages, "vocabulary_size": size, **given},
        options=given,
        samples=MULTI30K_SAMPLES[source],
        test_data=_TEST2016,
    )


def _recipe(
    name: str,
    corpus: Corpus,
    subwords: Subwords,
    given: Mapping[str, Any],
    own: Mapping[str, Any],
    defaults: Mapping[str, Any] | None = None,
    samples: tuple[str, ...] = (),
    test_data: str = _TEST2016,
) -> Translation:
    """A recipe with the model that was given, its settings filled up with that model's own."""
    given = dict(given)
    model = given.pop("model")
    options = of_model(model, given, defaults or {})
    return Translation(
        name,
        corpus,
        subwords,
        ARCHITECTURES[model].build,
        settings={**own, "model": model, **options},
        options=options,
        samples=samples,
        test_data=test_data,
    )
