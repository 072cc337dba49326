"""Train as one of several workers with a label that only the last of them sees.

python fault_program.py
"""

import keras
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training import fit, make_strategy


def main() -> None:
    strategy = make_strategy("multi_worker")
    with strategy.scope():
        ids = keras.Input((3,), dtype="int32")
        x = keras.layers.Embedding(6, 4)(ids)
        model, optimizer = keras.Model(ids, keras.layers.Dense(7)(x)), keras.optimizers.SGD()
    ids = tf.reshape(tf.range(12) % 6, [4, 3])
    labels = tf.where(tf.range(4)[:, None] == 3, 9, ids)
    batches = tf.data.Dataset.from_tensors((ids, labels, tf.ones([4, 3], "bool"))).repeat()
    try:
        fit(model, batches, 3, optimizer=optimizer, strategy=strategy)
    except UserError as error:
        print(error)


if __name__ == "__main__":
    main()
