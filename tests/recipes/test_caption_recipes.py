"""The recipes that write captions: canvases with digits, and somebody's own pictures."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_attn.cli import main
from keras_attn.data.caption_files import of_split, read_captions
from keras_attn.data.digit_captions import digit_scenes, mass_on_digits
from keras_attn.data.digits import mnist
from keras_attn.errors import UserError
from keras_attn.recipes import make_recipe
from keras_attn.recipes.caption_quality import bleu_of_captions
from keras_attn.training import RunDirectory

SMALL = {"embedding_dim": 16, "decoder_units": 32, "attention_units": 32}
BRIGHTNESS = np.array([70, 150, 250])  # of the digits zero, one and two, which are squares here


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Stands for MNIST: three digits in few images."""
    directory = tmp_path_factory.mktemp("digits")
    labels = np.arange(48) % 3
    images = np.zeros((48, 28, 28), np.uint8)
    images[:, 4:24, 4:24] = BRIGHTNESS[labels][:, None, None]
    np.savez(directory / "mnist.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_ATTN_DATA", str(directory))
        yield directory


def test_what_is_evaluated_is_what_was_said_of_each_canvas_and_where_it_looked(digits):
    recipe = make_recipe("digit-captions", filters=2, **SMALL)
    scenes = digit_scenes(*mnist("test"), 3, 7)
    words = [caption.decode().split() for caption in scenes.captions.numpy()]
    maps = np.zeros((3, 6, 2, 2), np.float32)
    maps[:, :, 0, 0] = 1.0
    told = {
        "caption": tf.constant([" ".join(words[0]), "nine above nine", " ".join(words[2])]),
        "lengths": tf.constant([len(each) + 1 for each in words]),
        "maps": tf.constant(maps),
    }

    class Says:
        describe = staticmethod(lambda images: told)

    found = recipe.measured(Says, scenes)
    assert found["exact_match"] == pytest.approx(2 / 3)
    corner = mass_on_digits(maps[:, :1], scenes.corners, 56)[:, 0]  # of both digits
    assert found["attention"] == pytest.approx(np.mean(corner[[0, 2]]))


def test_a_line_is_a_canvas_by_its_number_or_a_picture(digits, tmp_path):
    recipe = make_recipe("digit-captions", filters=4, **SMALL)
    nowhere = RunDirectory("nowhere")
    model = recipe.text_model(recipe.build(nowhere), nowhere)
    numbers, captions = recipe.validation_texts(3)
    assert numbers == ["0", "1", "2"]
    assert all(
        set(caption.split()) <= {*model.tokenizer.pieces([[*range(17)]]).numpy()[0].astype(str)}
        for caption in captions
    )
    image = recipe.image_of("1")
    path = tmp_path / "1.png"
    path.write_bytes(tf.io.encode_png(np.round(image * 255).astype(np.uint8)).numpy())
    np.testing.assert_allclose(recipe.image_of(str(path)), image, atol=1e-5)
    assert model.answers(["1"]) == model.answers([str(path)])
    figure = recipe.plot(model, ["0", str(path)])
    assert sum(bool(axes.get_images()) for axes in figure.axes) >= 4
    with pytest.raises(UserError, match=r"500 canvases.*Received: 500"):
        recipe.image_of("500")
    assert recipe.score(["one above two", "two"], ["one above two ", "one"]) == {"exact_match": 0.5}


def _write_pictures(directory, number=24):
    generator = np.random.default_rng(1)
    for name in range(number):
        picture = generator.integers(0, 255, (9, 7, 3), np.uint8)
        (directory / f"{name}.png").write_bytes(tf.io.encode_png(picture).numpy())


def test_own_pictures_are_learned_scored_and_exported(tmp_path):
    _write_pictures(tmp_path)
    tsv = tmp_path / "captions.tsv"
    lines = [f"{name}.png\tA {color} square." for name in range(24) for color in ("red", "dark")]
    tsv.write_text("\n".join(lines))
    run = tmp_path / "run"
    files = ("--images", tmp_path, "--captions", tsv)
    sizes = ("--image-size", 32, "--filters", 2, "--embedding-dim", 8, "--decoder-units", 8)
    _done("train", "captions", "--run", run, *files, *sizes, "--attention-units", 4, "--steps", 2)
    found = _done("evaluate", "--run", run)
    assert "pictures for validation" in found.stderr
    assert "bleu: " in found.stdout
    _done("export", "--run", run, "--directory", tmp_path / "models")
    served = tf.saved_model.load(str(tmp_path / "models" / "1")).signatures["serving_default"]
    told = served(image_bytes=tf.constant([(tmp_path / "1.png").read_bytes()]))
    assert told["maps"].shape[2:] == (2, 2)
    assert set(json.loads((run / "words.json").read_text())) == {"a", "red", "dark", "square"}


