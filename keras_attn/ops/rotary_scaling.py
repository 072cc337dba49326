"""Rotary frequencies for sequences beyond the training length, as models publish them."""

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_attn.ops.angles import geometric_frequencies

DEFAULT_BASE = 10000.0
_HINT = "; to turn a part of the features give `rotary_dim`"
# Hugging Face's names, in `rope_scaling` and `rope_parameters` of its configurations, and ours.
_OUR_NAMES = {"rope_type": "type", "original_max_position_embeddings": "original_length"}


class Scaling(NamedTuple):
    """A scaling that was checked.

    Attributes:
        kind: one of `_KINDS`.
        base: the base of the wavelengths.
        settings: the numbers of the kind, by our names, with defaults filled in.
        amplitude: the factor of cosine and sine.
    """

    kind: str
    base: float
    settings: dict[str, Any]
    amplitude: float


def read_scaling(scaling: dict | None, base: float = DEFAULT_BASE) -> Scaling:
    """Read a scaling in our names or Hugging Face's; entries that are None count as not given.

    Raises:
        ValueError: an unknown type, entries that are missing, unknown or out of range, two names
            of one thing with different values.
    """
    settings = _in_our_names(scaling)
    base = _base(base, settings.pop("rope_theta", None), scaling)
    geometric_frequencies(2, base)  # refuses a base that is none
    name = settings.pop("type", None)
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError(
            "`scaling` must be None or a dict whose 'type' (or 'rope_type') is one of "
            f"{tuple(_KINDS)}. Received: scaling={scaling!r}"
        )
    kind = _KINDS[name]
    _require_entries(name, kind, settings, scaling)
    settings = kind.defaults | {key: _exact(value) for key, value in settings.items()}
    if kind.rising is not None and settings[kind.rising[0]] > settings[kind.rising[1]]:
        low, high = kind.rising
        raise ValueError(f"'{high}' must not be below '{low}'. Received: scaling={scaling!r}")
    return Scaling(name, base, settings, kind.amplitude(settings))


def scaled_frequencies(dim: int, scaling: Scaling, positions):
    """Radians per position of each pair: (dim / 2,), or (..., 1, dim / 2) by length.

    Args:
        dim: number of features that turn.
        scaling: from `read_scaling`.
        positions: (..., T). Types that go by the length take it from each row.

    Returns:
        float64, a NumPy array where the length does not matter, else a tensor.
    """
    frequencies = _KINDS[scaling.kind].frequencies
    return frequencies(dim, scaling.base, scaling.settings, positions)


def _default(dim, base, settings, positions):
    return geometric_frequencies(dim, base)


def _linear(dim, base, settings, positions):
    return geometric_frequencies(dim, base) / settings["factor"]


def _ntk(dim, base, settings, positions):
    # Two features have one frequency, base^0: no base changes it.
    exponent = dim / (dim - 2) if dim > 2 else 0.0
    return geometric_frequencies(dim, base * settings["factor"] ** exponent)


def _dynamic(dim, base, settings, positions):
    """NTK scaling whose factor grows with the length, and is 1 up to `original_length`."""
    factor, original = settings["factor"], settings["original_length"]
    growth = factor * _length(positions, original) / original - (factor - 1.0)
    # (base growth^(dim / (dim - 2)))^(-2i / dim): up to `original_length` growth is 1, and the
    # frequencies are exactly those of a model that was never scaled.
    exponents = -np.arange(0, dim, 2, dtype="float64") / max(dim - 2, 1)
    return geometric_frequencies(dim, base) * growth**exponents


def _longrope(dim, base, settings, positions):
    original = settings["original_length"]
    short, long = (_divided(dim, base, settings, name) for name in ("short_factor", "long_factor"))
    return ops.where(_length(positions, original) > original, long, short)


def _divided(dim, base, settings, name):
    divisors = np.array(settings[name], "float64")
    if len(divisors) != dim // 2:
        raise ValueError(
            f"'{name}' must have one number for each of the {dim // 2} pairs of features. "
            f"Received: {name}={settings[name]!r}"
        )
    return geometric_frequencies(dim, base) / divisors


def _length(positions, least):
    """The length that each row of positions reaches, at least `least`: (..., 1, 1), float64."""
    positions = ops.cast(positions, "float64")
    return ops.max(positions, axis=-1, keepdims=True, initial=least - 1.0)[..., None] + 1.0


def _llama3(dim, base, settings, positions):
    frequencies = geometric_frequencies(dim, base)
    turns = settings["original_length"] * frequencies / (2 * math.pi)
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    kept = np.clip((turns - low) / max(high - low, 1e-9), 0, 1)
    return _blended(frequencies, kept, settings["factor"])


def _yarn(dim, base, settings, positions):
    kept = _yarn_kept(dim, base, settings)
    return _blended(geometric_frequencies(dim, base), kept, settings["factor"])


def _blended(frequencies, kept, factor):
    return frequencies * kept + frequencies / factor * (1 - kept)


