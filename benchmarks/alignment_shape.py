"""How diagonal the alignments of RNNsearch are, and where they leave the diagonal.

    KERAS_ATTN_DATA=... keras-attn train multi30k-rnnsearch --minutes 15 --run runs/en-de
    KERAS_ATTN_DATA=... keras-attn train multi30k-rnnsearch --languages fr en --minutes 15 \\
        --run runs/fr-en
    KERAS_ATTN_DATA=... python benchmarks/alignment_shape.py --runs runs/en-de runs/fr-en

For the answers of each run to test2016: the share of the attention within 2 tokens of the diagonal,
beside that of a uniform alignment; how many sentences change the order of two words; how often two
words become one, and which. From French to English, how often noun and adjective change places in
the sentences of test2016 and val with "chien noir" and "chemise blanche". Three sentences are drawn
that the measures find: two with another order and one in which two words become one. Writes
benchmarks/results/alignment_shape.json, and alignment_shape_SOURCE_TARGET.png beside it.
"""

import argparse
import os
import re
from collections import Counter
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from report import RESULTS, write_result

from keras_attn.analysis import (
    crossings,
    joined,
    mass_on,
    near_diagonal,
    of_words,
    plot_alignments,
    save_figure,
)
from keras_attn.data.multi30k import multi30k_files
from keras_attn.recipes.run import load
from keras_attn.training import RunDirectory

BATCH = 100
WITHIN = 2
PHRASES = {("fr", "en"): {"chien noir": "black dog", "chemise blanche": "white shirt"}}
MOST_WORDS = 14  # of a sentence that is drawn
LEAST_LETTERS = 4  # of words that become one: articles and prepositions are looked at in passing


def aligned(text_model, sentences: list[str]) -> list[tuple[list[str], list[str], np.ndarray]]:
    """The subwords of both sides and the alignment of each answer, in batches of like lengths."""
    rows = sorted(range(len(sentences)), key=lambda row: len(sentences[row]))
    found = {}
    for start in range(0, len(rows), BATCH):
        some = rows[start : start + BATCH]
        examples = text_model.alignments([sentences[row] for row in some])
        found.update(zip(some, examples, strict=True))
    return [found[row] for row in range(len(sentences))]


def shares(examples) -> dict[str, float]:
    """The mean share of attention near the diagonal, and what a uniform alignment has there."""
    near = [near_diagonal(alignment.shape, WITHIN) for _, _, alignment in examples]
    found = [mass_on(a, n) for (_, _, a), n in zip(examples, near, strict=True)]
    uniform = [float(np.mean(n)) for n in near]
    return {
        f"within {WITHIN} tokens": round(float(np.mean(found)), 4),
        "a uniform alignment": round(float(np.mean(uniform)), 4),
        "sentences with less than half": round(float(np.mean(np.array(found) < 0.5)), 4),
    }


def departures(words) -> dict:
    """Where the alignments of words change the order, and where two words become one."""
    backwards = [crossings(alignment) for _, _, alignment in words]
    neighbours = [[s - r == 1 for _, s, r in places] for places in backwards]
    pairs = Counter(
        f"{plain(source[s])} {plain(source[s + 1])} -> {plain(target[t])}"
        for source, target, alignment in words
        for t, s in joined_words(source, alignment)
    )
    return {
        "sentences with another order": sum(map(bool, backwards)),
        "sentences in which neighbours change places": sum(map(any, neighbours)),
        "times two words become one": pairs.total(),
        "most often": dict(pairs.most_common(10)),
    }


def phrase_places(source: list[str], phrase: str) -> list[int]:
    """Where two words of a sentence are those of the phrase."""
    words, pair = [plain(word) for word in source], phrase.split()
    return [place for place in range(len(words) - 1) if words[place : place + 2] == pair]


