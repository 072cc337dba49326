"""What a message names is there, and what is checked is everything."""

import ast
import re
from pathlib import Path

import click

import keras_attn
from keras_attn import layers
from keras_attn.cli import main

PACKAGE = Path(keras_attn.__file__).parent
TESTS = Path(__file__).parents[1]
# Of other programs.
FOREIGN = {"--tf_xla_auto_jit", "--tf_xla_cpu_global_jit", "--logdir", "--help", "--tokenize"}


def _flags(command: click.Command, context: click.Context) -> set[str]:
    found = {flag for parameter in command.params for flag in parameter.opts}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found |= _flags(command.get_command(context, name), context)
    return found


def test_every_option_that_a_message_names_is_there():
    known = _flags(main, click.Context(main)) | FOREIGN
    unknown = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for flag in re.findall(r"(?<![\w-])--[a-z][a-z_-]+", node.value):
                    if flag not in known:
                        unknown.setdefault(flag, path.name)
    assert unknown == {}


def test_every_layer_keeps_the_contract_of_layers():
    """`check_layer` is called on it in one of the files of tests."""
    checked = "\n".join(
        path.read_text(encoding="utf-8")
        for path in (TESTS / "layers").glob("test_*.py")
        if "check_layer(" in path.read_text(encoding="utf-8")
    )
    missing = [name for name in layers.__all__ if not re.search(rf"\b{name}\b", checked)]
    assert missing == []