def _yarn_kept(dim, base, settings):
    """How much of each frequency YaRN keeps: 1 for fast pairs, 0 for slow ones, a ramp between."""

    def pair_that_turns(times):
        positions_per_radian = settings["original_length"] / (times * 2 * math.pi)
        return dim * math.log(positions_per_radian) / (2 * math.log(base))

    first, last = pair_that_turns(settings["beta_fast"]), pair_that_turns(settings["beta_slow"])
    if settings["truncate"]:  # outwards to whole pairs, as the authors' code does
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dim - 1)
    ramp = (np.arange(dim // 2) - first) / (last - first if last > first else 0.001)
    return 1 - np.clip(ramp, 0, 1)


def _yarn_amplitude(settings):
    factor, scales = settings["factor"], (settings["mscale"], settings["mscale_all_dim"])

    def temperature(scale):
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    if settings["attention_factor"] is not None:
        return settings["attention_factor"]
    return temperature(1.0) if None in scales else temperature(scales[0]) / temperature(scales[1])


def _longrope_amplitude(settings):
    factor, given = settings["factor"], settings["attention_factor"]
    if given is None and factor is None:
        raise ValueError(
            "Scaling of type 'longrope' needs 'factor', the full length over the original one, or "
            f"'attention_factor'. Received: factor={factor}, attention_factor={given}"
        )
    if given is not None:
        return given
    return math.sqrt(1 + math.log(max(factor, 1)) / math.log(settings["original_length"]))


def _unchanged(settings):
    return 1.0


@dataclass(frozen=True)
class _Kind:
    frequencies: Callable
    needed: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    amplitude: Callable = _unchanged
    rising: tuple[str, str] | None = None


_KINDS = {
    "default": _Kind(_default),
    "linear": _Kind(_linear, ("factor",)),
    "ntk": _Kind(_ntk, ("factor",)),
    "dynamic": _Kind(_dynamic, ("factor", "original_length")),
    "yarn": _Kind(
        _yarn,
        ("factor", "original_length"),
        {
            "beta_fast": 32,
            "beta_slow": 1,
            "truncate": True,
            "attention_factor": None,
            "mscale": None,
            "mscale_all_dim": None,
        },
        _yarn_amplitude,
        ("beta_slow", "beta_fast"),
    ),
    "llama3": _Kind(
        _llama3,
        ("factor", "original_length", "low_freq_factor", "high_freq_factor"),
        rising=("low_freq_factor", "high_freq_factor"),
    ),
    "longrope": _Kind(
        _longrope,
        ("original_length", "short_factor", "long_factor"),
        {"factor": None, "attention_factor": None},
        _longrope_amplitude,
    ),
}


def _in_our_names(scaling):
    if scaling is None:
        return {"type": "default"}
    if not isinstance(scaling, dict):
        return {}
    named = {}
    for key, value in scaling.items():
        name = _OUR_NAMES.get(key, key)
        if value is not None and name in named and named[name] != value:
            raise ValueError(
                f"'{key}' contradicts the other name of '{name}': give one of the two. "
                f"Received: scaling={scaling!r}"
            )
        if value is not None:
            named[name] = value
    return named


def _base(base, theta, scaling):
    """The base of a layer, which a configuration of Hugging Face's may carry in its scaling."""
    if theta is None:
        return base
    if base not in (theta, DEFAULT_BASE):
        raise ValueError(
            "`base` and the 'rope_theta' of `scaling` contradict each other: give one of the two. "
            f"Received: base={base!r}, scaling={scaling!r}"
        )
    return theta


def _require_entries(name, kind, settings, scaling):
    missing = [key for key in kind.needed if key not in settings]
    if missing:
        both = " and ".join(_spelled(key) for key in missing)
        raise ValueError(f"Scaling of type '{name}' needs {both}. Received: scaling={scaling!r}")
    unknown = [key for key in settings if key not in {*kind.needed, *kind.defaults}]
    if unknown:
        raise ValueError(
            f"Scaling of type '{name}' has no {', '.join(map(_spelled, unknown))}, only "
            f"{[*kind.needed, *kind.defaults]}"
            f"{_HINT if 'partial_rotary_factor' in unknown else ''}. Received: scaling={scaling!r}"
        )
    for key, value in settings.items():
        holds, what = _RANGES.get(key, (_is_positive, "a positive number"))
        if not holds(value):
            raise ValueError(f"'{key}' must be {what}. Received: scaling={scaling!r}")


def _spelled(key: str) -> str:
    """An entry by our name, and by Hugging Face's where that is another."""
    others = [theirs for theirs, ours in _OUR_NAMES.items() if ours == key]
    return f"'{key}'" + "".join(f" (Hugging Face's '{other}')" for other in others)


def _is_number(value):
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_positive(value):
    return _is_number(value) and 0 < value < math.inf


def _exact(value):
    return float(value) if _is_number(value) else value


def _are_positive(values):
    return isinstance(values, list | tuple | np.ndarray) and all(map(_is_positive, values))


_RANGES = {
    "original_length": (
        lambda value: _is_positive(value) and value >= 2,
        "a length of at least 2 positions",
    ),
    "truncate": (lambda value: isinstance(value, bool), "True or False"),
    "short_factor": (_are_positive, "a list of positive numbers"),
    "long_factor": (_are_positive, "a list of positive numbers"),
}
