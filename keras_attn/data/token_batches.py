"""Pairs of a store as shuffled batches of similar length and bounded size."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_attn.data.pair_store import PairStore, Sequences
from keras_attn.data.sequence_pairs import model_batch

_TOKENS_IN_POOL = 1 << 22  # both sides together
_JITTER = 2.0  # tokens


def token_batches(
    store: PairStore, batch_tokens: int, seed: int, lengths: Sequence[int] | None = None
) -> tf.data.Dataset:
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
        A dataset of `(inputs, labels, mask)`, see `keras_attn.data.sequence_pairs.model_batch`.

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
    ids, splits = tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int64)
    cuts = tf.TensorSpec([None, 2], tf.int64)
    pools = tf.data.Dataset.from_generator(
        lambda: _pools(store, batch_tokens, seed, lengths),
        output_signature=(ids, splits, ids, splits, cuts),
    )
    return pools.flat_map(_batches_of_pool).prefetch(4)


def _batches_of_pool(source_ids, source_splits, target_ids, target_splits, cuts):
    def batch(cut):
        sources = _slice(source_ids, source_splits, cut)
        return model_batch(sources, _slice(target_ids, target_splits, cut))

    return tf.data.Dataset.from_tensor_slices(cuts).map(batch)


def _slice(ids: tf.Tensor, splits: tf.Tensor, cut: tf.Tensor) -> tf.RaggedTensor:
    """The sequences from row `cut[0]` to before row `cut[1]`."""
    splits = splits[cut[0] : cut[1] + 1]
    return tf.RaggedTensor.from_row_splits(
        ids[splits[0] : splits[-1]], splits - splits[0], validate=False
    )


def _pools(
    store: PairStore, batch_tokens: int, seed: int, lengths: Sequence[int] | None
) -> Iterator[tuple]:
    """Pools without end: ids and row splits of the sources and the targets, and the cuts."""
    for number in itertools.count():
        random = np.random.default_rng([abs(seed), int(seed < 0), number])
        for blocks in _dealt(random.permutation(store.number_of_blocks), store.tokens_of_blocks):
            sources, targets = map(
                Sequences.concatenated, zip(*map(store.block, blocks), strict=True)
            )
            order = _order(sources.lengths, targets.lengths, random)
            sources, targets = sources.take(order), targets.take(order)
            longest = np.maximum(sources.lengths, targets.lengths)
            if lengths is not None:
                longest = np.array(sorted(lengths))[np.searchsorted(sorted(lengths), longest)]
            cuts = _cuts(longest, batch_tokens)
            yield (*_flat(sources), *_flat(targets), random.permutation(cuts))


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
