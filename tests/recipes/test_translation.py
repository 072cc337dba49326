"""The translation recipe on a corpus of a few lines: numbers in words to digits."""

import random
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_attn.analysis import sentence_maps
from keras_attn.cli import main
from keras_attn.errors import UserError
from keras_attn.recipes import make_recipe, require_recipe
from keras_attn.recipes.run import load, train
from keras_attn.recipes.settings import settings_of
from keras_attn.recipes.translation_settings import MODELS
from keras_attn.serving import export
from keras_attn.training import (
    Budget,
    RunDirectory,
    ValidationLimits,
    read_history,
    save_checkpoint,
)

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
STEPS = 400
NUMBERS = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]


FILES = ("source", "target", "validation_source", "validation_target")


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


SMALL_TRANSFORMER = {
    "model": "transformer",
    "dim": 48,
    "num_heads": 2,
    "intermediate_dim": 64,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "dropout": 0.0,
    "learning_rate": 1e-2,
    "warmup_steps": 20,
    "batch_tokens": 600,
}


@pytest.fixture(scope="module")
def transformer_run(settings, tmp_path_factory):
    """A run that was stopped on its way and went on."""
    run = RunDirectory(tmp_path_factory.mktemp("transformer") / "run")
    for steps in (150, 300):
        recipe = make_recipe("translation", **settings, **SMALL_TRANSFORMER)
        recipe.validations = 3
        assert train(recipe, run, Budget(steps=steps), tensorboard=run.path / "curves") is None
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


def test_a_transformer_learns_the_same_and_goes_on_where_it_stopped(transformer_run):
    recipe, text_model = load(transformer_run)
    assert recipe.evaluate(text_model)["validation bleu"] > 50
    entries = [entry for entry in read_history(transformer_run.path) if "bleu" in entry]
    assert [entry["step"] for entry in entries] == [50, 100, 150, 150, 200, 300, 300]
    assert [entry.get("averaged") for entry in entries] == [None] * 3 + [10] + [None] * 2 + [10]
    assert list((transformer_run.path / "curves").glob("events*"))


def test_every_step_of_a_run_is_recorded_once(transformer_run):
    entries = [entry for entry in read_history(transformer_run.path) if "loss" in entry]
    assert [entry["step"] for entry in entries] == list(range(1, 301))
    assert entries[-1]["loss"] < 0.7 * entries[0]["loss"]
    assert all(entry["tokens_per_second"] > 0 for entry in entries)
    assert entries[9]["learning_rate"] > entries[0]["learning_rate"] > 0


def test_a_validation_that_takes_too_long_scores_what_it_has(transformer_run, monkeypatch):
    monkeypatch.setattr("keras_attn.recipes.translation._BATCH", 10)
    recipe, text_model = load(transformer_run)
    assert "lines" not in recipe.validate(text_model)
    cut_short = recipe.validate(text_model, ValidationLimits(seconds=0.0))
    assert cut_short["lines"] == 10
    assert cut_short["bleu"] > 20
    young = recipe.validate(text_model, ValidationLimits(is_young=True))
    assert young["bleu"] > 20  # these sentences are as long as their translations


def test_the_curves_of_runs_are_drawn(run, transformer_run, tmp_path):
    picture = tmp_path / "curves.svg"
    result = _run("curves", run.path, transformer_run.path, "--output", picture)
    assert result.exit_code == 0, result.output
    drawn = picture.read_text()
    for title in ("training loss", "bleu", "chrf", "learning rate", "tokens a second"):
        assert f">{title}</text>" in drawn
    assert str(run.path) in drawn
    assert "no history" in _one_sentence(_run("curves", tmp_path, "--output", picture))


