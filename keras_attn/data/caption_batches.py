"""Captions of pictures as batches for a captioner."""

import zlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attn.data.pictures import decoded
from keras_attn.data.seekable import SeekableBatches, seekable_batches
from keras_attn.special_tokens import END, PADDING, START


def caption_batch(images, captions: tf.RaggedTensor, length: int):
    """`(inputs, labels, mask)` of a captioner, all of one length.

    Args:
        images: (B, height, width, channels).
        captions: (B, None) ids, without start and end.
        length: T, of which the last is the end token at the latest; longer captions are cut.

    Returns:
        Inputs are the dict `images` and `target` (B, T), which begins with the start token; labels
        (B, T) end with the end token; the mask (B, T) is True at real labels.
    """
    captions = captions[:, : length - 1]
    ends = tf.fill([captions.nrows(), 1], tf.constant(END, captions.dtype))
    ended = tf.concat([captions, ends], axis=1)
    labels = ended.to_tensor(PADDING, shape=[None, length])  # (B, T)
    starts = tf.fill([captions.nrows(), 1], tf.constant(START, captions.dtype))
    inputs = {"images": images, "target": tf.concat([starts, labels[:, :-1]], axis=1)}
    return inputs, labels, tf.sequence_mask(ended.row_lengths(), length)


def picture_batches(
    files: Sequence[str],
    captions: tf.RaggedTensor,
    image_shape: tuple[int, int, int],
    *,
    length: int,
    batch_size: int,
    seed: int,
) -> SeekableBatches:
    """Endless batches of pictures that are read when they are needed, each with a caption.

    Args:
        files: N paths, one for each caption; a picture with several captions occurs several times.
        captions: (N, None) ids, without start and end.
        image_shape: (height, width, channels), to which pictures are resized.
        length: see `caption_batch`.
        batch_size: B, at most N; the captions of a pass that fill no batch are left out.
        seed: of the order, which is a new one in each pass.

    Raises:
        ValueError: if there are fewer captions than a batch holds.
    """
    number = len(files)
    if number < batch_size:
        raise ValueError(
            f"{number} captions do not fill a batch. Received: batch_size={batch_size}"
        )
    paths, steps = tf.constant(files), number // batch_size

    def rows(step):
        places = step % steps * batch_size + tf.range(batch_size, dtype=tf.int64)
        order = tf.stack([tf.cast(seed, tf.int64), step // steps])
        return tf.random.experimental.index_shuffle(places, order, number - 1)

    def read(rows, batch):
        contents = tf.map_fn(tf.io.read_file, tf.gather(paths, rows))
        return caption_batch(decoded(contents, image_shape), tf.gather(captions, rows), length)

    identity = {
        "captions": number,
        "content": _content(files, captions),
        "batch_size": batch_size,
        "seed": seed,
        **{f"image_shape_{axis}": size for axis, size in enumerate(image_shape)},
    }
    return seekable_batches(rows, read, identity)


def _content(files: Sequence[str], captions: tf.RaggedTensor) -> int:
    """A number that two sets of captions share only if they say the same of the same files."""
    digest = zlib.crc32("\n".join(name.rsplit("/", 1)[-1] for name in files).encode())
    for array in (captions.flat_values.numpy(), captions.row_lengths().numpy()):
        digest = zlib.crc32(np.ascontiguousarray(array), digest)
    return digest
