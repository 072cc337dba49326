"""Pictures as files, and the texts on them."""

import io
import warnings

import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_attn.analysis import plot_alignments, save_figure
from keras_attn.analysis.fonts import inches, without_glyph
from keras_attn.analysis.heat_maps import shown, stand_upright

HIEROGLYPH = "\U00013000"  # which no font has that a machine is likely to have
SCRIPTS = [
    *("你好", "مرحبا", "שלום", "हिन्दी", "😀", HIEROGLYPH),
    *("$x$ and $y$", "R" * 60, "a\nb", "</s>"),
]


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("▁the", "the"),
        ("the▁end", "the end"),
        ("▁", "␣"),
        (" ", "␣"),
        ("", ""),
        ("star@@", "star@@"),
        ("a\tb\n", "a\\tb\\n"),
        ("\x00", "U+0000"),
        ("\ue000", "U+E000"),
        ("x" * 48, "x" * 48),
        ("x" * 30 + "y" * 30, "x" * 24 + "…" + "y" * 23),
    ],
)
def test_a_token_is_shown_as_what_can_be_read(token, label):
    assert shown(token) == label


def test_tokens_that_would_overlap_stand_upright():
    assert not stand_upright(["a", "W", "</s>"], cell=0.27)
    assert stand_upright(["a", "words"], cell=0.27)
    assert stand_upright(["你好"], cell=0.2)


def test_a_text_is_as_wide_as_its_letters():
    assert inches("ii") < inches("mm") < inches("mmm")
    assert inches("mm", 5.0) == inches("mm") / 2


def test_characters_that_no_font_has_are_found():
    assert without_glyph(["a▁é", f"{HIEROGLYPH}مرحبا"]) == HIEROGLYPH
    assert without_glyph(["a\n\ue000"]) == ""  # which are spelled in ASCII


@pytest.fixture(scope="module")
def written():
    """A picture of all scripts as PNG and SVG, in which no warning was given."""
    figure = plot_alignments([(SCRIPTS, SCRIPTS[::-1], np.eye(len(SCRIPTS)))])
    files = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for file_format in ("png", "svg"):
            file = io.BytesIO()
            save_figure(figure, file, file_format)
            files[file_format] = file.getvalue()
    return figure, files


def test_any_script_is_drawn_without_a_warning(written):
    _, files = written
    assert files["png"].startswith(b"\x89PNG")
    svg = files["svg"].decode()
    for text in ("你好", "مرحبا", "😀", HIEROGLYPH, "$x$ and $y$"):
        assert f">{text}</text>" in svg


def test_a_png_says_what_its_boxes_are_and_leaves_the_figure_as_it_was(written):
    figure, files = written
    assert "In boxes" not in files["svg"].decode()
    assert not figure.texts
    assert _said_below(f"a {HIEROGLYPH}").startswith("In boxes")
    assert _said_below("a") is None


def _said_below(title):
    """The line that a PNG of a figure with a title gets."""

    class Watched(Figure):
        def savefig(self, *args, **kwargs):
            said.extend(text.get_text() for text in self.texts)

    said = []
    figure = Watched()
    figure.add_subplot().set_title(title)
    save_figure(figure, io.BytesIO(), "png")
    return said[0] if said else None


def test_a_huge_figure_is_written_with_fewer_pixels():
    for inches_wide, dpi in ((10, 160), (120, 100)):
        assert _dpi_of(Figure(figsize=(inches_wide, 1))) == dpi


def _dpi_of(figure):
    given = {}
    figure.savefig = lambda file, **kwargs: given.update(kwargs)
    save_figure(figure, io.BytesIO(), "png")
    return given["dpi"]


def test_another_format_is_refused():
    with pytest.raises(ValueError, match="Received: file_format='pdf'"):
        save_figure(Figure(), io.BytesIO(), "pdf")