def test_the_better_of_best_and_average_is_loaded(transformer_run, tmp_path):
    run = RunDirectory(shutil.copytree(transformer_run.path, tmp_path / "run"))
    _, text_model = load(run)
    marked = text_model.model.weights[0].shape
    for average, best, expected in ((2.0, 1.0, 7.0), (1.0, 2.0, 8.0), (1.0, 1.0, 7.0)):
        scores = ((run.average_checkpoint, average, 7.0), (run.best_checkpoint, best, 8.0))
        for path, score, value in scores:
            text_model.model.weights[0].assign(np.full(marked, value))
            save_checkpoint(path, text_model.model, None, {"best": score})
        assert float(load(run)[1].model.weights[0][0, 0]) == expected


def test_heads_are_scored_and_drawn_on_the_command_line(transformer_run, run, tmp_path):
    picture = tmp_path / "heads.png"
    options = ["--attention", "memory", "--sentences", 20, "--output", picture, "one two three"]
    shown = _run("heads", "--run", transformer_run.path, *options).stdout.splitlines()
    assert [line.split(":")[0] for line in shown[:2]] == [
        "memory block 1 head 1",
        "memory block 1 head 2",
    ]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "without heads" in _one_sentence(_run("heads", "--run", run.path))


def test_heads_that_cannot_be_drawn_are_not_printed_either(transformer_run, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    options = ["--sentences", 5, "--output", tmp_path / "file" / "heads.png", "one two"]
    failed = _run("heads", "--run", transformer_run.path, *options)
    assert "Cannot write" in _one_sentence(failed)
    assert failed.stdout == ""


@pytest.fixture
def _loaded_once(run, monkeypatch):
    """The commands of a test get one model, compiled once."""
    found = load(run)
    monkeypatch.setattr("keras_attn.recipes.run.load", lambda directory, recipe_name: found)


@pytest.mark.usefixtures("_loaded_once")
def test_a_plot_without_texts_draws_the_first_validation_sentences(run, settings, tmp_path):
    picture, given = tmp_path / "plot.svg", tmp_path / "given.svg"
    drawn = _run("plot", "--run", run.path, "--output", picture)
    assert drawn.exit_code == 0, drawn.output
    first = settings["validation_source"].read_text(encoding="utf-8").splitlines()[:3]
    assert _run("plot", "--run", run.path, "--output", given, *first).exit_code == 0
    comments = "<!-- (.*?) -->"
    assert re.findall(comments, picture.read_text()) == re.findall(comments, given.read_text())


@pytest.mark.usefixtures("_loaded_once")
def test_evaluate_says_by_what_the_model_was_chosen_and_scores_any_files(run, settings, tmp_path):
    alone = _run("evaluate", "--run", run.path)
    assert "the validation text, by which the best checkpoint was chosen" in alone.stderr
    files = ("--source", settings["validation_source"], "--target", settings["validation_target"])
    given = _run("evaluate", "--run", run.path, *files)
    assert (
        given.stdout.replace("bleu", "validation bleu").replace("chrf", "validation chrf")
        == alone.stdout
    )
    assert "by which" not in given.stderr
    sides = [path.read_text(encoding="utf-8").splitlines() for path in files[1::2]]
    rows = [f"0\t{target}\t{source}\n" for source, target in zip(*sides, strict=True)]
    (tmp_path / "pairs.tsv").write_text("".join(rows), encoding="utf-8")
    columns = ("--tsv", tmp_path / "pairs.tsv", "--columns", "3,2")
    assert _run("evaluate", "--run", run.path, *columns).stdout == given.stdout
    searched = _run("evaluate", "--run", run.path, *columns, "--beam", 2, "--coverage-penalty", 0.1)
    assert float(searched.stdout.splitlines()[0].split(": ")[1]) > 50
    twice = _run("evaluate", "--run", run.path, "--source", files[1], "--target", files[1])
    assert "is given twice" in _one_sentence(twice)


def test_a_run_on_other_data_begins_with_the_vocabulary_and_weights_of_another(
    run, settings, tmp_path
):
    sides = [settings[name].read_text(encoding="utf-8").splitlines() for name in FILES[2:]]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{one}\t{two}\n" for one, two in zip(*sides, strict=True)))
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    options = ("--tsv", pairs, "--validation-tsv", pairs, "--init-from", run.path, *sizes)
    tuned = tmp_path / "run"
    begun = _run("train", "translation", "--run", tuned, *options, "--steps", 1)
    assert begun.exit_code == 0, begun.output
    assert "Learning" not in begun.stderr
    assert "40 line pairs: 40 kept" in begun.stderr
    assert "The validation text is the training text" in begun.stderr
    subwords = [path / "subwords.model" for path in (tuned, run.path)]
    assert subwords[0].read_bytes() == subwords[1].read_bytes()
    (scores,) = (entry for entry in read_history(tuned) if "bleu" in entry)
    assert scores["bleu"] > 50  # after one step
    options = ("--run", tmp_path / "other", *options, "--vocabulary-size=300")
    other = _run("train", "translation", *options)
    assert "a vocabulary of 330 subwords, not of 300" in _one_sentence(other)


def test_a_default_vocabulary_shrinks_to_what_the_text_allows(settings, tmp_path):
    files = {name: path for name, path in settings.items() if name != "vocabulary_size"}
    run = RunDirectory(tmp_path / "run")
    run.begin("translation", {})
    recipe = make_recipe("translation", **files)
    recipe.prepare(run)
    size = recipe._subwords.tokenizer(run).vocabulary_size
    assert 330 < size < 1_000
    assert f"The text allows {size} subwords" in (run.path / "log.txt").read_text()
    other = make_recipe("translation", **files, vocabulary_size=300)
    with pytest.raises(UserError, match=f"a vocabulary of {size} subwords, not of 300"):
        other.build(run)


def test_maps_of_heads_have_the_tokens_of_their_sentences(transformer_run):
    _, text_model = load(transformer_run)
    maps = sentence_maps(text_model, ["one two", "nine"], ["eins zwei", "neun"])
    queries, keys, weights = maps["memory"][0][1]
    assert "".join(keys) == "▁nine</s>"
    assert "".join(queries) == "<s>▁neun"
    assert weights.shape == (2, len(queries), len(keys))
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    queries, keys, weights = maps["decoder"][0][0]
    assert queries == keys
    np.testing.assert_array_equal(np.triu(weights[0], 1), 0)


def test_training_ends_early_when_it_gets_no_better(settings, tmp_path):
    recipe = make_recipe("translation", **settings, **SMALL_TRANSFORMER)
    recipe.validations, recipe.validate = 5, lambda text_model, limits=None: {"bleu": 1.0}
    run = RunDirectory(tmp_path / "run")
    assert train(recipe, run, Budget(steps=20), patience=2) is None
    steps = [entry["step"] for entry in read_history(run.path) if "bleu" in entry]
    assert steps == [4, 8, 12, 12]
    recorded = run.history.read_text()
    assert train(recipe, run, Budget(steps=20), patience=2) is None  # it stays ended
    assert run.history.read_text() == recorded


def test_published_pieces_are_scored_as_words_and_exported_as_ids(tmp_path, monkeypatch):
    _write_pieces(tmp_path / "data" / "multi30k_bpe_wu2021" / "en-de")
    monkeypatch.setenv("KERAS_ATTN_DATA", str(tmp_path / "data"))
    small = {name: value for name, value in SMALL_TRANSFORMER.items() if name != "model"}
    recipe, run = make_recipe("multi30k-pieces", **small), RunDirectory(tmp_path / "run")
    recipe.validations = 1
    assert train(recipe, run, Budget(steps=300)) is None
    recipe, text_model = load(run)
    found = recipe.evaluate(text_model)
    assert found["test2016 bleu"] > 50
    assert "case:lc" in found["test2016 bleu_signature"]
    assert "tok:none" in found["test2016 bleu_signature"]
    (answer,) = text_model.answer(["pul@@ ley two pul@@ ley two"])
    assert set(answer.split()) <= {"rolle", "zwei"}
    served = tf.saved_model.load(str(export(text_model, tmp_path / "models")))
    assert list(served.signatures) == ["tokens"]


def _write_pieces(directory):
    directory.mkdir(parents=True)
    generator = random.Random(3)
    for split, lines in (("train", 500), ("valid", 20), ("test.2016", 20)):
        texts = [generator.choices([0, 1], k=4) for _ in range(lines)]
        for language, words in (("en", ["pul@@ ley", "two"]), ("de", ["rol@@ le", "zwei"])):
            text = "".join(" ".join(words[word] for word in line) + "\n" for line in texts)
            (directory / f"{split}.{language}").write_text(text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "lstm"}, "There is no model 'lstm'; there are rnnsearch, transformer, gnmt"),
        ({"model": "transformer", "encoder_units": 3}, "transformer takes no --encoder-units"),
        ({"num_heads": 2}, "rnnsearch takes no --num-heads"),
        ({"schedule": "cosine"}, "no schedule 'cosine'; there are linear, inverse_square_root"),
    ],
    ids=["model", "other model", "default model", "schedule"],
)
def test_options_that_do_not_fit_the_model_are_one_sentence(settings, options, words):
    with pytest.raises(UserError, match=words):
        make_recipe("translation", **settings, **options)


