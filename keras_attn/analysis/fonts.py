"""Fonts for texts of any script, and what is shown where there is none."""

import functools
import unicodedata
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Families of Linux, macOS and Windows that have what matplotlib's own lacks: Chinese, Japanese and
# Korean first, then the scripts of South and South-East Asia, then emoji as outlines.
_FAMILIES = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Noto Sans JP",
    "Noto Sans KR",
    "Source Han Sans",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "IPAexGothic",
    "Hiragino Sans",
    "PingFang SC",
    "Arial Unicode MS",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Telugu",
    "Noto Sans Thai",
    "Noto Sans Khmer",
    "Noto Sans Ethiopic",
    "Nirmala UI",
    "Leelawadee UI",
    "FreeSans",
    "Unifont",
    "Noto Emoji",
    "Symbola",
    "Segoe UI Emoji",
)


@functools.cache
def token_families() -> tuple[str, ...]:
    """Matplotlib's own font, then those of this machine that have what it lacks.

    Matplotlib takes each character from the first family that has it. An SVG names the families
    and leaves the choice to whoever shows it.
    """
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(family for family in _FAMILIES if family in installed))


def without_glyph(texts: Iterable[str]) -> str:
    """The characters of the texts that no family of `token_families` has, in their order."""
    characters = sorted(set("".join(texts)))
    return "".join(each for each in characters if _is_visible(each) and not _has_glyph(each))


@contextmanager
def boxes_without_warning() -> Iterator[None]:
    """Within this, matplotlib draws a box for what no font has and does not warn of it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def inches(text: str, size: float = 10.0) -> float:
    """How wide a text is in a size of so many points."""
    return _inches_at_ten(text) * size / 10.0


@functools.lru_cache(maxsize=50_000)
def _inches_at_ten(text: str) -> float:
    from matplotlib.text import Text

    figure, renderer = _measuring()
    label = Text(0, 0, text, size=10, family=list(token_families()), parse_math=False)
    label.set_figure(figure)
    with boxes_without_warning():
        return label.get_window_extent(renderer).width / figure.dpi


@functools.cache
def _measuring():
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure()
    return figure, FigureCanvasAgg(figure).get_renderer()


def _is_visible(character: str) -> bool:
    return unicodedata.category(character)[0] not in "CZ"


def _has_glyph(character: str) -> bool:
    return any(ord(character) in glyphs for glyphs in _glyphs_of_families())


@functools.cache
def _glyphs_of_families() -> tuple[frozenset[int], ...]:
    from matplotlib import font_manager

    paths = [font_manager.findfont(family) for family in token_families()]
    return tuple(frozenset(font_manager.get_font(path).get_charmap()) for path in paths)
