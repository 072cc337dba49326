"""Options that several commands have."""

import math
from collections.abc import Callable
from pathlib import Path

import click

from keras_attn.errors import UserError
from keras_attn.paths import RemotePath, path_of
from keras_attn.serving.answers import Search

PATH = click.Path(path_type=Path)


class _Place(click.ParamType):
    """A path of this machine, or one with a scheme, such as gs://bucket/run."""

    name = "path"

    def convert(self, value, parameter, context) -> Path | RemotePath:
        return path_of(value)


PLACE = _Place()
run_option = click.option("--run", "run_path", type=PLACE, required=True, help="The run directory.")
recipe_option = click.option("--recipe", help="Insist that the run is of this recipe.")

_SEARCH = (
    click.option(
        "--beam-width",
        "--beam",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Hypotheses kept at every step; 1 is greedy search.",
    ),
    click.option(
        "--length-penalty",
        type=float,
        default=0.0,
        show_default=True,
        help="Of the beam; above 0 it favours longer answers.",
    ),
    click.option(
        "--coverage-penalty",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=True,
        help="Of the beam; above 0 it favours answers that looked at the whole text.",
    ),
    click.option(
        "--end-rule",
        type=click.Choice(["finished", "running"]),
        default="finished",
        show_default=True,
        help="Of the beam: whether answers that were cut give way to finished ones, or compete.",
    ),
    click.option(
        "--temperature",
        type=click.FloatRange(min=0, min_open=True),
        help="Draw the tokens instead of searching; 1 is the model's own distribution.",
    ),
    click.option(
        "--top-k", type=click.IntRange(min=1), help="Draw from so many of the likeliest tokens."
    ),
    click.option(
        "--top-p",
        type=click.FloatRange(min=0, min_open=True, max=1),
        help="Draw from the likeliest tokens that have this share of the probability.",
    ),
    click.option("--seed", type=int, default=1, show_default=True, help="Of what is drawn."),
    click.option(
        "--well-formed",
        is_flag=True,
        help="Allow only what makes an answer a tree; for models that write trees.",
    ),
)
_PAIRS = (
    click.option("--source", type=PLACE, help="Texts to answer, one a line."),
    click.option("--target", type=PLACE, help="What is right, line by line."),
    click.option("--tsv", type=PLACE, help="Both in one file, between tabs."),
    click.option("--csv", type=PLACE, help="Both in one file of comma-separated values."),
    click.option("--jsonl", type=PLACE, help="Both in one file, a JSON object a line."),
    click.option(
        "--columns",
        help="Source and target in a file with columns: numbers from 1, or names, which the first "
        "line of a TSV or CSV file then has.  [default: 1,2 of TSV, source,target of CSV and "
        "JSONL]",
    ),
)


def _with(options: tuple[Callable, ...]) -> Callable:
    def decorate(command):
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


search_options = _with(_SEARCH)
"""The options of the search by which a model answers; `search_of` reads them."""

pair_options = _with(_PAIRS)
"""Where pairs of a text and its right answer stand, as `data.pair_files.pair_files` takes them."""


def search_of(
    beam_width: int,
    length_penalty: float,
    coverage_penalty: float,
    end_rule: str,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int,
    n_best: int | None = None,
    *,
    well_formed: bool = False,
) -> Search:
    """The search that was asked for.

    Raises:
        UserError: if an option cannot be honoured beside the others.
    """
    for name, value in (("length-penalty", length_penalty), ("coverage-penalty", coverage_penalty)):
        if not math.isfinite(value):
            raise UserError(f"--{name} must be a number. Received: {value}.")
        if beam_width == 1 and value:
            raise UserError(f"--{name} needs a beam: give --beam-width 2 or more too.")
    if beam_width == 1 and end_rule == "running":
        raise UserError("--end-rule running needs a beam: give --beam-width 2 or more too.")
    for name, value in (("top-k", top_k), ("top-p", top_p)):
        if temperature is None and value is not None:
            raise UserError(f"--{name} is of tokens that are drawn: give --temperature 1 too.")
    if temperature is not None and not math.isfinite(temperature):
        raise UserError(f"--temperature must be a number. Received: {temperature}.")
    if temperature is not None and beam_width > 1:
        raise UserError(
            "Tokens are drawn, or a beam searches for them: leave --temperature or --beam-width "
            "out."
        )
    if temperature is None and (n_best or 1) > beam_width:
        raise UserError(
            f"--n-best {n_best} needs a beam that keeps as many: give --beam-width {n_best}, or "
            "--temperature to draw the answers."
        )
    return Search(
        beam_width,
        length_penalty,
        coverage_penalty,
        n_best,
        end_rule,
        temperature,
        top_k,
        top_p,
        seed,
        well_formed,
    )