def exchanges(example, phrase: str, translation: str) -> bool:
    """Whether the words of the translated phrase look at those of the phrase in the other order."""
    source, target, alignment = example
    return any(
        alignment[t, s + 1] > alignment[t, s] and alignment[t + 1, s] > alignment[t + 1, s + 1]
        for s in phrase_places(source, phrase)
        for t in phrase_places(target, translation)
    )


def exchanged(words, phrase: str, translation: str) -> dict[str, int]:
    """How often a phrase of two words occurs, is translated so, and is read in the other order."""
    having = [example for example in words if phrase_places(example[0], phrase)]
    translated = [example for example in having if phrase_places(example[1], translation)]
    return {
        "sentences with it": len(having),
        f"answers with {translation!r}": len(translated),
        "of these read in the other order": sum(
            exchanges(example, phrase, translation) for example in translated
        ),
    }


def joined_words(source: list[str], alignment: np.ndarray) -> list[tuple[int, int]]:
    """Where two longer words of the source become one."""
    return [
        (t, s)
        for t, s in joined(alignment)
        if min(len(plain(word)) for word in source[s : s + 2]) >= LEAST_LETTERS
    ]


def shown(words, phrases) -> list:
    """Two sentences with another order, the phrases' first, and one in which two become one."""
    short = [example for example in words if len(example[0]) <= MOST_WORDS]
    with_phrase = [
        next((example for example in short if exchanges(example, *phrase)), None)
        for phrase in phrases.items()
    ]
    farthest = sorted(filter(step_back, short), key=step_back, reverse=True)
    reordered = [example for example in with_phrase if example is not None] + farthest
    return [*reordered[:2], max(short, key=surest_pair)]


def step_back(example) -> int:
    """By how many words the alignment steps back at most."""
    return max((s - r for _, s, r in crossings(example[2])), default=0)


def surest_pair(example) -> float:
    """The weight of the weaker one of two words that become one, the greatest of the sentence."""
    source, _, alignment = example
    places = joined_words(source, alignment)
    return max((min(alignment[t, s], alignment[t, s + 1]) for t, s in places), default=0)


def plain(words: str) -> str:
    """Words in small letters, without what stands around them."""
    return " ".join(re.sub(r"^\W+|\W+$", "", word) for word in words.lower().split())


def sentences_of(split: str, languages: tuple[str, str]) -> list[str]:
    return multi30k_files(split, *languages)[0].read_text().splitlines()


def measured(run: RunDirectory) -> tuple[tuple[str, str], dict, list]:
    """The languages of a run, its figures, and the sentences that are drawn."""
    recipe, text_model = load(run)
    languages = tuple(recipe.settings.get("languages", "en de").split())
    examples = aligned(text_model, sentences_of("test_2016_flickr", languages))
    words = [of_words(*example) for example in examples]
    phrases = PHRASES.get(languages, {})
    figures = {"sentences": len(examples), **shares(examples), **departures(words)}
    if phrases:
        validation = aligned(text_model, sentences_of("val", languages))
        both = [*words, *(of_words(*example) for example in validation)]
        figures["in test2016 and val"] = {
            phrase: exchanged(both, phrase, translation) for phrase, translation in phrases.items()
        }
    examples = shown(words, phrases)
    figures["drawn"] = {" ".join(source): " ".join(target) for source, target, _ in examples}
    return languages, figures, examples


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="of RNNsearch")
    parser.add_argument("--directory", type=Path, default=RESULTS, help="of the results")
    parser.add_argument("--note", default="", help="written beside the figures")
    options = parser.parse_args()
    figures = {}
    for path in options.runs:
        languages, found, examples = measured(RunDirectory(path))
        figures[" to ".join(languages)] = found
        print(" to ".join(languages), found, flush=True)
        name = f"alignment_shape_{'_'.join(languages)}.png"
        with (options.directory / name).open("wb") as file:
            save_figure(plot_alignments(examples), file, "png")
    write_result("alignment_shape", figures, options.note)


if __name__ == "__main__":
    main()
