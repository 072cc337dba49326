"""Pairs of token sequences as padded batches of similar length."""

from collections.abc import Sequence

import tensorflow as tf

from keras_attn.text import END, PADDING, START


def batches_of_pairs(
    sources: tf.RaggedTensor,
    targets: tf.RaggedTensor,
    *,
    boundaries: Sequence[int],
    batch_size: int,
    seed: int,
) -> tf.data.Dataset:
    """Endless shuffled batches for a sequence model; their order depends on the seed alone.

    Args:
        sources, targets: (N, None) ids without start and end tokens.
        boundaries: source lengths at which another bucket begins; a batch comes from one bucket and
            is padded to its longest member.
        batch_size: pairs in a batch.
        seed: of the order, which is another one in every pass.

    Returns:
        A dataset of `(inputs, labels, mask)`: inputs are the dict `source` (B, S),
        `source_lengths` (B,) and `target` (B, T), which begins with the start token; labels (B, T)
        end with the end token; the mask (B, T) is True at real labels. Sources end with the end
        token too.
    """
    pairs = tf.data.Dataset.from_tensor_slices((_ended(sources), _ended(targets)))
    pairs = pairs.shuffle(sources.nrows(), seed=seed).repeat()
    pairs = pairs.map(lambda source, target: (source, target), deterministic=True)
    batches = pairs.bucket_by_sequence_length(
        lambda source, target: tf.shape(source)[0],
        bucket_boundaries=list(boundaries),
        bucket_batch_sizes=[batch_size] * (len(boundaries) + 1),
        padded_shapes=([None], [None]),
        padding_values=(PADDING, PADDING),
    )
    return batches.map(_model_batch).prefetch(2)


def _ended(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    ends = tf.fill([ids.nrows(), 1], tf.constant(END, ids.dtype))
    return tf.concat([ids, ends], axis=1)


def _model_batch(source: tf.Tensor, target: tf.Tensor):
    # The end token is the last of every sequence and stands nowhere else.
    source_lengths = tf.argmax(source == END, axis=1, output_type=tf.int32) + 1
    target_lengths = tf.argmax(target == END, axis=1, output_type=tf.int32) + 1
    starts = tf.fill([tf.shape(target)[0], 1], START)
    inputs = {
        "source": source,
        "source_lengths": source_lengths,
        "target": tf.concat([starts, target[:, :-1]], axis=1),
    }
    return inputs, target, tf.sequence_mask(target_lengths, tf.shape(target)[1])
