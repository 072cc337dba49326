import pytest
from click.testing import CliRunner

from keras_attn.cli import main
from keras_attn.cli.train import train as train_command
from keras_attn.data.multi30k import SPLITS
from keras_attn.errors import UserError
from keras_attn.recipes import make_recipe


@pytest.fixture
def _three_languages(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_ATTN_DATA", str(tmp_path))
    (tmp_path / "multi30k").mkdir()
    for split in SPLITS:
        for language in ("en", "de", "fr"):
            (tmp_path / "multi30k" / f"{split}.{language}").write_text(f"{language} {split}\n")


@pytest.mark.parametrize("name", ["multi30k-rnnsearch", "multi30k-transformer"])
@pytest.mark.usefixtures("_three_languages")
def test_a_recipe_reads_the_languages_that_it_is_given_and_german_of_english_else(name):
    assert make_recipe(name).validation_texts() == (["en val"], ["de val"])
    recipe = make_recipe(name, languages=("fr", "en"))
    assert recipe.validation_texts() == (["fr val"], ["en val"])
    assert recipe.settings["languages"] == "fr en"  # a run of others is another run
    assert "chien" in " ".join(recipe.samples)


@pytest.mark.parametrize("languages", [("en", "en"), ("en", "cs"), ("xx", "de")])
def test_languages_that_multi30k_does_not_have_are_refused(languages):
    with pytest.raises(UserError, match=f"There is no languages '{' '.join(languages)}'"):
        make_recipe("multi30k-rnnsearch", languages=languages)


@pytest.mark.usefixtures("_three_languages")
def test_both_languages_are_typed_behind_one_option(tmp_path):
    arguments = ["train", "multi30k-rnnsearch", "--languages", "fr", "cs", "--run", str(tmp_path)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "There is no languages 'fr cs'; there are en de, en fr, de en" in result.output
    shown = CliRunner().invoke(main, ["train", "multi30k-rnnsearch", "--help"]).output
    assert "[default: en de]" in " ".join(shown.split())
    command = train_command.get_command(None, "multi30k-rnnsearch")
    given = command.make_context("train", ["--languages", "fr", "en"]).params
    assert given["languages"] == "fr en"
