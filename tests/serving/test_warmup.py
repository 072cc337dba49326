import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from keras_attn.serving.warmup import WARMUP_FILE, write_warmup_requests


def test_an_exported_text_model_can_be_warmed_up_by_its_own_requests(dates_base_path):
    model = tf.saved_model.load(str(dates_base_path / "1"))
    records = list(tf.data.TFRecordDataset(str(dates_base_path / "1" / WARMUP_FILE)))
    signatures = []
    for record in records:
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        request = log.predict_log.request
        signatures.append(request.model_spec.signature_name)
        inputs = {
            name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()
        }
        outputs = model.signatures[signatures[-1]](**inputs)
        assert all(output.shape[0] == 1 for output in outputs.values())
    assert sorted(signatures) == sorted(model.signatures)


def test_more_requests_than_tensorflow_serving_takes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Received: 1001 requests"):
        write_warmup_requests(tmp_path, [("serving_default", {"x": np.zeros(1)})] * 1001)
