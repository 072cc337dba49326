"""A captioner in front of people: image in, caption and maps out."""

import base64
import json
import urllib.error
import urllib.request

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.pictures import read_picture
from keras_attn.errors import UserError
from keras_attn.models import ShowAttendTell
from keras_attn.serving import CaptionModel, ModelConfig, export, running_server
from keras_attn.serving.answers import Search
from keras_attn.text import PieceTokenizer

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 8, 12, 1), np.uint8)
PIXELS = (IMAGES / 255).astype(np.float32)
PNG = [tf.io.encode_png(image).numpy() for image in IMAGES]


def _caption_model(channels=1, **search):
    keras.utils.set_random_seed(4)
    tokenizer = PieceTokenizer(["one", "above", "two"])
    model = ShowAttendTell(
        tokenizer.vocabulary_size, (8, 12, channels), embedding_dim=6, decoder_units=6,
        attention_units=6, filters=(4,),
    )  # fmt: skip
    generator = np.random.default_rng(2)
    for variable in model.trainable_variables:
        variable.assign(generator.normal(size=variable.shape, scale=1.0))
    return CaptionModel(model, tokenizer, 5, Search(**search))


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A model, its export loaded again, and the address of the server that serves it."""
    directory = tmp_path_factory.mktemp("captions")
    caption_model = _caption_model(beam_width=2)
    loaded = tf.saved_model.load(str(export(caption_model, directory)))
    with running_server([ModelConfig("captions", directory)], port=0) as url:
        yield caption_model, loaded.signatures, url


def test_an_export_says_of_bytes_and_of_numbers_what_the_model_says(served):
    caption_model, signatures, _ = served
    expected = caption_model.describe(PIXELS)
    by_numbers = signatures["pixels"](images=tf.constant(PIXELS))
    by_bytes = signatures["serving_default"](image_bytes=tf.constant(PNG))
    for told in (by_numbers, by_bytes):
        assert told.keys() == expected.keys()
        np.testing.assert_array_equal(told["captions"], expected["captions"])
        np.testing.assert_allclose(told["maps"], expected["maps"], atol=1e-5)
    assert expected["maps"].shape[2:] == (4, 6)
    assert len(set(expected["score"].numpy())) == 3  # of three different images
    nothing = signatures["serving_default"](image_bytes=tf.constant([], tf.string))
    assert nothing["caption"].shape == (0,)
    assert nothing["maps"].shape[0] == 0


def test_maps_are_weights_up_to_the_end_of_a_caption_and_nothing_behind(served):
    told = {name: value.numpy() for name, value in served[0].describe(PIXELS).items()}
    for words, maps, length in zip(told["words"], told["maps"], told["lengths"], strict=True):
        np.testing.assert_allclose(maps[:length].sum((1, 2)), 1.0, atol=1e-5)
        assert (maps[length:] == 0).all()
        assert (words[length:] == b"").all()


def test_a_picture_goes_over_rest_as_bytes_or_as_numbers_and_a_broken_one_is_refused(served):
    caption_model, _, url = served
    expected = caption_model.describe(PIXELS)
    rows = [{"b64": base64.b64encode(png).decode()} for png in PNG]
    by_bytes = _predict(url, {"instances": rows})["predictions"]
    numbers = {"signature_name": "pixels", "inputs": {"images": PIXELS.tolist()}}
    by_numbers = _predict(url, numbers)["outputs"]
    captions = [caption.decode() for caption in expected["caption"].numpy()]
    assert [row["caption"] for row in by_bytes] == by_numbers["caption"] == captions
    np.testing.assert_allclose([row["maps"] for row in by_bytes], expected["maps"], atol=1e-5)
    broken = [rows[0], {"b64": base64.b64encode(b"no picture").decode()}]
    with pytest.raises(urllib.error.HTTPError) as refused:
        _predict(url, {"instances": broken})
    assert refused.value.code == 400
    assert "image" in json.load(refused.value)["error"]


def _predict(url, request):
    body = json.dumps(request).encode()
    with urllib.request.urlopen(f"{url}/v1/models/captions:predict", body, timeout=60) as reply:
        return json.load(reply)


def test_a_jpeg_of_another_size_and_in_colours_is_read_grey_or_in_colours(tmp_path):
    picture = np.zeros((31, 20, 3), np.uint8)
    picture[:, 10:] = (200, 200, 200)
    (tmp_path / "a.jpg").write_bytes(tf.io.encode_jpeg(picture, quality=95).numpy())
    for channels in (1, 3):
        image = read_picture(tmp_path / "a.jpg", (8, 12, channels))
        assert image.shape == (8, 12, channels)
        assert abs(image[:, :5].mean()) < 0.03
        assert abs(image[:, 7:].mean() - 200 / 255) < 0.03
    ((image, words, maps),) = _caption_model().captions([str(tmp_path / "a.jpg")])
    assert image.shape == (8, 12, 1)
    assert maps.shape == (len(words), 4, 6)


def test_lines_are_paths_nothing_is_answered_with_nothing_and_a_bad_one_is_named(tmp_path):
    model = _caption_model(beam_width=3, n_best=2)
    (tmp_path / "a.png").write_bytes(PNG[0])
    line = str(tmp_path / "a.png")
    nothing, found = model.answers(["", line.encode()])
    assert nothing.texts == ("",)
    assert list(model.answer([line, "  "])) == [found.texts[0], ""]
    assert len(found.texts) == 2
    assert found.scores[0] >= found.scores[1]
    with pytest.raises(UserError, match=r"gone\.png cannot be read: No such file"):
        model.answers([str(tmp_path / "gone.png")])
    (tmp_path / "half.png").write_bytes(PNG[0][:40])
    (tmp_path / "text.png").write_text("no picture")
    for name in ("half.png", "text.png"):
        with pytest.raises(UserError, match=rf"{name} is broken or no picture"):
            model.answers([str(tmp_path / name)])


def test_a_model_of_five_channels_takes_numbers_alone():
    model = _caption_model(channels=5)
    assert set(model.signatures()) == {"serving_default", "pixels"}
    assert all("images" in request for _, request in model.warmup_requests())


@pytest.mark.parametrize(
    ("search", "sentence"),
    [
        ({"beam_width": 0}, "beam_width"),
        ({"n_best": 2}, "n_best must not exceed"),
        ({"length_penalty": 0.6}, "needs a beam"),
        ({"end_rule": "running"}, "needs a beam"),
        ({"beam_width": 2, "temperature": 1.0}, "not both"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(search, sentence, served):
    with pytest.raises(ValueError, match=rf"{sentence}.*Received: "):
        served[0].with_search(Search(**search))


def test_words_are_drawn_where_a_temperature_is_asked_for(served):
    drawn = served[0].with_search(Search(temperature=1.0, n_best=3)).describe(PIXELS)
    assert drawn["captions"].shape == (3, 3)
