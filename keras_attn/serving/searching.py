"""The search that a person asks for, run."""

from keras_attn.decoding import arguments, beam_search, greedy_search, sample
from keras_attn.decoding.hypotheses import Hypotheses
from keras_attn.serving.answers import Search


def require_search(search: Search) -> None:
    """Raise `ValueError` unless a search makes sense."""
    width = arguments.static_integer_at_least(search.beam_width, 1, "beam_width")
    arguments.end_rule(search.end_rule)
    if search.n_best is not None:
        arguments.static_integer_at_least(search.n_best, 1, "n_best")
    if search.temperature is not None:
        if width > 1:
            raise ValueError(
                "Tokens are drawn, or a beam searches for them, not both: leave the temperature or "
                f"the width out. Received: beam_width={width}, temperature={search.temperature}"
            )
        return
    if (search.n_best or 1) > width:
        raise ValueError(
            f"n_best must not exceed beam_width={width}. Received: n_best={search.n_best}"
        )
    for name in ("length_penalty", "coverage_penalty"):
        value = arguments.number(getattr(search, name), name)
        if width == 1 and value != 0:
            raise ValueError(
                f"A {name.replace('_', ' ')} needs a beam, of a width of at least 2. "
                f"Received: {name}={value}, beam_width=1"
            )
    if width == 1 and search.end_rule == "running":
        raise ValueError(
            "Greedy search has one answer, which competes with no other: an end rule needs a beam, "
            f"of a width of at least 2. Received: end_rule={search.end_rule!r}, beam_width=1"
        )


def searched(search: Search, call: dict) -> Hypotheses:
    """The hypotheses of a search, best first.

    Args:
        search: which.
        call: the arguments that every search of `keras_attn.decoding` takes, by name.
    """
    if search.temperature is not None:
        names = ("temperature", "top_k", "top_p", "seed")
        options = {name: getattr(search, name) for name in names}
        return sample(**call, **options, n_best=search.n_best or 1)
    if search.beam_width == 1:
        return greedy_search(**call)
    return beam_search(
        **call,
        beam_width=search.beam_width,
        length_penalty=search.length_penalty,
        coverage_penalty=search.coverage_penalty,
        n_best=search.n_best or search.beam_width,
        end_rule=search.end_rule,
    )
