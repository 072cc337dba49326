"""How people write a date in English, German, French and Spanish.

A form is a date pattern in the notation of Unicode's locale data (CLDR): `EEEE, d. MMMM y` writes
"Dienstag, 3. März 1998". Names and most patterns are CLDR's own, read through Babel; the others
here are what people write and CLDR does not have. One field means more than in CLDR: `ddd` is the
day as the language counts it aloud, "2nd", "1er", "1.º".
"""

import functools
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from random import Random

from keras_attn.errors import UserError

LOCALES = ("en_US", "en_GB", "de", "de_AT", "fr", "fr_CA", "es", "es_MX")

# All-digit dates are written in every locale, for their order follows from the separator alone.
NUMERIC_PATTERNS = (
    *("M/d/y", "MM/dd/y", "M/d/yy", "MM/dd/yy", "E M/d/y", "E, MM/dd/yy", "EEEE, M/d/yy"),
    *("d.M.y", "dd.MM.y", "d.M.yy", "dd.MM.yy", "E, dd.MM.y", "E d.M.yy", "EEEE, d.M.y"),
    *("d-M-y", "dd-MM-y", "d-M-yy", "dd-MM-yy", "E dd-MM-y", "EEEE, d-M-yy"),
    *("y/M/d", "y/MM/dd", "y-MM-dd", "y-M-d", "y.MM.dd", "y.M.d", "E y-MM-dd", "EEEE, y/MM/dd"),
)

# What a language has beside CLDR's own patterns.
WORDED_PATTERNS = {
    "en": (
        *("d MMMM y", "d MMMM, y", "d MMM y", "d MMM yy", "d MMM ''yy", "E d MMM yy"),
        *("EEEE d MMMM y", "EEEE, d MMMM y", "dd MMM y", "dd-MMM-y", "dd-MMM-yy"),
        *("ddd MMMM y", "ddd 'of' MMMM y", "'the' ddd 'of' MMMM, y", "'the' ddd 'of' MMMM y"),
        *("EEEE ddd MMMM y", "EEEE, 'the' ddd 'of' MMMM y", "ddd MMM yy", "ddd 'of' MMMM ’yy"),
        *("MMMM d, y", "MMM d, y", "MMM d y", "MMMM d, yy", "MMM d, ''yy", "E MMM d, y"),
        *("MMMM ddd, y", "MMMM ddd y", "EEEE, MMMM ddd, y", "MMM ddd, yy", "MMMM 'the' ddd, y"),
        *("y MMMM d", "y MMM dd", "y-MMM-dd"),
    ),
    "de": (
        *("d. MMMM y", "d. MMMM yy", "d. MMM yy", "d. MMMM ’yy", "dd. MMMM y", "dd. MMM y"),
        *("EEEE, 'den' d. MMMM y", "EEEE, d. MMMM yy", "E, d. MMM yy", "E d. MMM y"),
        *("'den' d. MMMM y", "'am' d. MMMM y", "'am' EEEE, 'dem' d. MMMM y", "dd-MMM-y"),
        *("d. M. y", "d. M. yy", "E, d. M. y"),
    ),
    "fr": (
        *("ddd MMMM y", "'le' ddd MMMM y", "EEEE ddd MMMM y", "'le' EEEE ddd MMMM y"),
        *("ddd MMM y", "ddd MMM yy", "E ddd MMM y", "E ddd MMM yy", "'le' ddd MMMM yy"),
        *("dd MMMM y", "'le' dd MMM y", "EEEE 'le' ddd MMMM y", "ddd MMMM ’yy", "dd-MMM-y"),
    ),
    "es": (
        *("ddd 'de' MMMM 'de' y", "'el' ddd 'de' MMMM 'de' y", "ddd 'de' MMMM 'del' y"),
        *("EEEE ddd 'de' MMMM 'de' y", "EEEE, ddd 'de' MMMM 'del' y", "'el' d 'de' MMMM 'del' yy"),
        *("d 'de' MMMM, y", "d 'de' MMM 'de' y", "d 'de' MMMM ''yy", "'a' d 'de' MMMM 'de' y"),
        *("d MMMM y", "d MMM yy", "E d MMM y", "E, d 'de' MMM 'de' y", "dd-MMM-y", "dd-MMM-yy"),
        *("MMMM d 'de' y", "MMM d, y"),
    ),
}

# Abbreviations in use that CLDR lacks, by month or by weekday (Monday is 0).
MONTH_ABBREVIATIONS = {
    "en": {9: ("Sep", "Sept", "Sept.")},
    "de": {3: ("Mrz", "Mrz."), 6: ("Jun.",), 7: ("Jul.",), 9: ("Sept.", "Sep.")},
    "fr": {1: ("jan.",), 2: ("fév.",), 7: ("juil.", "juill.")},
    "es": {9: ("sept.", "sep.")},
}
WEEKDAY_ABBREVIATIONS = {"en": {1: ("Tues", "Tues."), 3: ("Thur", "Thurs", "Thurs.")}}

# Languages whose people put a full stop behind an abbreviation where CLDR has none.
STOPPED_LANGUAGES = ("en", "es")

CLDR_SKELETONS = ("yMd", "yMEd", "yyMMMd", "yMMMd", "yMMMEd", "yMMMMd", "yMMMMEd")

Field = Callable[[date, "Names", Random], str]


@dataclass(frozen=True)
class Names:
    """The words of a locale: for every month (from 1) and weekday (Monday is 0) its spellings."""

    language: str
    months: dict[str, dict[int, tuple[str, ...]]]  # width, month -> spellings
    weekdays: dict[str, dict[int, tuple[str, ...]]]  # width, weekday -> spellings


