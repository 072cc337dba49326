"""The settings of a recipe: one dataclass, from which its options on the command line are made."""

import functools
import math
import numbers
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from keras_attn.errors import UserError
from keras_attn.paths import path_of

Settings = TypeVar("Settings")


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    shown: str | None = None,
    is_file: bool = False,
    words: int = 1,
) -> Any:
    """A field of a settings dataclass.

    Args:
        default: its value where none is given.
        help: one sentence for `--help`, which adds the default.
        choices: the values that a text may have; all if there are none.
        minimum, above, below: what a number must at least be, must exceed, must stay under.
        shown: what `--help` says of the default, where that is not its value.
        is_file: whether a text is the path of a file, kept as an absolute one.
        words: how many words a text has that are typed one by one; it keeps them between spaces.

    Example:
        >>> from dataclasses import dataclass
        >>> from keras_attn.recipes.settings import setting
        >>> @dataclass(frozen=True)
        ... class Settings:
        ...     units: int = setting(64, "Of the recurrent layer.", minimum=1)
        >>> Settings().units
        64
    """
    extras = {
        "help": help,
        "choices": choices,
        "minimum": minimum,
        "above": above,
        "below": below,
        "shown": shown,
        "is_file": is_file,
        "words": words,
    }
    return field(default=default, metadata=extras)


@dataclass(frozen=True)
class Setting:
    """One setting as the command line sees it: `setting` says what the attributes mean.

    Attributes:
        name: of the field.
        kind: `int`, `float`, `bool` or `str`.
        is_optional: whether it may be None.
    """

    name: str
    kind: type
    is_optional: bool
    default: Any
    help: str
    choices: tuple[str, ...]
    minimum: float | None
    above: float | None
    below: float | None
    shown: str | None
    is_file: bool
    words: int

    @property
    def flag(self) -> str:
        return flag(self.name)

    @property
    def described_default(self) -> str | None:
        """The default as `--help` shows it; None if there is none to show."""
        if self.shown is not None or self.default is None:
            return self.shown
        if self.kind is bool:
            return "yes" if self.default else "no"
        return f"{self.default:g}" if self.kind is float else str(self.default)

    def read(self, value: Any) -> Any:
        """A value, or the text of one, in the setting's own type and within its bounds.

        Raises:
            UserError: if it is neither; the sentence names the option.
        """
        if value is None and self.is_optional:
            return None
        value = _READERS[self.kind](self, value)
        if self.kind in (int, float):
            self._require_in_bounds(value)
        return value

    def _require_in_bounds(self, value: float) -> None:
        bounds = {
            "at least": (self.minimum, value.__ge__),
            "more than": (self.above, value.__gt__),
            "less than": (self.below, value.__lt__),
        }
        wanted = [f"{words} {bound}" for words, (bound, _) in bounds.items() if bound is not None]
        fits = all(holds(bound) for bound, holds in bounds.values() if bound is not None)
        if not fits:
            raise UserError(f"{self.flag} must be {' and '.join(wanted)}. Received: {value}.")


def flag(name: str) -> str:
    """The option of a setting.

    Example:
        >>> from keras_attn.recipes.settings import flag
        >>> flag("batch_tokens")
        '--batch-tokens'
    """
    return "--" + name.replace("_", "-")


@functools.cache
def settings_of(kind: type) -> dict[str, Setting]:
    """What a settings dataclass says of its fields, in their order."""
    hints = typing.get_type_hints(kind)
    found = {}
    for each in fields(kind):
        if each.default is MISSING:
            raise TypeError(f"A setting has a default. Received: {kind.__name__}.{each.name}")
        options = typing.get_args(hints[each.name]) or (hints[each.name],)
        (own,) = (option for option in options if option is not types.NoneType)
        found[each.name] = Setting(
            each.name, own, types.NoneType in options, each.default, **each.metadata
        )
    return found


def made(kind: type[Settings], given: Mapping[str, Any], of: str) -> Settings:
    """The settings that were given, checked, and the defaults of the others.

    Args:
        kind: a settings dataclass.
        given: values, or their texts, by the names of their fields.
        of: whose settings they are, for the sentence: `The recipe adding`.

    Raises:
        UserError: if there is no setting of a name, or a value does not fit it.
    """
    known = settings_of(kind)
    require_known(given, known, of)
    return kind(**{name: known[name].read(value) for name, value in given.items()})


def require_known(names: typing.Iterable[str], known: typing.Iterable[str], of: str) -> None:
    """Raise `UserError` unless all names are known ones."""
    for name in names:
        if name not in known:
            raise UserError(f"{of} takes no {flag(name)}; it takes {', '.join(map(flag, known))}.")


def _whole_number(setting: Setting, value: Any) -> int:
    number = _parsed(int, value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, numbers.Integral):
        raise UserError(f"{setting.flag} takes a whole number. Received: {value!r}.")
    return int(number)


def _number(setting: Setting, value: Any) -> float:
    number = _parsed(float, value) if isinstance(value, str) else value
    is_number = isinstance(number, numbers.Real) and not isinstance(number, bool)
    if not is_number or not math.isfinite(number):
        raise UserError(f"{setting.flag} takes a number. Received: {value!r}.")
    return float(number)


def _parsed(kind: type, text: str):
    try:
        return kind(text)
    except ValueError:
        return None


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _truth(setting: Setting, value: Any) -> bool:
    if isinstance(value, str):
        value = _TRUTH.get(value.lower(), value)
    if not isinstance(value, bool):
        raise UserError(f"{setting.flag} is true or false. Received: {value!r}.")
    return value


def _text(setting: Setting, value: Any) -> str:
    if setting.is_file:
        return str(path_of(value).absolute())
    if setting.words > 1 and isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    if setting.choices and value not in setting.choices:
        words = setting.name.replace("_", " ")
        raise UserError(f"There is no {words} {value!r}; there are {', '.join(setting.choices)}.")
    if not isinstance(value, str):
        raise UserError(f"{setting.flag} takes a text. Received: {value!r}.")
    return value


_READERS = {int: _whole_number, float: _number, bool: _truth, str: _text}
