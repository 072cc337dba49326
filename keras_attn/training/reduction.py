"""Sums over the replicas."""

import tensorflow as tf


def sum_over_replicas(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """The sum of each tensor over all replicas, called by each replica in its context.

    Tensors travel together, by dtype: TensorFlow packs no two dtypes into one message.
    """
    replica = tf.distribute.get_replica_context()
    if replica.num_replicas_in_sync == 1:
        return list(tensors)
    sums = {}
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        alike = [index for index, tensor in enumerate(tensors) if tensor.dtype == dtype]
        reduced = replica.all_reduce(tf.distribute.ReduceOp.SUM, [tensors[i] for i in alike])
        sums.update(zip(alike, reduced, strict=True))
    return [sums[index] for index in range(len(tensors))]
