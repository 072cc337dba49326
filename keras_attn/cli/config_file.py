"""`--config`: options from a file."""

from pathlib import Path
from typing import Any

import click
import yaml

from keras_attn.errors import UserError


def read_config(path: Path) -> dict[str, Any]:
    """What a file sets, by the names of the options; one that is null is not set.

    The `settings.json` of a run is such a file too: JSON is YAML.

    Raises:
        UserError: if it cannot be read, or is no list of names and values.
    """
    try:
        content = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        what = " ".join(str(error).split())
        raise UserError(f"{path} is not YAML: {what}.") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} has no names and values; write a line for each, as units: 64.")
    if {"recipe", "settings"} <= set(content) and isinstance(content["settings"], dict):
        content = {"recipe": content["recipe"], **content["settings"]}
    named = {str(name).replace("-", "_"): value for name, value in content.items()}
    return {name: value for name, value in named.items() if value is not None}


def config_of(command: click.Command, recipe: str, path: Path) -> dict[str, Any]:
    """The values of a file for the parameters of a recipe's command.

    Raises:
        UserError: if the file is of another recipe, or sets what the recipe does not take.
    """
    content = read_config(path)
    if content.pop("recipe", recipe) != recipe:
        raise UserError(f"{path} is not of the recipe {recipe}; its first word is recipe.")
    parameters = {
        option.removeprefix("--").replace("-", "_"): parameter
        for parameter in command.params
        for option in parameter.opts
    }
    found = {}
    for name, value in content.items():
        if name not in parameters or name == "config":
            known = ", ".join(each for each in parameters if each not in ("config", "help"))
            raise UserError(f"{path} sets {name}, which {recipe} does not take; it takes {known}.")
        if isinstance(value, list | dict):
            raise UserError(f"{path}: {name} takes one value. Received: {value!r}.")
        # As it would be typed, so that the option reads it.
        found[parameters[name].name] = str(value)
    return found
