import json

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


def test_what_is_told_of_steps_that_were_lost_goes(tmp_path):
    run = RunDirectory(tmp_path)
    for step in (2, 4, 6):
        run.record({"step": step, "score": 0.5})
        run.log(f"step {step}: score 0.5")
    run.flush()
    run.log("average of 3 checkpoints")
    with run.history.open("a") as file:
        file.write('{"step": 3, "sco')  # the process was killed here
    run.rewind(4)
    assert [json.loads(line)["step"] for line in run.history.read_text().splitlines()] == [2, 4]
    assert (tmp_path / "log.txt").read_text().splitlines() == [
        "step 2: score 0.5",
        "step 4: score 0.5",
        "average of 3 checkpoints",
    ]
