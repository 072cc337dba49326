"""Requests that TensorFlow Serving sends a model when it loads it, so that nobody waits later."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"
MOST_REQUESTS = 1_000  # that TensorFlow Serving takes


def write_warmup_requests(
    version: Path, requests: Iterable[tuple[str, Mapping[str, np.ndarray]]]
) -> None:
    """Write requests as a TFRecord file of PredictionLog messages into a SavedModel.

    Args:
        version: the SavedModel's directory.
        requests: a signature's name and the values of its inputs each, at most 1,000.

    Raises:
        UserError: if the package tensorflow-serving-api is not installed.
        ValueError: if there are too many requests.
    """
    requests = list(requests)
    if len(requests) > MOST_REQUESTS:
        raise ValueError(
            f"TensorFlow Serving takes at most {MOST_REQUESTS} warm-up requests. "
            f"Received: {len(requests)} requests"
        )
    try:
        from tensorflow_serving.apis import predict_pb2, prediction_log_pb2
    except ImportError as error:
        raise UserError(
            "Warm-up requests need the package tensorflow-serving-api, which is not installed: "
            'pip install "keras-attn[demo]".'
        ) from error
    path = version / WARMUP_FILE
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = signature
            for name, value in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())
