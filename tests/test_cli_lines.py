"""Lines answered and scored on the command line, by a small `dates` model."""

import functools

import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_attn.cli import main
from keras_attn.recipes import make_recipe
from keras_attn.serving import TextModel

LINES = ["3. März 1998", "", "1/2/03", "x" * 70, "the 2nd of May, 1811", "  ", "le 14 juillet 1789"]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "lines"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _loaded_once(dates_run, dates_text_model, monkeypatch):
    """The commands get the model of the run without compiling it again."""
    recipe = make_recipe("dates", **dates_run.description()["settings"])

    def load(run, recipe_name):
        assert run.path == dates_run.path
        return recipe, dates_text_model

    monkeypatch.setattr("keras_attn.recipes.run.load", load)
    monkeypatch.setattr(TextModel, "with_search", functools.cache(TextModel.with_search))


def _run(*arguments, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def _answers(text_model, texts):
    return [text.decode() for text in text_model.translate(tf.constant(texts))["text"].numpy()]


def test_a_file_is_answered_into_a_file_in_its_order(dates_run, dates_text_model, lines, tmp_path):
    output = tmp_path / "answers"
    result = _run("predict", "--run", dates_run.path, "--input", lines, "--output", output)
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    assert "Lines answered 7 of 7" in result.stderr
    assert "the end was left out: 1 of the lines (4)" in result.stderr
    found = output.read_text(encoding="utf-8")
    assert found.splitlines() == _answers(dates_text_model, LINES)
    piped = _run("predict", "--run", dates_run.path, input=lines.read_text(encoding="utf-8"))
    assert piped.stdout == found
    scored = _run("predict", "--run", dates_run.path, "--input", lines, "--scores").stdout
    scores, texts = zip(*(line.split("\t") for line in scored.splitlines()), strict=True)
    assert list(texts) == found.splitlines()
    expected = dates_text_model.translate(tf.constant(LINES))["score"].numpy()
    assert [float(score) for score in scores] == pytest.approx(expected.tolist(), abs=1e-3)


def test_the_best_answers_of_a_beam_are_numbered(dates_run, lines):
    search = ("--beam-width", 3, "--n-best", 2, "--scores")
    found = _run("predict", "--run", dates_run.path, "--input", lines, *search).stdout.splitlines()
    rows = [line.split("\t") for line in found]
    assert [row[0] for row in rows] == list("112334455677")  # an empty line has one answer
    assert float(rows[0][1]) >= float(rows[1][1])
    assert rows[2] == ["2", "0.0000", ""]


def test_drawn_answers_come_back_with_their_seed(dates_run, lines):
    drawn = ("--input", lines, "--temperature", 2, "--top-k", 5, "--n-best", 3, "--seed", 3)
    first, again = (_run("predict", "--run", dates_run.path, *drawn).stdout for _ in range(2))
    assert first == again
    rows = [line.split("\t") for line in first.splitlines()]
    assert [row[0] for row in rows[:4]] == ["1", "1", "1", "2"]
    assert len({row[1] for row in rows[:3]}) > 1


def test_nothing_is_answered_with_nothing_everywhere(dates_run, dates_text_model, dates_base_path):
    predicted = _run("predict", "--run", dates_run.path, input="\n \t\n")
    assert predicted.stdout == "\n\n"
    served = tf.saved_model.load(str(dates_base_path / "1")).signatures["serving_default"]
    found = served(text=tf.constant(["", " \t"]))
    assert found["text"].numpy().tolist() == [b"", b""]
    assert found["score"].numpy().tolist() == [0.0, 0.0]
    ids = dates_text_model.translate_tokens(tf.zeros([1, 3], tf.int32), tf.constant([0]))
    assert ids["lengths"].numpy().tolist() == [0]
    assert [target for _, target, _ in dates_text_model.alignments([""])] == [["</s>"]]


def test_any_files_are_scored(dates_run, dates_text_model, tmp_path):
    texts = [line for line in LINES if line.strip()]
    dates = ["wrong", *_answers(dates_text_model, texts)[1:]]
    rows = [f'"{date}","{text}"' for date, text in zip(dates, texts, strict=True)]
    path = tmp_path / "pairs.csv"
    path.write_text("\n".join(["date,text", *rows]), encoding="utf-8")
    found = _run("evaluate", "--run", dates_run.path, "--csv", path, "--columns", "text,date")
    assert found.stdout == "exact_match: 0.8000\n"
    assert "Lines answered 5 of 5" in found.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--n-best", 2], "--n-best 2 needs a beam that keeps as many: give --beam-width 2"),
        (["--coverage-penalty", 0.2], "--coverage-penalty needs a beam"),
        (["--end-rule", "running"], "--end-rule running needs a beam"),
        (["--top-p", 0.5], "--top-p is of tokens that are drawn: give --temperature"),
        (["--temperature", 1, "--beam-width", 2], "leave --temperature or --beam-width out"),
        (["--input", "none"], "There is no file"),
    ],
)
def test_what_cannot_be_searched_or_read_is_one_sentence(dates_run, options, words):
    result = _run("predict", "--run", dates_run.path, *options)
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
