"""The dates task: what is written is the date that it is said to be, and the rule is kept."""

import collections
import hashlib
import os
import re
import subprocess
import sys
import unicodedata
from datetime import date
from pathlib import Path
from random import Random

import babel.dates
import pytest

import keras_attn
from keras_attn.data import date_forms, date_noise, dates
from keras_attn.errors import UserError

MONTHS = {
    "en": "january february march april may june july august september october november december",
    "de": "januar februar märz april mai juni juli august september oktober november dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre "
    "diciembre",
}
WEEKDAYS = {
    "en": "monday tuesday wednesday thursday friday saturday sunday",
    "de": "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
}
MONTH_OF = {name: i for names in MONTHS.values() for i, name in enumerate(names.split(), start=1)}
WEEKDAY_OF = {name: i for names in WEEKDAYS.values() for i, name in enumerate(names.split())}


@pytest.fixture(scope="module")
def samples():
    return dates.write_dates(20_000, seed=3, split="train")


@pytest.fixture
def clean(monkeypatch):
    """Texts without noise, and the rates as they are afterwards."""
    with monkeypatch.context() as patch:
        patch.setattr(date_noise, "RATES", {})
        return [text for text, _ in dates.write_dates(6000, seed=4, split="train")]


def words(text):
    return re.findall(r"[^\W\d_]+", text.lower())


def numeric_core(text):
    """(first, separator, second, third) of a date in digits alone, else None."""
    found = re.fullmatch(r"[^\W\d_]*[., -]*(\d+)([./-]) *(\d+)\2 *(\d+)", text.strip())
    return found and (found[1], found[2], found[3], found[4])


def full_year(digits):
    if len(digits) == 4:
        return int(digits)
    assert len(digits) == 2
    return int(digits) + (2000 if int(digits) < 50 else 1900)


def parse_numeric(first, separator, second, third):
    if len(first) == 4:
        return date(int(first), int(second), int(third))
    month, day = (first, second) if separator == "/" else (second, first)
    return date(full_year(third), int(month), int(day))


