"""Pairs of token sequences on disk: written once, read block by block, never held as a whole."""

import json
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import BinaryIO

import numpy as np
import tensorflow as tf

from keras_attn.data.reading import opened
from keras_attn.errors import UserError
from keras_attn.files import written_whole
from keras_attn.paths import RemotePath, path_of
from keras_attn.protocols import Tokenizer
from keras_attn.text import END

# The file: the blocks, the table of the blocks, a description in JSON, the trailer. A block is the
# lengths of its sources and of its targets (int32), the ids of its sources and of its targets.
_MAGIC = b"keras_attn pairs"
_TRAILER = struct.Struct("<QQ16s")  # bytes of the table, bytes of the description, magic
_ALIGNMENT = 8
_PAIRS_IN_BLOCK = 1024
_CHARACTERS_IN_BLOCK = 1 << 21  # so that a block of endless lines stays small


@dataclass(frozen=True)
class PairCounts:
    """What became of the lines of a corpus: `lines = kept + empty + too_long`."""

    lines: int = 0
    kept: int = 0
    empty: int = 0
    too_long: int = 0

    def __add__(self, other: "PairCounts") -> "PairCounts":
        mine, others = asdict(self), asdict(other)
        return PairCounts(**{name: mine[name] + others[name] for name in mine})


@dataclass(frozen=True)
class Sequences:
    """Token sequences in one array: `lengths` (N,) int32 and all their `ids` (sum of lengths,)."""

    lengths: np.ndarray
    ids: np.ndarray

    def take(self, rows: np.ndarray) -> "Sequences":
        """The sequences of these rows, in this order."""
        lengths = self.lengths[rows]
        starts = np.cumsum(self.lengths, dtype=np.int64) - self.lengths
        shifts = starts[rows] - (np.cumsum(lengths, dtype=np.int64) - lengths)
        return Sequences(lengths, self.ids[np.arange(lengths.sum()) + np.repeat(shifts, lengths)])

    @staticmethod
    def concatenated(parts: Iterable["Sequences"]) -> "Sequences":
        lengths, ids = zip(*((part.lengths, part.ids) for part in parts), strict=True)
        return Sequences(np.concatenate(lengths), np.concatenate(ids))


def write_pair_store(
    path: str | os.PathLike,
    pairs: Iterable[tuple[str | None, str | None]],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    *,
    max_tokens: int,
    progress: Callable[[PairCounts], None] = lambda counts: None,
) -> PairCounts:
    """Tokenise pairs of texts into a file for `PairStore`, in constant memory.

    Every sequence gets the end token. A pair is dropped if a side has no token (it is empty or
    white space), or else if a side has more than `max_tokens` tokens, the end token included, or is
    None, a line too long to be read. The file is there when it is whole, and not before.

    Args:
        path: of the file, on any file system of `tf.io.gfile`.
        pairs: of texts, such as `aligned_lines(source, target)`.
        source_tokenizer, target_tokenizer: such as `keras_attn.text.SubwordTokenizer`.
        max_tokens: the longest sequence that is kept.
        progress: called with the counts so far after every block of at most 1024 pairs.

    Returns:
        How many lines there were, were kept, and were dropped for which reason; they are in the
        file too.

    Raises:
        UserError: if no pair is kept, or the disk is full or cannot be written.

    Example:
        >>> pairs = aligned_lines("train.en", "train.de")
        >>> write_pair_store("train.pairs", pairs, english, german, max_tokens=128)
        PairCounts(lines=29000, kept=29000, empty=0, too_long=0)
    """
    tokenizers = source_tokenizer, target_tokenizer
    largest = max(tokenizer.vocabulary_size for tokenizer in tokenizers)
    dtype = np.dtype("<u2" if largest <= 1 << 16 else "<i4")
    tokenize = [_graph(tokenizer.tokenize) for tokenizer in tokenizers]
    counts, table, longest, content = PairCounts(), [], 0, 0
    with written_whole(path) as file:
        for block in _blocks(pairs):
            sides, block_counts = _kept(block, tokenize, max_tokens)
            counts += block_counts
            if block_counts.kept:
                table.append((file.tell(), *(len(side.ids) for side in sides), block_counts.kept))
                longest = max(longest, *(int(side.lengths.max()) for side in sides))
                content = _write_block(file, sides, dtype, content)
            progress(counts)
        if not counts.kept:
            raise UserError(
                f"No pair of the {counts.lines} is left for {path}: {counts.empty} have an empty "
                f"side, {counts.too_long} one of more than {max_tokens} tokens; give text on both "
                "sides, a sentence a line."
            )
        description = {"ids": dtype.str, "longest": longest, "counts": asdict(counts)}
        _write_end(file, table, {**description, "content": content})
    return counts


