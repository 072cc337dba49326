"""Dates as people write them, and what they mean: "Dienstag, 3. März 1998" -> "1998-03-03".

Dates from 1700-01-01 to 2099-12-31 are written in English, German, French and Spanish, with the
slips people make (`date_noise`). What a date leaves open is settled by one rule, the same in every
language, so that it can be learnt from the text alone:

- In a date of digits alone, `/` separates month/day/year, and `.` and `-` separate day.month.year
  and day-month-year. A year of four digits in front is followed by month and day, whatever
  separates them. "3/4/07" is the 4th of March, "3.4.07" and "3-4-07" are the 3rd of April.
- In a date with the name of its month, a year of two digits comes after the day.
- A year of two digits lies between 1950 and 2049: 00 to 49 are 20xx, 50 to 99 are 19xx.
- A weekday, where one is written, is that of the date.
"""

import functools
import string
import unicodedata
import zlib
from datetime import date
from random import Random

from keras_attn.data.date_forms import Language, read_languages
from keras_attn.data.date_noise import (
    Misspellings,
    add_noise,
    tabulate_misspellings,
    without_accents,
)

TARGET_CHARACTERS = "-0123456789"

NUMERIC_SHARE = 0.25  # of the dates, in digits alone

# Days are drawn from one of these spans of years, first to last; recent ones lie in all three.
SPANS = ((1700, 2099), (1900, 2099), (1950, 2049))
SPAN_WEIGHTS = (1, 1, 2)
TWO_DIGIT_YEARS = range(1950, 2050)

# Out of every hundred days, those of the split.
SPLITS = {"train": range(90), "validation": range(90, 95), "test": range(95, 100)}


def write_dates(count: int, seed: int, split: str) -> list[tuple[str, str]]:
    """Write `count` dates and their ISO 8601 form, the same for the same seed and Babel version.

    A day of the calendar belongs to one split, so that no date of "test" occurs in "train".

    Args:
        count: how many, 0 or more.
        seed: any integer.
        split: "train" (90 % of the days), "validation" or "test" (5 % each).

    Returns:
        Pairs of the text and its `YYYY-MM-DD`.

    Raises:
        ValueError: a negative count, an unknown split.
        UserError: Babel is not installed.

    Example:

    >>> texts_and_dates = write_dates(1000, seed=0, split="train")
    """
    if count < 0:
        raise ValueError(f"The number of dates must not be negative. Received: {count=}")
    if split not in SPLITS:
        raise ValueError(f"The split must be one of {', '.join(SPLITS)}. Received: {split=}")
    languages, misspellings, spans = read_languages(), _misspellings(), _days(split)
    random = Random(f"{split} {seed}")  # a string is hashed alike in every process
    samples = []
    for _ in range(count):
        day = date.fromordinal(random.choice(random.choices(spans, SPAN_WEIGHTS)[0]))
        text = _write(day, random.choice(languages), random)
        samples.append((add_noise(text, misspellings, random), day.isoformat()))
    return samples


def source_characters() -> str:
    """All characters of texts that were normalised by NFKC and lower-cased, sorted."""
    # A misspelling may bring in any letter of the alphabet.
    pieces = {string.digits, string.ascii_lowercase, " -", "1.º"}
    for language in read_languages():
        pieces.update(_spellings(language.names.months), _spellings(language.names.weekdays))
        pieces.update(form.pattern for forms in language.forms.values() for form in forms)
    return "".join(sorted(set(unicodedata.normalize("NFKC", "".join(pieces)).lower())))


def split_of(ordinal: int) -> str:
    """The split of a day, given its proleptic Gregorian ordinal."""
    part = zlib.crc32(b"%d" % ordinal) % 100
    return next(split for split, parts in SPLITS.items() if part in parts)


def _write(day: date, language: Language, random: Random) -> str:
    numeric = random.random() < NUMERIC_SHARE
    forms = language.forms[numeric, True]
    if day.year in TWO_DIGIT_YEARS:
        forms += language.forms[numeric, False]
    return random.choice(forms).write(day, language.names, random)


@functools.cache
def _days(split: str) -> tuple[tuple[int, ...], ...]:
    """The ordinals of the days of a split, by span."""
    return tuple(
        tuple(
            ordinal
            for ordinal in range(date(first, 1, 1).toordinal(), date(last, 12, 31).toordinal() + 1)
            if split_of(ordinal) == split
        )
        for first, last in SPANS
    )


@functools.cache
def _misspellings() -> Misspellings:
    """The wrong spellings of months and weekdays; months last, for theirs matter more."""
    months, weekdays = {}, {}
    for language in read_languages():
        months |= _spellings(language.names.months)
        weekdays |= _spellings(language.names.weekdays)
    return tabulate_misspellings(weekdays) | tabulate_misspellings(months)


def _spellings(names: dict[str, dict[int, tuple[str, ...]]]) -> dict[str, int]:
    """Every spelling in lower case, with and without accents, without its full stop -> number."""
    plain = {
        spelling.rstrip(".").lower(): number
        for width in names.values()
        for number, spellings in width.items()
        for spelling in spellings
    }
    return plain | {
        typed: number for name, number in plain.items() for typed in without_accents(name)
    }
