"""Sentences with their syntax: trees in the brackets of the Penn Treebank, a tree a line."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from keras_attn.data.aligned_text import read_lines
from keras_attn.errors import UserError

OUTERMOST = "TOP"
"""Label of the bracket around a sentence that has none of its own; scores leave it out."""

WORD = "XX"
"""What stands for every tag but those of punctuation (Vinyals et al. 2015)."""

PUNCTUATION = (",", ".", ":", "``", "''")
"""The tags of punctuation, which scores leave out too."""

_OUTERMOST = ("", "TOP", "ROOT", "S1")
_NOTHING = "-NONE-"  # the tag of traces, which are no words
_TOKEN = re.compile(r"[()]|[^\s()]+")
_FUNCTION = re.compile(r"(?<=.)[-=|].*")  # of NP-SBJ-1, but not of -LRB-


class Bracket(NamedTuple):
    """A constituent: its label, its first word and the word after its last."""

    label: str
    start: int
    end: int


@dataclass(frozen=True)
class Tree:
    """A sentence and its constituents.

    Args:
        words: of the sentence.
        tags: the part of speech of each word.
        brackets: in the order in which they open, the outer one first; the first holds all words.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    brackets: tuple[Bracket, ...]

    def __str__(self) -> str:
        """In brackets, on one line."""
        leaves = zip(self.tags, self.words, strict=True)
        parts = _parts(self, [f"({tag} {word})" for tag, word in leaves], lambda label: ")")
        return " ".join(parts).replace(" )", ")")


def parse_tree(text: str) -> Tree:
    """The tree that stands in brackets in a text.

    What the raw Penn Treebank has beside words and constituents is left out: traces (`-NONE-`) with
    the brackets that they empty, functions and indices (`NP-SBJ-1` is `NP`), and the bracket
    without a label, `TOP`, `ROOT` or `S1` around the tree, unless it holds several constituents or
    a single word: then it is `TOP`.

    Raises:
        ValueError: if the text is no tree; it says why.

    Example:
        >>> from keras_attn.data.bracketed_trees import parse_tree
        >>> tree = parse_tree("( (S (NP-SBJ (NNP John)) (VP (VBZ sleeps)) (. .)) )")
        >>> tree.words, tree.brackets[1]
        (('John', 'sleeps', '.'), Bracket(label='NP', start=0, end=1))
        >>> print(tree)
        (S (NP (NNP John)) (VP (VBZ sleeps)) (. .))
    """
    reader = _Reader()
    for token in _TOKEN.findall(text):
        reader.take(token)
    return reader.tree()


def read_trees(path: str | os.PathLike) -> Iterator[Tree]:
    """The trees of a file, one a line; empty lines are passed over.

    Args:
        path: of a UTF-8 text file, on any file system of `tf.io.gfile`.

    Raises:
        UserError: if there is no such file, it has no tree, or a line is none; it says which line
            and why.
    """
    number = found = 0
    for number, line in enumerate(read_lines(path), start=1):
        if line is None:
            raise UserError(f"{path}, line {number} is too long for a tree; give a tree a line.")
        if line.strip():
            try:
                yield parse_tree(line)
            except ValueError as error:
                raise UserError(f"{path}, line {number} is no bracketed tree: {error}") from error
            found += 1
    if not found:
        raise UserError(f"{path} has no tree; give one a line, such as (S (NP (PRP I)) ...).")


def linearised(tree: Tree) -> list[str]:
    """A tree as tokens without its words: labels that open, tags, labels that close.

    Tags are `XX`, but for those of `PUNCTUATION`.

    Example:
        >>> from keras_attn.data.bracketed_trees import linearised, parse_tree
        >>> print(*linearised(parse_tree("(S (NP (NNP John)) (VP (VBZ sleeps)) (. .))")))
        (S (NP XX )NP (VP XX )VP . )S

    Reference:
        Vinyals et al. 2015, "Grammar as a Foreign Language", https://arxiv.org/abs/1412.7449
    """
    leaves = [tag if tag in PUNCTUATION else WORD for tag in tree.tags]
    return _parts(tree, leaves, lambda label: f"){label}")


def _parts(tree: Tree, leaves: list[str], closed) -> list[str]:
    """What opens, the leaves and what closes, `closed(label)`, in their order."""
    parts, inside, waiting = [], [], list(reversed(tree.brackets))
    for position, leaf in enumerate(leaves):
        while waiting and waiting[-1].start == position:
            inside.append(waiting.pop())
            parts.append(f"({inside[-1].label}")
        parts.append(leaf)
        while inside and inside[-1].end == position + 1:
            parts.append(closed(inside.pop().label))
    return parts


@dataclass
class _Open:
    """A bracket that is not closed yet."""

    start: int  # words before it
    place: int  # among the brackets
    label: str | None = None
    word: str | None = None
    has_children: bool = False


class _Reader:
    """Takes the tokens of a text one by one."""

    def __init__(self):
        self._inside: list[_Open] = []
        self._words: list[str] = []
        self._tags: list[str] = []
        self._brackets: list[Bracket | None] = []
        self._is_begun = False

    def take(self, token: str) -> None:
        if self._is_begun and not self._inside:
            raise ValueError(f"{token!r} stands behind the bracket that closes the tree.")
        if token == "(":
            self._open()
        elif token == ")":
            self._close()
        else:
            self._name(token)

    def tree(self) -> Tree:
        if self._inside:
            raise ValueError(f"{len(self._inside)} of its brackets are not closed.")
        if not self._words:
            raise ValueError("it has no word.")
        return Tree(tuple(self._words), tuple(self._tags), self._constituents())

    def _open(self) -> None:
        if self._inside:
            outer = self._inside[-1]
            if outer.word is not None:
                raise ValueError(f"the word {outer.word!r} shares its bracket with another one.")
            outer.label = outer.label or self._label_of_none()
            outer.has_children = True
        self._is_begun = True
        self._inside.append(_Open(len(self._words), len(self._brackets)))
        self._brackets.append(None)

    def _label_of_none(self) -> str:
        if len(self._inside) > 1:
            raise ValueError("a bracket inside of it has no label.")
        return OUTERMOST

    def _name(self, token: str) -> None:
        """The first token in a bracket is its label, the second its word."""
        if not self._inside:
            raise ValueError(f"{token!r} stands outside of all brackets.")
        inner = self._inside[-1]
        if inner.label is None:
            inner.label = _FUNCTION.sub("", token) if not token.startswith("-") else token
        elif inner.word is not None or inner.has_children:
            raise ValueError(f"the word {token!r} has no bracket of its own.")
        else:
            inner.word = token

    def _close(self) -> None:
        if not self._inside:
            raise ValueError("it begins with a closing bracket.")
        inner = self._inside.pop()
        if inner.word is None and not inner.has_children:
            raise ValueError(f"the bracket ({inner.label or ''}) is empty.")
        if inner.word is not None:
            del self._brackets[inner.place :]
            if inner.label != _NOTHING:
                self._words.append(inner.word)
                self._tags.append(inner.label)
        elif inner.start == len(self._words):  # emptied of its traces
            del self._brackets[inner.place :]
        else:
            self._brackets[inner.place] = Bracket(inner.label, inner.start, len(self._words))

    def _constituents(self) -> tuple[Bracket, ...]:
        """The brackets, with the outermost one only where another does not hold all words."""
        everything = (0, len(self._words))
        found = list(self._brackets)
        while found and found[0].label in _OUTERMOST:
            del found[0]
        if not found or found[0][1:] != everything:
            found.insert(0, Bracket(OUTERMOST, *everything))
        return tuple(found)
