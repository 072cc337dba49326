"""Pairs of token sequences as padded batches of equal length."""

import tensorflow as tf

from keras_attn.text import END, PADDING, START


def batches_of_pairs(
    sources: tf.RaggedTensor, targets: tf.RaggedTensor, *, batch_size: int, seed: int
) -> tf.data.Dataset:
    """Endless shuffled batches for a sequence model; their order depends on the seed alone.

    In every pass the pairs are shuffled, put in the order of their source lengths and cut into
    batches, and the batches are shuffled: sources need next to no padding, and who meets whom and
    when is new each time. The pairs left over, fewer than a batch, are others in every pass.

    Args:
        sources, targets: (N, None) ids without start and end tokens, N at least `batch_size`.
        batch_size: pairs in a batch.
        seed: of the order.

    Returns:
        A dataset of `(inputs, labels, mask)`: inputs are the dict `source` (B, S),
        `source_lengths` (B,) and `target` (B, T), which begins with the start token; labels (B, T)
        end with the end token; the mask (B, T) is True at real labels. Sources end with the end
        token too.

    Raises:
        ValueError: if there are fewer pairs than a batch holds.
    """
    if sources.nrows() < batch_size:
        raise ValueError(
            f"{int(sources.nrows())} pairs do not fill a batch. Received: batch_size={batch_size}"
        )
    sources, targets = ended(sources), ended(targets)
    lengths = tf.cast(sources.row_lengths(), tf.int32)

    def pass_over_data(number):
        return tf.data.Dataset.from_tensor_slices(_batches(lengths, batch_size, seed, number))

    def padded_batch(rows):
        return model_batch(tf.gather(sources, rows), tf.gather(targets, rows))

    return tf.data.Dataset.counter().flat_map(pass_over_data).map(padded_batch).prefetch(4)


def model_batch(sources: tf.RaggedTensor, targets: tf.RaggedTensor):
    """`(inputs, labels, mask)` of a sequence model from ended sources and targets (B, None)."""
    labels = targets.to_tensor(PADDING)  # (B, T)
    starts = tf.fill([tf.shape(labels)[0], 1], tf.constant(START, labels.dtype))
    inputs = {
        "source": sources.to_tensor(PADDING),  # (B, S)
        "source_lengths": tf.cast(sources.row_lengths(), tf.int32),
        "target": tf.concat([starts, labels[:, :-1]], axis=1),
    }
    return inputs, labels, tf.sequence_mask(targets.row_lengths(), tf.shape(labels)[1])


def _batches(lengths: tf.Tensor, batch_size: int, seed: int, number: tf.Tensor) -> tf.Tensor:
    """The rows of every batch of one pass: (batches, batch_size)."""
    seed = tf.stack([tf.constant(seed, tf.int64), number])
    order = tf.random.experimental.stateless_shuffle(tf.range(tf.size(lengths)), seed)
    order = order[tf.size(lengths) % batch_size :]
    order = tf.gather(order, tf.argsort(tf.gather(lengths, order), stable=True))
    return tf.random.experimental.stateless_shuffle(tf.reshape(order, [-1, batch_size]), seed)


def ended(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Sequences (N, None) with the end token behind each."""
    ends = tf.fill([ids.nrows(), 1], tf.constant(END, ids.dtype))
    return tf.concat([ids, ends], axis=1)
