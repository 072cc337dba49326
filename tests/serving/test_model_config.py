"""Model configuration: what is read, and one sentence for everything that cannot be."""

import subprocess
import sys

import pytest

from keras_attn.errors import UserError
from keras_attn.serving import (
    AllVersions,
    LatestVersions,
    SpecificVersions,
    models_from_flags,
    parse_model_config,
)

_ENTRY = 'name: "a" base_path: "/models/a" model_platform: "tensorflow"'


def _config(*entries: str) -> str:
    return "model_config_list {" + " ".join(f"config {{ {entry} }}" for entry in entries) + "}"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("", LatestVersions(1)),
        ("model_version_policy { }", LatestVersions(1)),
        ("model_version_policy { latest { } }", LatestVersions(1)),
        ("model_version_policy { latest { num_versions: 2 } }", LatestVersions(2)),
        ("model_version_policy { all { } }", AllVersions()),
        ("model_version_policy { specific { versions: 5 versions: 2 } }", SpecificVersions((2, 5))),
    ],
)
def test_version_policy_is_read(policy, expected):
    (model,) = parse_model_config(_config(f"{_ENTRY} {policy}"))

    assert model.versions == expected


def test_versions_are_selected_by_number_not_by_spelling():
    assert LatestVersions(2).select([9, 10, 2]) == [9, 10]
    assert AllVersions().select([9, 10, 2]) == [2, 9, 10]
    assert SpecificVersions((2, 4)).select([9, 10, 2]) == [2]


def test_labels_are_read_when_they_are_allowed():
    text = _config(f'{_ENTRY} version_labels {{ key: "stable" value: 3 }}')

    (model,) = parse_model_config(text, allow_version_labels=True)

    assert model.labels == {"stable": 3}


def test_models_root_stands_in_for_the_container_path(tmp_path):
    text = _config(
        _ENTRY,
        'name: "b" base_path: "/modelsother/b" model_platform: "tensorflow"',
    )

    inside, outside = parse_model_config(text, models_root=tmp_path)

    assert inside.base_path == tmp_path / "a"
    assert str(outside.base_path) == "/modelsother/b"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no model is listed"),
        ("model_config_list { }", "no model is listed"),
        ("model_config_list {", "line 1"),
        (_config('nam: "a"'), '"nam"'),
        (_config('base_path: "/a" model_platform: "tensorflow"'), "no name"),
        (_config('name: "a" base_path: "/a"'), "model_platform"),
        (_config('name: "a" base_path: "/a" model_platform: "pytorch"'), "'pytorch'"),
        (_config('name: "a" base_path: "a" model_platform: "tensorflow"'), "absolute base_path"),
        (_config('name: "a" model_platform: "tensorflow"'), "absolute base_path"),
        (_config('name: "a" base_path: "gs://b/a" model_platform: "tensorflow"'), "'gs://b/a'"),
        (_config(_ENTRY, _ENTRY), "two models are named 'a'"),
        (_config(f'{_ENTRY} version_labels {{ key: "x" value: 1 }}'), "--allow_version_labels"),
        (_config(f"{_ENTRY} model_version_policy {{ specific {{ }} }}"), "without versions"),
        ("custom_model_config { }", "custom_model_config"),
    ],
)
def test_a_bad_configuration_is_refused_in_one_sentence(tmp_path, text, words):
    file = tmp_path / "models.config"
    file.write_text(text)

    with pytest.raises(UserError) as caught:
        models_from_flags(model_config_file=file)

    message = str(caught.value)
    assert words in message
    assert str(file) in message
    assert "\n" not in message
    assert message.endswith(".")


def test_a_missing_or_unreadable_configuration_is_refused(tmp_path):
    with pytest.raises(UserError, match="cannot be read: No such file"):
        models_from_flags(model_config_file=tmp_path / "absent.config")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not text in UTF-8"):
        models_from_flags(model_config_file=tmp_path / "binary")


def test_one_model_is_named_by_flags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    (named,) = models_from_flags(model_name="m", model_base_path="out")
    (default,) = models_from_flags(model_base_path="/models/m", models_root="out")

    assert (named.name, named.base_path) == ("m", tmp_path / "out")
    assert (default.name, default.base_path) == ("default", tmp_path / "out" / "m")


def test_flags_that_contradict_each_other_or_name_nothing_are_refused():
    with pytest.raises(UserError, match="cannot be combined"):
        models_from_flags(model_config_file="c", model_name="m")
    with pytest.raises(UserError, match="No model was named"):
        models_from_flags(model_name="m")


def test_importing_serving_imports_nothing_heavy():
    code = (
        "import sys, keras_attn.serving as s; s.serve; s.models_from_flags;"
        "heavy = {'tensorflow', 'uvicorn', 'google.protobuf', 'numpy', 'keras'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