class PairStore:
    """The pairs of token sequences that `write_pair_store` wrote, read block by block.

    Only the table of the blocks is held. A file of this machine is mapped into memory while a block
    is copied, of another file system the bytes of a block are read in one request.

    Args:
        path: of the file, on any file system of `tf.io.gfile`.

    Attributes:
        counts: what became of the corpus' lines, `counts.kept` the number of pairs.
        longest: the tokens of the longest sequence, the end token included.
        content: a number that two stores share only if they hold the same; 0 in stores that were
            written before there was one.

    Raises:
        UserError: if there is no such file or it is none of this kind.

    Example:
        >>> store = PairStore("train.pairs")
        >>> sources, targets = store.block(0)
        >>> sources.lengths.shape
        (1024,)
    """

    def __init__(self, path: str | os.PathLike):
        self.path = path_of(path)
        self._alone = threading.Lock()  # of those who move the place in a remote file
        try:
            self._file = opened(self.path, read_ahead=1)
        except OSError as error:
            raise UserError(f"Cannot read {self.path.absolute()}: {error.strerror}.") from error
        self._table, description = self._read_end()
        self._dtype = np.dtype(description["ids"])
        self.longest = description["longest"]
        self.counts = PairCounts(**description["counts"])
        self.content = description.get("content", 0)

    def __len__(self) -> int:
        return self.counts.kept

    @property
    def number_of_blocks(self) -> int:
        return len(self._table)

    @property
    def tokens_of_blocks(self) -> np.ndarray:
        """How many tokens each block has, both sides together: (blocks,)."""
        return self._table[:, 1] + self._table[:, 2]

    @property
    def pairs_of_blocks(self) -> np.ndarray:
        """How many pairs each block has: (blocks,)."""
        return self._table[:, 3]

    def block(
        self, number: int, rows: np.ndarray | slice = slice(None)
    ) -> tuple[Sequences, Sequences]:
        """The sources and the targets of a block, ids int32, each ended by the end token.

        Args:
            number: of the block.
            rows: those wanted; of the others in a mapped file nothing is read but their lengths.
        """
        start, source_tokens, target_tokens, _ = map(int, self._table[number])
        lengths = self.lengths(number)
        tokens = source_tokens + target_tokens
        ids = self._array(self._dtype, start + lengths.nbytes, (tokens,))
        sides = [
            Sequences(lengths[0], ids[:source_tokens]),
            Sequences(lengths[1], ids[source_tokens:]),
        ]
        if not isinstance(rows, slice):
            sides = [side.take(rows) for side in sides]
        source, target = (Sequences(side.lengths, side.ids.astype(np.int32)) for side in sides)
        return source, target

    def lengths(self, number: int) -> np.ndarray:
        """Of the sources and of the targets of a block: (2, pairs)."""
        start, _, _, pairs = map(int, self._table[number])
        return np.array(self._array("<i4", start, (2, pairs)))

    def _array(self, dtype: str | np.dtype, start: int, shape: tuple[int, ...]) -> np.ndarray:
        """What begins at that byte of the file."""
        if not isinstance(self.path, RemotePath):
            return np.memmap(self._file, dtype, "r", start, shape)
        with self._alone:
            self._file.seek(start)
            content = self._file.read(int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return np.frombuffer(content, dtype).reshape(shape)

    def _read_end(self) -> tuple[np.ndarray, dict]:
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, size - _TRAILER.size))
        trailer = self._file.read()
        if len(trailer) < _TRAILER.size or not trailer.endswith(_MAGIC):
            raise UserError(f"{self.path} is not a whole store of token pairs; write it again.")
        table_bytes, description_bytes, _ = _TRAILER.unpack(trailer)
        self._file.seek(size - _TRAILER.size - description_bytes - table_bytes)
        table = np.frombuffer(self._file.read(table_bytes), "<i8").reshape(-1, 4)
        return table, json.loads(self._file.read(description_bytes))


def _graph(tokenize: Callable) -> Callable:
    return tf.function(tokenize, input_signature=[tf.TensorSpec([None], tf.string)])


def _blocks(pairs: Iterable[tuple]) -> Iterator[list[tuple]]:
    block, characters = [], 0
    for pair in pairs:
        block.append(pair)
        characters += sum(len(text or "") for text in pair)
        if len(block) == _PAIRS_IN_BLOCK or characters >= _CHARACTERS_IN_BLOCK:
            yield block
            block, characters = [], 0
    if block:
        yield block


def _kept(
    block: list[tuple], tokenize: list[Callable], max_tokens: int
) -> tuple[list[Sequences], PairCounts]:
    """The ended sequences of the pairs that are kept, source side and target side."""
    unread = np.array([None in pair for pair in block])
    sides = []
    for texts, ids_of in zip(zip(*block, strict=True), tokenize, strict=True):
        ids = ids_of(tf.constant([text or "" for text in texts]))
        ended = tf.concat([ids, tf.fill([ids.nrows(), 1], END)], axis=1)
        sides.append(Sequences(ended.row_lengths().numpy().astype("<i4"), ended.values.numpy()))
    lengths = np.stack([side.lengths for side in sides])  # (2, N)
    empty = (lengths == 1).any(axis=0) & ~unread
    too_long = unread | ((lengths > max_tokens).any(axis=0) & ~empty)
    kept = np.flatnonzero(~empty & ~too_long)
    counts = PairCounts(len(block), len(kept), int(empty.sum()), int(too_long.sum()))
    return [side.take(kept) for side in sides], counts


def _write_block(file: BinaryIO, sides: list[Sequences], dtype: np.dtype, content: int) -> int:
    """Returns the checksum of the blocks before, which is `content`, and of this one."""
    lengths = [side.lengths.astype("<i4").tobytes() for side in sides]
    ids = [side.ids.astype(dtype).tobytes() for side in sides]
    for part in (*lengths, *ids):
        file.write(part)
        content = zlib.crc32(part, content)
    file.write(bytes(-file.tell() % _ALIGNMENT))
    return content


def _write_end(file: BinaryIO, table: list[tuple], description: dict) -> None:
    table_bytes = np.array(table, "<i8").tobytes()
    description_bytes = json.dumps(description).encode()
    file.write(table_bytes + description_bytes)
    file.write(_TRAILER.pack(len(table_bytes), len(description_bytes), _MAGIC))