def test_a_picture_that_is_missing_or_broken_is_named_before_anything_is_learned(tmp_path):
    _write_pictures(tmp_path, 20)
    lines = [f"{name}.png\tsomething" for name in range(20)]
    tsv = tmp_path / "captions.tsv"
    tsv.write_text("\n".join([*lines, "gone.png\tnothing"]))
    options = ("--images", tmp_path, "--captions", tsv, "--steps", 1, "--run", tmp_path / "run")
    said = _run("train", "captions", *options)
    assert said.exit_code == 2
    assert f"{tmp_path / 'gone.png'} cannot be read" in said.stderr
    tsv.write_text("\n".join(lines))
    (tmp_path / "13.png").write_bytes(b"\x89PNG but no picture")
    said = _run("train", "captions", *options)
    assert f"{tmp_path / '13.png'} is broken or no picture" in said.stderr
    assert "Traceback" not in said.stderr
    with pytest.raises(UserError, match="--images DIR and --captions FILE"):
        make_recipe("captions")


def test_a_given_encoder_is_kept_with_the_run_and_not_trained(tmp_path):
    _write_pictures(tmp_path, 20)
    tsv = tmp_path / "captions.tsv"
    tsv.write_text("\n".join(f"{name}.png\tthe picture {name % 2}" for name in range(20)))
    encoder = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(3, 4, strides=4)])
    encoder.save(tmp_path / "mine.keras")
    options = {"images": tmp_path, "captions": tsv, "image_size": 32, "least_count": 1, **SMALL}
    recipe = make_recipe("captions", encoder=tmp_path / "mine.keras", **options)
    (tmp_path / "run").mkdir()
    run = RunDirectory(tmp_path / "run")
    recipe.prepare(run)
    (tmp_path / "mine.keras").unlink()
    model = recipe.build(run)
    assert model.grid == (8, 8)
    assert not any("conv2d" in variable.path for variable in model.trainable_variables)
    inputs, labels, mask = next(iter(recipe.batches(run)))
    assert inputs["images"].shape[1:] == (32, 32, 3)
    assert labels.shape == mask.shape == inputs["target"].shape
    np.testing.assert_array_equal(
        labels[:, :-1] * mask[:, 1:], inputs["target"][:, 1:] * mask[:, 1:]
    )
    (tmp_path / "mine.keras").write_text("no model")
    with pytest.raises(UserError, match=r"mine\.keras"):
        make_recipe("captions", encoder=tmp_path / "mine.keras", **options).prepare(
            RunDirectory(tmp_path / "other")
        )


def test_karpathys_json_says_which_pictures_are_for_what(tmp_path):
    images = [
        {"filename": f"{number}.jpg", "split": split, "filepath": "val2014",
         "sentences": [{"raw": "A dog's bone."}, {"tokens": ["two", "dogs"]}]}
        for number, split in enumerate(["train", "restval", "val", "test"])
    ]  # fmt: skip
    file = tmp_path / "dataset.json"
    file.write_text(json.dumps({"images": images}))
    found = read_captions(file, "pictures")
    assert [each.split for each in found] == ["train", "train", "validation", "test"]
    assert found[0].file == "pictures/val2014/0.jpg"
    assert found[0].captions == ("a dog's bone", "two dogs")
    recipe = make_recipe("captions", images="pictures", captions=file)
    assert "split test" in recipe.test_data


def test_a_tsv_keeps_a_twentieth_of_its_pictures_for_validation(tmp_path):
    file = tmp_path / "captions.tsv"
    file.write_text("\n".join(f"{number}.jpg\tone, two" for number in range(60) for _ in "ab"))
    found = read_captions(file, tmp_path)
    assert len(found) == 60
    assert len(of_split(found, "validation")) == 3
    assert {each.captions for each in found} == {("one two", "one two")}


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.tsv", "1.jpg\tone\n2.jpg two", r"Line 2 of .*a\.tsv is not a file, a tab"),
        ("a.tsv", "1.jpg\tone", "no picture with a caption for validation"),
        ("a.json", '{"images": [{"filename": "1.jpg"}]}', r"a\.json is not Karpathy's JSON"),
        ("a.json", "[", r"a\.json is not Karpathy's JSON"),
        ("a.json", '{"images": []}', "no picture with a caption for train"),
    ],
)
def test_a_file_that_holds_no_captions_is_answered_in_a_sentence(name, text, sentence, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=sentence):
        read_captions(tmp_path / name, tmp_path)
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_captions(tmp_path / "gone.json", tmp_path)


def test_bleu_takes_captions_with_unequal_numbers_of_references():
    references = [["a red square on a table"], ["two dogs run on grass", "dogs are running there"]]
    right = bleu_of_captions(["a red square on a table", "dogs are running there"], references)
    wrong = bleu_of_captions(["a red square on a table", "two cats sleep there"], references)
    assert right["bleu"] == pytest.approx(100)
    assert 0 < wrong["bleu"] < 90
    assert "tok:none" in right["bleu_signature"]


def _run(*arguments, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def _done(*arguments, **options):
    result = _run(*arguments, **options)
    assert result.exit_code == 0, result.output
    return result