def test_every_option_of_a_model_can_be_set():
    for model in MODELS:
        require_recipe("translation", settings_of(MODELS[model]))
    for model, recipe in (("rnnsearch", "multi30k-rnnsearch"), ("transformer", "multi30k-pieces")):
        require_recipe(recipe, settings_of(MODELS[model]))


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
    lines = b"\xef\xbb\xbf" + lines.encode() + b"\xff\r\x0bone" + "\u2028\r\n\nlast".encode()
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
    other = _run("train", "translation", "--run", run.path, *flags, "--batch-tokens", 512)
    assert "other settings (batch_tokens 600 there, 512 now" in _one_sentence(other)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": None}, ["--source"]),
        ({"source": "missing.en"}, ["missing.en"]),
        ({"vocabulary_size": 50_000}, ["vocabulary", "at most"]),
        ({"target": "short"}, ["2000 lines", "3"]),
        ({"target": "latin1"}, ["line 2", "UTF-8"]),
        (
            {"source": "long", "target": "long"},
            ["of 6 lines 2 are empty and 4 are longer than 4192 bytes"],
        ),
        ({"target": "blank"}, ["2000 have an empty side, 0 one of more than 128 tokens"]),
        ({"validation_target": "missing.de"}, ["missing.de"]),
        ({"validation_target": "short"}, ["40 lines", "3"]),
        ({"validation_target": "blank", "validation_source": "blank"}, ["of 2000 lines none has"]),
        ({"validation_target": "empty", "validation_source": "empty"}, ["of 0 lines none has"]),
    ],
    ids=[
        "no source", "missing file", "vocabulary", "line counts", "undecodable", "long lines",
        "one side blank", "missing validation", "validation counts", "blank validation",
        "empty validation",
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_before_training(settings, tmp_path, change, words):
    (tmp_path / "short").write_text("eins\nzwei\ndrei\n")
    (tmp_path / "latin1").write_bytes(b"eins\nf\xfcnf\n" + b"eins\n" * 1_998)
    (tmp_path / "long").write_text(f"{'eins ' * 900}\n{'x' * 70_000}\n \n")
    (tmp_path / "blank").write_text(" \n" * 2_000)
    (tmp_path / "empty").write_text("")
    written = {name: tmp_path / name for name in ("short", "latin1", "long", "blank", "empty")}
    settings = {**settings, **change}
    settings = {name: written.get(value, value) for name, value in settings.items()}
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
