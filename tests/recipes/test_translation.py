"""The translation recipe on a corpus of a few lines: numbers in words to digits."""

import random

import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_attn.cli import main
from keras_attn.recipes import make_recipe
from keras_attn.recipes.run import load, train
from keras_attn.serving import export
from keras_attn.training import Budget, RunDirectory

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
STEPS = 400
NUMBERS = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]


def _write_corpus(directory, lines, seed):
    generator = random.Random(seed)
    digits = [
        [generator.randrange(10) for _ in range(generator.randint(1, 6))] for _ in range(lines)
    ]
    for name, words in (("en", WORDS), ("de", NUMBERS)):
        text = "".join(" ".join(words[digit] for digit in line) + "\n" for line in digits)
        (directory / f"{seed}.{name}").write_text(text, encoding="utf-8")
    return directory / f"{seed}.en", directory / f"{seed}.de"


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    directory = tmp_path_factory.mktemp("corpus")
    source, target = _write_corpus(directory, 2_000, 1)
    validation_source, validation_target = _write_corpus(directory, 40, 2)
    return {
        "source": source,
        "target": target,
        "validation_source": validation_source,
        "validation_target": validation_target,
        "vocabulary_size": 330,
    }


SMALL = {
    "embedding_dim": 48,
    "encoder_units": 32,
    "decoder_units": 48,
    "dropout": 0.0,
    "learning_rate": 2e-2,
    "warmup_steps": 20,
    "batch_tokens": 600,
}


@pytest.fixture(scope="module")
def run(settings, tmp_path_factory):
    run = RunDirectory(tmp_path_factory.mktemp("translation") / "run")
    recipe = make_recipe("translation", **settings, **SMALL)
    recipe.validations = 2
    assert train(recipe, run, Budget(steps=STEPS)) is None
    return run


def _run(*arguments, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def _one_sentence(result) -> str:
    """The last line of standard error; before it there may be what was done until then."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    line = result.stderr.strip().splitlines()[-1]
    assert line.startswith("Error: ")
    return line


def test_a_few_seconds_of_training_translate_new_sentences(run):
    recipe, text_model = load(run)
    found = recipe.evaluate(text_model)
    assert found["validation bleu"] > 50
    assert "version:" in found["validation bleu_signature"]
    assert found["validation chrf"] > 50


def test_the_exported_translator_takes_raw_text_and_gives_raw_text(run, tmp_path):
    _, text_model = load(run)
    served = tf.saved_model.load(str(export(text_model, tmp_path)))
    texts = tf.constant(["one two three", "", "ﬁve\u00a0 six", "😀", b"\xff", "x" * 10_000])
    found = served.signatures["serving_default"](text=texts)
    expected = text_model.translate(texts)
    assert found["text"].numpy().tolist() == expected["text"].numpy().tolist()


def test_the_run_keeps_what_became_of_the_lines(run):
    assert "2000 line pairs: 2000 kept, 0 with an empty side" in (run.path / "log.txt").read_text()


def test_predict_answers_in_order(run):
    lines = "".join(f"{WORDS[digit]}\n" for digit in [3, 1, 4, 1, 5])
    lines = b"\xef\xbb\xbf" + lines.encode() + b"\xff\r\x0bone\u2028\r\n\nlast"
    predicted = _run("predict", "--run", run.path, input=lines).stdout.split("\n")[:-1]
    assert len(predicted) == 8
    assert predicted[1] == predicted[3]
    assert predicted[0] != predicted[1]
    assert predicted[6] == ""


def test_tokenize_prints_pieces_and_merges(run):
    pieces = _run("tokenize", "--run", run.path, "one two").stdout
    assert "".join(pieces.split()) == "▁one▁two"
    merges = _run("tokenize", "--run", run.path, "--merges", 3).stdout.splitlines()
    assert len(merges) == 3
    assert all(" + " in merge and " = " in merge for merge in merges)


def test_other_settings_are_refused(run, settings):
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    other = _run("train", "translation", "--run", run.path, *flags)
    assert "other settings (batch_tokens 600 there, None now" in _one_sentence(other)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": None}, ["--source"]),
        ({"source": "missing.en"}, ["missing.en"]),
        ({"vocabulary_size": 50_000}, ["vocabulary", "at most"]),
        ({"target": "short"}, ["2000 lines", "3"]),
        ({"target": "latin1"}, ["line 2", "UTF-8"]),
    ],
    ids=["no source", "missing file", "vocabulary", "line counts", "undecodable"],
)
def test_bad_input_is_one_sentence_before_training(settings, tmp_path, change, words):
    (tmp_path / "short").write_text("eins\nzwei\ndrei\n")
    (tmp_path / "latin1").write_bytes(b"eins\nf\xfcnf\n" + b"eins\n" * 1_998)
    settings = {**settings, **change}
    if settings["target"] in ("short", "latin1"):
        settings["target"] = tmp_path / settings["target"]
    flags = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in settings.items()
        if value is not None
    ]
    sentence = _one_sentence(_run("train", "translation", "--run", tmp_path / "run", *flags))
    for word in words:
        assert word in sentence
    assert not list((tmp_path / "run").glob("*"))  # the corrected command may use it


def test_a_setting_of_another_recipe_is_one_sentence(tmp_path):
    result = _run("train", "dates", "--run", tmp_path, "--source", "x")
    assert "takes no --source" in _one_sentence(result)


def test_missing_multi30k_says_where_it_was_looked_for(tmp_path):
    environment = {"KERAS_ATTN_DATA": str(tmp_path / "data")}
    result = _run("train", "multi30k-rnnsearch", "--run", tmp_path / "run", env=environment)
    assert str(tmp_path / "data") in _one_sentence(result)
