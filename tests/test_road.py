"""The main job end to end: trained, exported, reloaded by others, asked over HTTP."""

import base64
import json
import subprocess
import sys
import urllib.request

import numpy as np
import tensorflow as tf
from road import ODD_TEXTS, as_bytes

from keras_attn.data.dates import write_dates
from keras_attn.recipes.dates import Dates
from keras_attn.serving import models_from_flags, running_server

RELOAD = """
import base64, json, sys
import tensorflow as tf
import tensorflow_text
assert not any(name.startswith("keras_attn") for name in sys.modules)
model = tf.saved_model.load(sys.argv[1])
texts = [base64.b64decode(text) for text in json.load(sys.stdin)]
answers = model.signatures["serving_default"](text=tf.constant(texts, tf.string))
print(json.dumps([base64.b64encode(a).decode() for a in answers["text"].numpy()]))
"""


def _answers(model, texts):
    return model.translate(tf.constant(texts, tf.string))["text"].numpy()


def test_a_few_seconds_of_training_read_most_unseen_dates(dates_text_model):
    assert Dates().evaluate(dates_text_model, 300)["exact_match"] > 0.3


def test_a_process_with_tensorflow_alone_gives_the_same_answers(dates_text_model, dates_base_path):
    texts = as_bytes([*(text for text, _ in write_dates(100, 5, "test")), *ODD_TEXTS])
    request = json.dumps([base64.b64encode(text).decode() for text in texts])
    reply = subprocess.run(
        [sys.executable, "-c", RELOAD, str(dates_base_path / "1")],
        input=request, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert reply.returncode == 0, reply.stderr
    found = [base64.b64decode(answer) for answer in json.loads(reply.stdout.splitlines()[-1])]
    assert found == _answers(dates_text_model, texts).tolist()


def test_the_server_answers_what_the_model_answers(dates_text_model, dates_base_path):
    texts = ["3. März 1998", "", "the 2nd of May, 1811"]
    expected = [answer.decode() for answer in _answers(dates_text_model, texts)]
    models = models_from_flags(model_name="dates", model_base_path=dates_base_path)
    with running_server(models) as address:
        for body, key in (({"instances": texts}, "predictions"), ({"inputs": texts}, "outputs")):
            with urllib.request.urlopen(
                f"{address}/v1/models/dates:predict", json.dumps(body).encode()
            ) as reply:
                content = json.load(reply)[key]
            if key == "predictions":
                assert [row["text"] for row in content] == expected
                assert all(isinstance(row["score"], float) for row in content)
            else:
                assert content["text"] == expected
        alignment_request = {"signature_name": "attention", "instances": texts}
        with urllib.request.urlopen(
            f"{address}/v1/models/dates:predict", json.dumps(alignment_request).encode()
        ) as reply:
            rows = json.load(reply)["predictions"]
    for text, row in zip(texts, rows, strict=True):
        assert row["source_lengths"] == len(text) + 1
        weights = np.array(row["alignment"])[: row["target_lengths"]]
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
        np.testing.assert_array_equal(weights[:, row["source_lengths"] :], 0)
