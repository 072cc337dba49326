"""Options that several commands have."""

from pathlib import Path

import click

from keras_attn.paths import RemotePath, path_of


class Place(click.ParamType):
    """A path of this machine, or one with a scheme, such as gs://bucket/run."""

    name = "path"

    def convert(self, value, parameter, context) -> Path | RemotePath:
        return path_of(value)


PLACE = Place()
PATH = click.Path(path_type=Path)
run_option = click.option("--run", "run_path", type=PLACE, required=True, help="The run directory.")
recipe_option = click.option("--recipe", help="Insist that the run is of this recipe.")


def search_options(command):
    """The options of the search by which a model answers."""
    for option in (
        click.option(
            "--length-penalty",
            type=float,
            default=0.0,
            show_default=True,
            help="Of the beam; above 0 it favours longer answers.",
        ),
        click.option(
            "--beam-width",
            type=click.IntRange(min=1),
            default=1,
            show_default=True,
            help="Hypotheses kept at every step; 1 is greedy search.",
        ),
    ):
        command = option(command)
    return command
