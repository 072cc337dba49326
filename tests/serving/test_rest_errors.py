"""What a client reads of TensorFlow's own error messages."""

import pytest
import tensorflow as tf

from keras_attn.serving.errors import from_operation

_TRACE = """Graph execution error:

Detected at node MatMul defined at (most recent call last):
  File "/home/someone/train.py", line 3, in <module>

Detected at node MatMul defined at (most recent call last):
<stack traces unavailable>
"""


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (_TRACE + "In[0] is bad\n\t [[{{node MatMul}}]] [Op:__inference_f_1]", "In[0] is bad"),
        ("{{function_node __inference_<lambda>_18}} Sizes differ: [1,2] [Op:MatMul]", None),
        (
            "2 root error(s) found.\n  (0) INVALID_ARGUMENT:  Too short\n\t [[{{node a}}]]\n"
            "\t [[b]]\n  (1) INVALID_ARGUMENT:  Too short\n\t [[{{node a}}]]\n"
            "0 successful operations.",
            "Too short",
        ),
        ("assertion failed: [x must be positive] [Condition x > 0]", None),
        ("", "InvalidArgumentError"),
    ],
)
def test_only_the_sentence_of_the_operation_is_told(message, sentence):
    sentence = sentence or message.split("}} ")[-1].split(" [Op:")[0]

    error = from_operation(tf.errors.InvalidArgumentError(None, None, message))

    assert error.message == f"The model could not compute this request: {sentence}"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (tf.errors.InvalidArgumentError, 400),
        (tf.errors.FailedPreconditionError, 400),
        (tf.errors.OutOfRangeError, 400),
        (tf.errors.DeadlineExceededError, 504),
        (tf.errors.ResourceExhaustedError, 429),
        (tf.errors.UnavailableError, 503),
        (tf.errors.UnimplementedError, 501),
        (tf.errors.InternalError, 500),
        (tf.errors.DataLossError, 500),
    ],
)
def test_every_error_class_has_its_status(error, status):
    assert from_operation(error(None, None, "x")).status == status


def test_an_error_outside_tensorflow_is_the_server_s():
    assert from_operation(KeyError("x")).status == 500
