"""Captions over their images: where a model looked while it wrote each word."""

from collections.abc import Sequence

import numpy as np

from keras_attn.analysis.heat_maps import shown

_SIDE = 1.15  # inches: the height of an image
_ACROSS = 9  # images in a row of the picture; a longer caption goes on in the next
_TITLE = 0.3  # inches above each image


def plot_captions(captions: Sequence[tuple]):
    """Draw images, and beside each what was said of it, a map of the attention over it a word.

    A map is laid over the image as light on a darkened picture, so that it can be seen on black
    too. Maps are enlarged smoothly, for a place of the grid has seen more than its own rectangle.

    Args:
        captions: `(image, words, maps)` each, such as `serving.CaptionModel.captions` gives: image
            (height, width, channels) in [0, 1], with 1 or 3 channels; T words; maps (T, h, w).

    Returns:
        A `matplotlib.figure.Figure`; write it with `keras_attn.analysis.save_figure`.

    Raises:
        ValueError: nothing to draw, or a caption whose parts do not go together.

    Example:
        >>> import numpy as np
        >>> from keras_attn.analysis import plot_captions
        >>> image, maps = np.zeros((8, 8, 1)), np.full((2, 4, 4), 1 / 16)
        >>> figure = plot_captions([(image, ["three", "</s>"], maps)])
        >>> [axes.get_title() for axes in figure.axes]
        ['', 'three', '</s>']

    Reference:
        Xu et al. 2015, "Show, Attend and Tell", figures 2 and 3, https://arxiv.org/abs/1502.03044
    """
    from matplotlib.figure import Figure

    captions = [_require_fit(*caption) for caption in captions]
    if not captions:
        raise ValueError("There is no caption to draw. Received: captions=[]")
    rows = [row for caption in captions for row in _rows(*caption)]
    widest = max(len(row) for row in rows)
    ratio = max(image.shape[1] / image.shape[0] for image, _, _ in captions)
    figure = Figure(figsize=(widest * _SIDE * ratio, len(rows) * (_SIDE + _TITLE)))
    grid = figure.subplots(len(rows), widest, squeeze=False)
    for line, row in zip(grid, rows, strict=True):
        for axes, (title, picture) in zip(line, row, strict=False):
            axes.imshow(picture, vmin=0.0, vmax=1.0, cmap="gray")
            axes.set_title(title, fontsize=8, parse_math=False)
            axes.set_axis_off()
        for axes in line[len(row) :]:
            axes.remove()
    return figure


def lit(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """An image in the light of attention: (H, W, C), (h, w) -> (H, W, C)."""
    light = _enlarged(np.asarray(weights, float), image.shape[:2])
    largest = light.max()
    light = light / largest if largest > 0 else light
    dark, bright = 0.25 * image, 0.35 + 0.65 * image
    return dark + (bright - dark) * light[..., None]


def _enlarged(weights: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Bilinear, the middle of a cell keeping its weight: (h, w) -> (H, W)."""
    for axis, size in enumerate(shape):
        cells = weights.shape[axis]
        places = (np.arange(size) + 0.5) * cells / size - 0.5
        places = np.clip(places, 0, cells - 1)
        lower = np.minimum(places.astype(int), max(cells - 2, 0))
        share = np.expand_dims(places - lower, 1 - axis)
        upper = np.minimum(lower + 1, cells - 1)
        weights = (1 - share) * weights.take(lower, axis) + share * weights.take(upper, axis)
    return weights


def _rows(image, words, maps) -> list[list[tuple]]:
    """Titles and pictures of a caption, in rows: the image itself, then one a word."""
    every = [("", image)] + [
        (shown(word), lit(image, weights)) for word, weights in zip(words, maps, strict=True)
    ]
    return [every[start : start + _ACROSS] for start in range(0, len(every), _ACROSS)]


def _require_fit(image, words, maps) -> tuple:
    image, maps = np.asarray(image, float), np.asarray(maps, float)
    if image.ndim != 3 or image.shape[-1] not in (1, 3):
        raise ValueError(
            "An image that can be drawn has a height, a width and 1 or 3 channels. "
            f"Received: image.shape={image.shape}"
        )
    if maps.ndim != 3 or len(maps) != len(words):
        raise ValueError(
            "A caption has a map, (h, w), for each of its words. "
            f"Received: {len(words)} words, maps.shape={maps.shape}"
        )
    return image, words, maps