def distance(a, b):
    """Letters changed, dropped, added or swapped with the next (optimal string alignment)."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, start=1):
        rows.append([i])
        for j, y in enumerate(b, start=1):
            best = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                best = min(best, rows[i - 2][j - 2] + 1)
            rows[i].append(best)
    return rows[-1][-1]


def test_same_seed_same_dates_other_seed_or_split_others():
    first = dates.write_dates(200, seed=1, split="train")
    assert first == dates.write_dates(200, seed=1, split="train")
    assert first[:50] == dates.write_dates(50, seed=1, split="train")
    assert first != dates.write_dates(200, seed=2, split="train")
    assert dates.write_dates(0, seed=1, split="test") == []


def test_dates_do_not_depend_on_the_hash_seed_of_the_process():
    script = (
        "from keras_attn.data import dates\n"
        "import hashlib\n"
        "text = repr(dates.write_dates(2000, 5, 'test')) + dates.source_characters()\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    here = repr(dates.write_dates(2000, 5, "test")) + dates.source_characters()
    root = str(Path(keras_attn.__file__).parents[1])
    for hash_seed in ("1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": root}
        found = subprocess.check_output([sys.executable, "-c", script], env=environment, text=True)
        assert found.strip() == hashlib.sha256(here.encode()).hexdigest()


def test_no_day_is_in_two_splits_and_each_has_its_share():
    days = {
        split: {iso for _, iso in dates.write_dates(8000, seed=6, split=split)}
        for split in ("train", "validation", "test")
    }
    assert not days["train"] & days["test"]
    assert not days["train"] & days["validation"]
    assert not days["validation"] & days["test"]
    ordinals = range(date(1700, 1, 1).toordinal(), date(2100, 1, 1).toordinal())
    shares = collections.Counter(map(dates.split_of, ordinals))
    assert shares["train"] / len(ordinals) == pytest.approx(0.90, abs=0.005)
    assert shares["validation"] / len(ordinals) == pytest.approx(0.05, abs=0.005)
    assert shares["test"] / len(ordinals) == pytest.approx(0.05, abs=0.005)


def test_dates_lie_in_range_and_recent_ones_are_more_frequent(samples):
    years = [date.fromisoformat(iso).year for _, iso in samples]
    assert min(years) < 1710
    assert min(years) >= 1700
    assert max(years) > 2090
    assert max(years) <= 2099
    recent = sum(1950 <= year < 2050 for year in years) / len(years)
    assert 0.6 < recent < 0.8
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", iso) for _, iso in samples)
    assert {c for _, iso in samples for c in iso} == set(dates.TARGET_CHARACTERS)


def test_all_digit_dates_are_read_back_by_the_rule(samples):
    seen = collections.Counter()
    for text, iso in samples:
        if core := numeric_core(text):
            assert parse_numeric(*core).isoformat() == iso, text
            seen[core[1], len(core[0]) == 4, len(core[3])] += 1
    assert set(seen) == {(s, False, n) for s in "/.-" for n in (2, 4)} | {
        (s, True, n) for s in "/.-" for n in (1, 2)
    }
    assert 0.2 < sum(seen.values()) / len(samples) < 0.3


def test_numbers_of_worded_dates_are_the_day_and_the_year(samples):
    for text, iso in samples:
        if numeric_core(text):
            continue
        day = date.fromisoformat(iso)
        first, second = re.findall(r"\d+", text)
        if len(first) == 4:  # the year in front
            first, second = second, first
        assert len(first) <= 2, text
        assert int(first) == day.day, text
        assert full_year(second) == day.year, text


def test_month_names_mean_their_month_and_all_are_used(samples):
    used = set()
    for text, iso in samples:
        for name in set(words(text)) & set(MONTH_OF):
            assert MONTH_OF[name] == date.fromisoformat(iso).month, text
            used.add(name)
    assert used == set(MONTH_OF)


def test_each_language_is_a_quarter_of_the_worded_dates(samples):
    counts = collections.Counter()
    own = {
        language: {*WEEKDAYS[language].split(), *MONTHS[language].split()}
        - {w for other in MONTHS if other != language for w in MONTHS[other].split()}
        for language in MONTHS
    }
    for text, _ in samples:
        counts.update(language for language in own if own[language] & set(words(text)))
    assert min(counts[language] for language in own) > 1000


def test_weekdays_are_right_even_when_misspelt(samples):
    used = set()
    for text, iso in samples:
        for name in set(words(text)) & set(WEEKDAY_OF):
            assert WEEKDAY_OF[name] == date.fromisoformat(iso).weekday(), text
            used.add(name)
    assert used == set(WEEKDAY_OF)


def test_source_characters_cover_every_text(samples):
    characters = dates.source_characters()
    assert list(characters) == sorted(set(characters))
    found = {c for text, _ in samples for c in unicodedata.normalize("NFKC", text).lower()}
    assert found == set(characters)


@pytest.mark.parametrize("locale", date_forms.LOCALES)
def test_full_and_long_forms_are_those_of_babel(locale):
    names = next(
        language.names
        for name, language in zip(date_forms.LOCALES, date_forms.read_languages(), strict=True)
        if name == locale
    )
    for width in ("full", "long"):
        pattern = babel.Locale.parse(locale).date_formats[width].pattern
        form = date_forms.compile_pattern(pattern)
        for day in (date(1998, 3, 3), date(2024, 1, 31), date(1811, 12, 1)):
            expected = babel.dates.format_date(day, width, locale=locale)
            assert form.write(day, names, Random(0)) == expected


@pytest.mark.parametrize(
    ("locale", "pattern", "day", "text"),
    [
        ("en_GB", "'the' ddd 'of' MMMM, y", date(1811, 5, 2), "the 2nd of May, 1811"),
        ("en_US", "MMMM ddd, y", date(2024, 11, 11), "November 11th, 2024"),
        ("en_US", "MMMM ddd ''yy", date(2007, 6, 21), "June 21st '07"),
        ("en_GB", "ddd MMMM yy", date(1986, 7, 23), "23rd July 86"),
        ("en_GB", "E d MMM yy", date(1986, 7, 5), "Sat 5 Jul 86"),
        ("de", "EEEE, d. MMMM yy", date(1998, 3, 3), "Dienstag, 3. März 98"),
        ("de_AT", "d. MMMM y", date(1998, 1, 3), "3. Jänner 1998"),
        ("fr", "ddd MMMM y", date(2001, 1, 1), "1er janvier 2001"),
        ("fr", "'le' ddd MMMM y", date(1789, 7, 14), "le 14 juillet 1789"),
        ("fr", "dd-MMM-y", date(1981, 11, 13), "13-nov-1981"),
        ("es", "d 'de' MMMM 'de' y", date(2024, 5, 2), "2 de mayo de 2024"),
        ("es", "ddd 'de' MMMM 'del' y", date(2021, 5, 21), "21 de mayo del 2021"),
    ],
)
def test_forms_that_cldr_lacks_are_written_as_people_write_them(locale, pattern, day, text):
    languages = dict(zip(date_forms.LOCALES, date_forms.read_languages(), strict=True))
    form = date_forms.compile_pattern(pattern)
    # An abbreviation has several spellings; the one meant here is among them.
    written = {form.write(day, languages[locale].names, Random(seed)) for seed in range(60)}
    assert text in written


def test_abbreviations_between_hyphens_have_no_full_stop(clean):
    assert any(re.search(r"-nov-", text) for text in clean)
    assert not [text for text in clean if ".-" in text]


def test_patterns_against_the_rule_are_refused():
    kept = ("M/d/yy", "E, MM/dd/y", "dd.MM.y", "d. M. yy", "d-M-y", "y-MM-dd", "y/M/d", "y.MM.dd")
    refused = ("d/M/yy", "dd/MM/y", "M.d.y", "M-d-yy", "yy-MM-dd", "yy/M/d", "y-dd-MM")
    assert all(map(date_forms.keeps_the_rule, kept))
    assert not any(map(date_forms.keeps_the_rule, refused))


def test_only_first_of_the_month_is_counted_in_french_and_spanish(clean):
    for text in clean:
        for number in re.findall(r"(\d+)(?:er|\.?º|ro)\b", text):
            assert number == "1", text
    assert any("1er " in text for text in clean)
    assert any("1º " in text for text in clean)


@pytest.mark.parametrize("kind", date_noise.RATES)
def test_noise_comes_at_its_rate_and_leaves_digits_alone(kind, clean, monkeypatch):
    rate = date_noise.RATES[kind]
    possible = {
        "accents": lambda text: re.search("[éûäáÀ-Ü]", text),
        "misspelling": lambda text: set(words(text)) & (set(MONTH_OF) - {"may", "mai"}),
        "case": lambda text: words(text),
        "punctuation": lambda text: ", " in text,
        "spacing": lambda text: " " in text,
    }[kind]
    texts = [text for text in clean if possible(text)]
    monkeypatch.setattr(date_noise, "RATES", {kind: rate})
    table, random = dates._misspellings(), Random(8)
    noisy = [date_noise.add_noise(text, table, random) for text in texts]
    changed = sum(a != b for a, b in zip(texts, noisy, strict=True)) / len(texts)
    assert 0.6 * rate < changed < 1.3 * rate
    for before, after in zip(texts, noisy, strict=True):
        assert re.findall(r"\d+", before) == re.findall(r"\d+", after), (before, after)
        assert numeric_core(before) == numeric_core(after)


def test_about_four_texts_in_ten_are_noisy(clean):
    table, random = dates._misspellings(), Random(9)
    changed = sum(date_noise.add_noise(text, table, random) != text for text in clean)
    assert 0.3 < changed / len(clean) < 0.5


def test_misspelt_month_is_nearer_to_its_own_month_than_to_any_other():
    months = {}
    for language in date_forms.read_languages():
        months |= dates._spellings(language.names.months)
    table = date_noise.tabulate_misspellings(months)
    assert set(MONTH_OF) - {"may", "mai"} <= set(table)
    pairs = [(name, wrong) for name, kinds in table.items() for kind in kinds for wrong in kind]
    # All of the short names, where months lie close together, and some of the others.
    close = [pair for pair in pairs if len(pair[0]) == 4]
    for name, wrong in Random(10).sample(close, 500) + Random(11).sample(pairs, 150):
        own = min(distance(wrong, other) for other in months if months[other] == months[name])
        others = min(distance(wrong, other) for other in months if months[other] != months[name])
        assert own == 1
        assert others > own, (name, wrong)


def test_misspelling_is_one_letter_of_one_word_that_is_not_short():
    table, random = dates._misspellings(), Random(12)
    for text in ("Sat 5 Jul 1986", "3 may 07", "le 14 mai 1789"):
        assert all(date_noise._misspell(text, table, random) == text for _ in range(50))
    before = "Dienstag, 3. März 1998"
    for _ in range(200):
        after = date_noise._misspell(before, table, random)
        changes = [distance(a, b) for a, b in zip(words(before), words(after), strict=True)]
        assert sorted(changes) == [0, 1]
        assert after.istitle() == before.istitle()


@pytest.mark.parametrize(
    "text", ["May 3, 07", "Mar 3 1998", "3. 3. 1998", "Sat 3/4/07", "le 14 mai 89"]
)
def test_spacing_and_punctuation_never_join_two_numbers(text):
    random = Random(13)
    for _ in range(300):
        noisy = date_noise._change_punctuation(text, {}, random)
        noisy = date_noise._change_spacing(noisy, {}, random)
        assert re.findall(r"\d+", noisy) == re.findall(r"\d+", text)
        assert re.search(r"\d['’-]\d", noisy) is None


def test_missing_babel_is_said_with_the_command_that_mends_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(UserError, match=r'pip install "keras-attn\[demo\]"'):
        date_forms.read_languages.__wrapped__()


def test_bad_arguments_are_refused_with_what_was_received():
    with pytest.raises(ValueError, match=r"train, validation, test\. Received: split='dev'"):
        dates.write_dates(1, seed=0, split="dev")
    with pytest.raises(ValueError, match="Received: count=-1"):
        dates.write_dates(-1, seed=0, split="test")
    with pytest.raises(ValueError, match="unknown field Q"):
        date_forms.compile_pattern("Q y")
