"""Figures as files."""

from keras_attn.analysis.fonts import boxes_without_warning, without_glyph

DPI = 160
MOST_PIXELS = 12_000
"""Of a side of a .png; a larger figure is written with fewer pixels an inch."""

_NOTE = (
    "In boxes: characters that no font of this machine has "
    "(Debian: apt install fonts-noto-cjk). An .svg is shown in the fonts of its reader."
)


def save_figure(figure, file, file_format: str) -> None:
    """Write a figure, cropped to what is on it, as "png" or "svg".

    The text of an SVG stays text, to be searched and shown in the reader's fonts. In a PNG a
    character that no font of this machine has is a box, and a line below the picture says so.

    Args:
        figure: a `matplotlib.figure.Figure`.
        file: a path or a binary file.
        file_format: "png" or "svg".

    Raises:
        ValueError: if the format is another one.

    Example:
        >>> import io
        >>> from keras_attn.analysis import plot_curves, save_figure
        >>> file = io.BytesIO()
        >>> save_figure(plot_curves({"mine": [{"step": 1, "loss": 2.0}]}), file, "png")
        >>> file.getvalue()[1:4]
        b'PNG'
    """
    import matplotlib

    if file_format not in ("png", "svg"):
        raise ValueError(f"A figure is a png or an svg. Received: file_format={file_format!r}")
    dpi = min(DPI, MOST_PIXELS / max(figure.get_size_inches()))
    note = _note(figure) if file_format == "png" else None
    try:
        with matplotlib.rc_context({"svg.fonttype": "none"}), boxes_without_warning():
            figure.savefig(file, format=file_format, dpi=dpi, bbox_inches="tight", pad_inches=0.12)
    finally:
        if note is not None:
            note.remove()


def _note(figure):
    """A line below the figure about the characters without a glyph, or None if there are none."""
    from matplotlib.text import Text

    if not without_glyph(text.get_text() for text in figure.findobj(Text)):
        return None
    return figure.text(0.0, -0.02, _NOTE, va="top", fontsize=7, color="dimgray", wrap=True)
