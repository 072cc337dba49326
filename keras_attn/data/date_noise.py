"""What goes wrong when people type a date, without making it another date.

Digits and the separators of an all-digit date are never touched, and no two numbers are joined.
"""

import re
import string
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from random import Random

# The probability of each kind for a text in which it is possible.
RATES = {"accents": 0.1, "misspelling": 0.1, "case": 0.2, "punctuation": 0.15, "spacing": 0.15}

SHORTEST_MISSPELT = 4  # "mai" and "mar" with a letter changed are any month

# A word -> its misspellings, grouped by what went wrong.
Misspellings = Mapping[str, tuple[tuple[str, ...], ...]]

_LETTER = r"[^\W\d_]"
_WORD = re.compile(_LETTER + "+")
_WORD_START = re.compile(rf"(?<!\w){_LETTER}")
# A comma before a space; a full stop after a letter, or after a day that a month's name follows.
_DROPPABLE = re.compile(rf",(?= )|(?<={_LETTER})\.(?=[ ,]|$)|(?<=\d)\.(?= {_LETTER})")
_WORDS_AND_SPACES = re.compile(r"[^\W_]+(?: [^\W_]+)+")
# Where a space can go and the parts still stand apart: after a mark, or between letter and digit.
_SPARE_SPACE = re.compile(rf"(?<=[,.]) |(?<={_LETTER}) (?=[\d’'])|(?<=\d) (?={_LETTER})")


def add_noise(text: str, misspellings: Misspellings, random: Random) -> str:
    """The text with each kind of noise at its rate of `RATES`."""
    for kind, rate in RATES.items():
        if random.random() < rate:
            text = _NOISES[kind](text, misspellings, random)
    return text


def without_accents(text: str) -> tuple[str, str]:
    """The text as keyboards without accents type it: "fevrier", and "Marz" or "Maerz"."""
    return text.translate(_PLAIN_LETTERS), text.replace("ä", "ae").translate(_PLAIN_LETTERS)


def tabulate_misspellings(names: Mapping[str, int]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """For each name (lower case) the words that one wrong letter makes of it.

    A letter is changed, dropped or doubled, or two are swapped. Left out is what lies within one
    such step (or one letter more) of a name with another number: "juni" is never spelt "juli".
    """
    letters = sorted({*string.ascii_lowercase, *"".join(names)})
    meanings = defaultdict(set)
    for name, number in names.items():
        for near in {name, *_inserted(name, letters), *_flatten(_steps(name, letters))}:
            meanings[near].add(number)
    table = {}
    for name in names:
        if len(name) >= SHORTEST_MISSPELT:
            clear = (
                tuple(word for word in kind if word not in names and len(meanings[word]) == 1)
                for kind in _steps(name, string.ascii_lowercase)
            )
            table[name] = tuple(kind for kind in clear if kind)
    return {name: kinds for name, kinds in table.items() if kinds}


def _steps(name: str, letters: Iterable[str]) -> tuple[list[str], ...]:
    """The words one wrong letter away: changed, dropped, doubled, swapped with the next."""
    places = range(len(name))
    changed = [name[:i] + c + name[i + 1 :] for i in places for c in letters if c != name[i]]
    dropped = [name[:i] + name[i + 1 :] for i in places]
    doubled = [name[: i + 1] + name[i:] for i in places]
    swapped = [name[:i] + name[i + 1] + name[i] + name[i + 2 :] for i in places[:-1]]
    return tuple([w for w in kind if w != name] for kind in (changed, dropped, doubled, swapped))


def _inserted(name: str, letters: Iterable[str]) -> list[str]:
    return [name[:i] + c + name[i:] for i in range(len(name) + 1) for c in letters]


def _flatten(kinds: Iterable[Iterable[str]]) -> list[str]:
    return [word for kind in kinds for word in kind]


def _plain_letters() -> dict[int, str]:
    latin = map(chr, range(0xC0, 0x180))
    return {ord(c): p for c in latin if (p := unicodedata.normalize("NFKD", c)[0]) != c}


_PLAIN_LETTERS = _plain_letters()


def _drop_accents(text: str, misspellings: Misspellings, random: Random) -> str:
    return random.choice(without_accents(text))


def _misspell(text: str, misspellings: Misspellings, random: Random) -> str:
    words = [word for word in _WORD.finditer(text) if word.group().lower() in misspellings]
    if not words:
        return text
    word = random.choice(words)
    wrong = random.choice(random.choice(misspellings[word.group().lower()]))
    if word.group()[0].isupper():
        wrong = wrong.capitalize()
    return text[: word.start()] + wrong + text[word.end() :]


def _change_case(text: str, misspellings: Misspellings, random: Random) -> str:
    change = random.choice((str.upper, str.lower, _capitalise_words))
    return change(text)


def _capitalise_words(text: str) -> str:
    """Like `str.title`, but "2nd" and "1er" stay."""
    return _WORD_START.sub(lambda start: start.group().upper(), text)


def _change_punctuation(text: str, misspellings: Misspellings, random: Random) -> str:
    """Drop the first or every mark that says nothing; where there is none, hyphens for spaces."""
    if _DROPPABLE.search(text):
        return _DROPPABLE.sub("", text, count=random.choice((0, 1)))
    if _WORDS_AND_SPACES.fullmatch(text) and not re.search(r"\d \d", text):
        return text.replace(" ", "-")
    return text


def _change_spacing(text: str, misspellings: Misspellings, random: Random) -> str:
    return random.choice((_double_space, _drop_space, _pad))(text, random)


def _double_space(text: str, random: Random) -> str:
    return _replace_one(re.compile(" "), "  ", text, random)


def _drop_space(text: str, random: Random) -> str:
    return _replace_one(_SPARE_SPACE, "", text, random)


def _pad(text: str, random: Random) -> str:
    return random.choice((" {}", "{} ", " {} ", "  {}")).format(text)


def _replace_one(pattern: re.Pattern, replacement: str, text: str, random: Random) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    place = random.choice(found)
    return text[: place.start()] + replacement + text[place.end() :]


_NOISES: dict[str, Callable[[str, Misspellings, Random], str]] = {
    "accents": _drop_accents,
    "misspelling": _misspell,
    "case": _change_case,
    "punctuation": _change_punctuation,
    "spacing": _change_spacing,
}
