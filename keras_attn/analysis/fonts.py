"""Fonts for tokens of any script."""

import functools

# Families that cover Chinese, Japanese and Korean, of Linux, macOS and Windows.
_WIDE = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
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
)


@functools.cache
def token_families() -> tuple[str, ...]:
    """Matplotlib's own font, then those of this machine that have what it lacks.

    Matplotlib takes each character from the first family that has it. An SVG names the families
    and leaves the choice to whoever shows it.
    """
    from matplotlib import font_manager

    installed = {font.name for font in font_manager.fontManager.ttflist}
    return ("DejaVu Sans", *(family for family in _WIDE if family in installed))
