"""Pairs of a store as shuffled batches of similar length and bounded size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from keras_attn.data.pair_store import PairStore, Sequences
from keras_attn.data.seekable import SeekableBatches
from keras_attn.data.sequence_pairs import model_batch

_TOKENS_IN_POOL = 1 << 22  # both sides together
_JITTER = 2.0  # tokens
_REMEMBERED = 256  # pools; more than are ever read ahead, for each has a batch


def token_batches(
    store: PairStore, batch_tokens: int, seed: int, lengths: Sequence[int] | None = None
) -> SeekableBatches:
    """Endless shuffled batches of about as many tokens each; their order depends on the seed alone.

    In every pass the blocks of the store are shuffled and dealt into pools of about 4 million
    tokens, the most that is in memory. A pool is put in the order of target lengths and, among
    equal ones, of source lengths give or take a token, and cut where a batch is full; the batches
    of the pool are shuffled. Who meets whom is new in every pass, and every pair comes exactly once
    in each.

    Args:
        store: of the pairs.
        batch_tokens: the most tokens of a batch: pairs times the longest sequence of the batch, on
            the side where that is more. Padding counts; sequences end with the end token.
        seed: of the order.
        lengths: if given, a batch is as long as the smallest of these that holds it, the largest
            at least as long as the longest sequence: to be padded by `with_fixed_shapes`.

    Returns:
        A dataset of `(inputs, labels, mask)`, see `keras_attn.data.sequence_pairs.model_batch`. It
        begins at any step: at once where it has been before or a checkpoint tells of it, else after
        a look at the lengths of all that comes before. Of several workers each reads the lengths of
        all pairs, and the ids of its own.

    Raises:
        ValueError: if the longest sequence does not fit into a batch.

    Example:
        >>> inputs, labels, mask = next(iter(token_batches(store, batch_tokens=2000, seed=1)))
    """
    if batch_tokens < store.longest:
        raise ValueError(
            f"The longest sequence of {store.path} has {store.longest} tokens, more than a batch "
            f"may hold. Received: batch_tokens={batch_tokens}"
        )
    return SeekableBatches(_Pools(store, batch_tokens, seed, lengths))


@dataclass
class _Pool:
    """Batches that are in memory together, before their ids are read.

    Args:
        begin: the step of the first batch.
        blocks: of the store.
        order: of the pairs of these blocks, in which the batches are rows that follow each other.
        cuts: first row and row after the last of every batch, in that order: (batches, 2).
        sequence: of the batches, as they come: (batches,).
        lengths: of the sources and of the targets in that order: (2, pairs).
    """

    begin: int
    blocks: np.ndarray
    order: np.ndarray
    cuts: np.ndarray
    sequence: np.ndarray
    lengths: np.ndarray

    @property
    def end(self) -> int:
        return self.begin + len(self.cuts)


class _Pools:
    """The pools of all passes, and where they are known to begin."""

    def __init__(self, store, batch_tokens, seed, lengths):
        self.identity = {
            "pairs": len(store),
            "content": store.content,
            "batch_tokens": batch_tokens,
            "seed": seed,
            "fixed_lengths": len(lengths or ()),
        }
        self._store = store
        self._batch_tokens = batch_tokens
        self._lengths = None if lengths is None else np.array(sorted(lengths))
        self._places: dict[int, tuple] = {}  # by step: pass, pool, state of the random numbers

    def parts(self, step: int, index: int, number: int) -> tf.data.Dataset:
        ids, splits = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int64)
        pools = tf.data.Dataset.from_generator(
            lambda: (self._read(pool, step, index, number) for pool in self._pools(step)),
            output_signature=(ids, splits, ids, splits, tf.TensorSpec([None, 6], tf.int64)),
        )
        return pools.flat_map(_batches_of_pool)

    def position(self, step: int) -> dict:
        begin, (number, pool, random) = self._place_before(step)
        state = {} if random is None else {"random": _numbers(random)}
        return {"step": begin, "pass": number, "pool": pool, **state}

    def remember(self, position) -> None:
        random = position.get("random")
        self._places[int(position["step"])] = (
            int(position["pass"]),
            int(position["pool"]),
            None if random is None else _state(random),
        )

    def _place_before(self, step: int) -> tuple[int, tuple]:
        """The last place that is known and not behind the step."""
        known = [begin for begin in tuple(self._places) if begin <= step]
        return (max(known), self._places[max(known)]) if known else (0, (0, 0, None))

    def _pools(self, step: int) -> Iterator[_Pool]:
        """The pools from that on which holds the batch of the step."""
        begin, (number, first, state) = self._place_before(step)
        seed = self.identity["seed"]
        while True:
            random = np.random.default_rng([abs(seed), int(seed < 0), number])
            tokens = self._store.tokens_of_blocks
            pools = _dealt(random.permutation(self._store.number_of_blocks), tokens)
            if state is not None:
                random.bit_generator.state = state
            for index, blocks in enumerate(pools[first:], start=first):
                self._note(begin, (number, index, random.bit_generator.state))
                pool = self._pool(begin, blocks, random)
                begin = pool.end
                if step < begin:
                    yield pool
            number, first, state = number + 1, 0, None

    def _note(self, begin: int, place: tuple) -> None:
        self._places.setdefault(begin, place)
        while len(self._places) > _REMEMBERED:
            self._places.pop(min(self._places))

    def _pool(self, begin: int, blocks: np.ndarray, random: np.random.Generator) -> _Pool:
        lengths = np.concatenate([self._store.lengths(block) for block in blocks], axis=1)
        order = _order(*lengths, random)
        lengths = lengths[:, order]
        longest = lengths.max(axis=0)
        if self._lengths is not None:
            longest = self._lengths[np.searchsorted(self._lengths, longest)]
        cuts = _cuts(longest, self._batch_tokens)
        return _Pool(begin, blocks, order, cuts, random.permutation(len(cuts)), lengths)

    def _read(self, pool: _Pool, step: int, index: int, number: int) -> tuple:
        """Ids and row splits of what falls to a worker, and the batches from that step on.

        A batch is the first row and the row after the last, how many rows it has for all workers,
        the length of its sources and of its targets, and its digest.
        """
        starts, totals = pool.cuts[:, 0], np.diff(pool.cuts)[:, 0]
        firsts = starts + index * totals // number
        counts = starts + (index + 1) * totals // number - firsts
        ends = np.cumsum(counts)
        rows = np.arange(ends[-1]) + np.repeat(firsts - (ends - counts), counts)
        widths = np.maximum.reduceat(pool.lengths, starts, axis=1)
        digests = np.add.reduceat((pool.order + 1) * (np.arange(len(pool.order)) + 1), starts)
        batches = np.stack([ends - counts, ends, totals, *widths, digests], axis=1)
        sides = self._sequences(pool.blocks, pool.order[rows])
        flat = (part for side in sides for part in _flat(side))
        return *flat, batches[pool.sequence[max(0, step - pool.begin) :]]

    def _sequences(self, blocks: np.ndarray, rows: np.ndarray) -> list[Sequences]:
        """The sources and the targets of these rows of the blocks, in this order."""
        ends = np.cumsum([self._store.pairs_of_blocks[block] for block in blocks])
        if len(rows) == ends[-1]:
            parts = [self._store.block(block) for block in blocks]
            return [Sequences.concatenated(side).take(rows) for side in zip(*parts, strict=True)]
        ranks = np.argsort(rows)
        sorted_rows, begin, parts = rows[ranks], 0, []
        for block, end in zip(blocks, ends, strict=True):
            own = sorted_rows[slice(*np.searchsorted(sorted_rows, [begin, end]))] - begin
            parts.append(self._store.block(block, own))
            begin = end
        places = np.argsort(ranks)
        return [Sequences.concatenated(side).take(places) for side in zip(*parts, strict=True)]


def _batches_of_pool(source_ids, source_splits, target_ids, target_splits, batches):
    def batch(row):
        sources = _slice(source_ids, source_splits, row)
        targets = _slice(target_ids, target_splits, row)
        return model_batch(sources, targets, (row[3], row[4])), row[2], row[5]

    return tf.data.Dataset.from_tensor_slices(batches).map(batch)


def _slice(ids: tf.Tensor, splits: tf.Tensor, cut: tf.Tensor) -> tf.RaggedTensor:
    """The sequences from row `cut[0]` to before row `cut[1]`."""
    splits = splits[cut[0] : cut[1] + 1]
    return tf.RaggedTensor.from_row_splits(
        ids[splits[0] : splits[-1]], splits - splits[0], validate=False
    )


def _dealt(blocks: np.ndarray, tokens: np.ndarray) -> list[np.ndarray]:
    """The blocks in groups of nearly equal numbers of tokens."""
    before = np.cumsum(tokens[blocks]) - tokens[blocks]
    groups = -(-int(tokens.sum()) // _TOKENS_IN_POOL)
    return [
        group
        for group in np.split(
            blocks, np.searchsorted(before, np.arange(1, groups) * tokens.sum() / groups)
        )
        if len(group)
    ]


def _order(sources: np.ndarray, targets: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """By target length, then by source length, rising and falling in turn: neighbours are alike."""
    sources = sources + random.uniform(0.0, _JITTER, len(sources))
    return np.lexsort((np.where(targets % 2, -sources, sources), targets))


def _cuts(lengths: np.ndarray, batch_tokens: int) -> np.ndarray:
    """First row and row after the last of every batch: (batches, 2)."""
    cuts, start, longest = [], 0, 0
    for row, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if longest * (row + 1 - start) > batch_tokens:
            cuts.append((start, row))
            start, longest = row, length
    return np.array([*cuts, (start, len(lengths))], np.int64)


def _flat(sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
    return sequences.ids, np.concatenate([[0], np.cumsum(sequences.lengths, dtype=np.int64)])


def _numbers(state: dict) -> np.ndarray:
    """The state of a generator of random numbers, in numbers that a float64 holds exactly."""
    large = state["state"]["state"], state["state"]["inc"]
    words = [number >> shift & 0xFFFFFFFF for number in large for shift in (0, 32, 64, 96)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.float64)


def _state(numbers: np.ndarray) -> dict:
    """What `_numbers` was given."""
    words = [int(number) for number in numbers]
    state, inc = (
        sum(word << shift for word, shift in zip(words[at : at + 4], (0, 32, 64, 96), strict=True))
        for at in (0, 4)
    )
    return {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": inc},
        "has_uint32": words[8],
        "uinteger": words[9],
    }
