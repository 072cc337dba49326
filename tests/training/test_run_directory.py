import pytest

from keras_attn.errors import UserError
from keras_attn.training import RunDirectory


def test_a_directory_is_claimed_once_and_goes_on_with_the_same_settings(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.begin("dates", {"seed": 1, "shape": (2, 3)})
    run.begin("dates", {"seed": 1, "shape": (2, 3)})
    assert run.description() == {"recipe": "dates", "settings": {"seed": 1, "shape": [2, 3]}}


def test_another_recipe_is_refused(tmp_path):
    RunDirectory(tmp_path).begin("dates", {})
    with pytest.raises(UserError, match=r"recipe 'dates', not of 'adding'; choose another"):
        RunDirectory(tmp_path).begin("adding", {})


def test_other_settings_are_refused_and_named(tmp_path):
    RunDirectory(tmp_path).begin("dates", {"seed": 1, "units": 3})
    with pytest.raises(UserError, match=r"\(seed 1 there, 2 now\)"):
        RunDirectory(tmp_path).begin("dates", {"seed": 2, "units": 3})


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"recipe": "dates"}', "\udcff"])
def test_a_directory_with_broken_settings_is_one_sentence(tmp_path, content):
    (tmp_path / "settings.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=r"settings\.json"):
        RunDirectory(tmp_path).description()


def test_a_directory_that_is_no_run_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match="not a run directory"):
        RunDirectory(tmp_path).description()
