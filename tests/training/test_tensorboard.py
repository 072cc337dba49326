import keras
import tensorflow as tf
from tensorflow.core.util import event_pb2

from keras_attn.training import TensorBoardCurves, fit


def _points(directory):
    """`(name, step, value)` of every point, as TensorBoard reads them."""
    points = []
    for path in sorted(directory.glob("events*")):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = event_pb2.Event.FromString(record)
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars"
                points.append((value.tag, event.step, float(tf.make_ndarray(value.tensor))))
    return points


def test_the_curves_are_means_between_two_points(tmp_path):
    inputs = keras.Input((1,))
    model = keras.Model(inputs, keras.layers.Dense(1, use_bias=False)(inputs))
    model.layers[-1].kernel.assign([[1.0]])
    curves = TensorBoardCurves(tmp_path, every_steps=2)
    values = tf.data.Dataset.from_tensor_slices([[[1.0]], [[3.0]], [[5.0]], [[9.0]]]).repeat()
    fit(
        model, values, 4, optimizer=keras.optimizers.SGD(0.0), callbacks=[curves],
        objective=lambda model, batch: (tf.reduce_sum(model(batch)), tf.constant(1.0)),
    )  # fmt: skip
    points = _points(tmp_path)
    losses = [(step, value) for name, step, value in points if name == "loss"]
    assert losses == [(2, 2.0), (4, 7.0)]
    assert [value for name, _, value in points if name == "learning_rate"] == [0.0, 0.0]
    assert all(value > 0 for name, _, value in points if name == "tokens_per_second")