@dataclass(frozen=True)
class Form:
    """A compiled pattern: its fields and literals in the order in which they are written."""

    pattern: str
    fields: tuple[Field, ...]

    def write(self, day: date, names: Names, random: Random) -> str:
        text = "".join([field(day, names, random) for field in self.fields])
        return text.replace(".-", "-")  # "13-Nov-1981" has no room for the stop of "Nov."


@dataclass(frozen=True)
class Language:
    """A locale's words and forms, the latter by (all digits, the century is written)."""

    names: Names
    forms: dict[tuple[bool, bool], tuple[Form, ...]]


@functools.cache
def read_languages() -> tuple[Language, ...]:
    """The words and forms of every locale of `LOCALES`; `UserError` without Babel."""
    try:
        from babel import Locale
    except ImportError as error:
        raise UserError(
            "The dates are written from Babel's locale data, and Babel is not installed: run "
            '`pip install "keras-attn[demo]"`.'
        ) from error
    return tuple(_language(Locale.parse(name)) for name in LOCALES)


def is_numeric(pattern: str) -> bool:
    """Whether the month of a pattern is a number."""
    return "MMM" not in pattern


def keeps_the_rule(pattern: str) -> bool:
    """Whether the separator of an all-digit pattern tells the order of its fields (see `dates`)."""
    order = re.search(r"([dMy])\1*([./-]) ?([dMy])\3*\2 ?([dMy])\4*$", pattern)
    if order is None:
        return False
    first, separator, second, third = order.groups()
    if first == "y":
        return (second, third) == ("M", "d") and "yy" not in pattern
    return first + second + third == ("Mdy" if separator == "/" else "dMy")


def compile_pattern(pattern: str) -> Form:
    """Read a pattern once, so that writing it is a join; `ValueError` for an unknown field."""
    pieces = [m.group() for m in re.finditer(r"''|'[^']+'|([A-Za-z])\1*|[^A-Za-z']+", pattern)]
    return Form(pattern, tuple(_compile_piece(piece, pattern) for piece in pieces))


def _compile_piece(piece: str, pattern: str) -> Field:
    if not piece[0].isalpha():
        literal = "'" if piece == "''" else piece.strip("'")
        return lambda day, names, random: literal
    if piece not in _FIELDS:
        raise ValueError(f"A date pattern has an unknown field {piece}. Received: {pattern=}")
    return _FIELDS[piece]


def _counted_day(day: date, names: Names, random: Random) -> str:
    """The day as it is counted aloud: English has an ordinal for each, French and Spanish for 1."""
    number = day.day
    if names.language == "en":
        teen = 11 <= number <= 13
        return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
    if names.language == "fr" and number == 1:
        return "1er"
    if names.language == "es" and number == 1:
        return random.choice(("1", "1", "1º", "1.º", "1ro"))
    return str(number)


_FIELDS: dict[str, Field] = {
    "EEEE": lambda day, names, random: random.choice(names.weekdays["wide"][day.weekday()]),
    "EEE": lambda day, names, random: random.choice(names.weekdays["abbreviated"][day.weekday()]),
    "E": lambda day, names, random: random.choice(names.weekdays["abbreviated"][day.weekday()]),
    "MMMM": lambda day, names, random: random.choice(names.months["wide"][day.month]),
    "MMM": lambda day, names, random: random.choice(names.months["abbreviated"][day.month]),
    "MM": lambda day, names, random: f"{day.month:02d}",
    "M": lambda day, names, random: str(day.month),
    "ddd": _counted_day,
    "dd": lambda day, names, random: f"{day.day:02d}",
    "d": lambda day, names, random: str(day.day),
    "yy": lambda day, names, random: f"{day.year % 100:02d}",
    "y": lambda day, names, random: str(day.year),
}


def _language(locale) -> Language:
    names = Names(
        language=locale.language,
        months=_spellings(locale.months, MONTH_ABBREVIATIONS, locale.language),
        weekdays=_spellings(locale.days, WEEKDAY_ABBREVIATIONS, locale.language),
    )
    patterns = [
        pattern
        for pattern in (*_cldr_patterns(locale), *WORDED_PATTERNS[locale.language])
        if not is_numeric(pattern) or keeps_the_rule(pattern)
    ]
    forms: dict[tuple[bool, bool], list[Form]] = {}
    for pattern in dict.fromkeys((*patterns, *NUMERIC_PATTERNS)):
        key = is_numeric(pattern), "yy" not in pattern
        forms.setdefault(key, []).append(compile_pattern(pattern))
    return Language(names, {key: tuple(found) for key, found in forms.items()})


def _cldr_patterns(locale) -> list[str]:
    skeletons = locale.datetime_skeletons
    found = [*locale.date_formats.values(), *(skeletons.get(name) for name in CLDR_SKELETONS)]
    # NFKC turns CLDR's no-break and narrow spaces into the space that a keyboard has.
    return [unicodedata.normalize("NFKC", each.pattern) for each in found if each is not None]


def _spellings(
    cldr, more: dict[str, dict[int, tuple[str, ...]]], language: str
) -> dict[str, dict[int, tuple[str, ...]]]:
    """Width, index -> the spellings in use, CLDR's own first."""
    wide = {index: (name,) for index, name in cldr["format"]["wide"].items()}
    abbreviated = {}
    for index, short in cldr["format"]["abbreviated"].items():
        found = [short, short.rstrip("."), cldr["stand-alone"]["abbreviated"][index]]
        if language in STOPPED_LANGUAGES and short not in wide[index]:
            found.append(short.rstrip(".") + ".")
        found += more.get(language, {}).get(index, ())
        abbreviated[index] = tuple(dict.fromkeys(found))
    return {"wide": wide, "abbreviated": abbreviated}
