"""The committed files for TensorFlow Serving agree with each other and with our own parser."""

import re
from pathlib import Path

from keras_attn.serving import LatestVersions, models_from_flags

_FOLDER = Path(__file__).parents[2] / "serving"


def test_the_model_configuration_is_read(tmp_path):
    (inside,) = models_from_flags(model_config_file=_FOLDER / "models.config")
    (here,) = models_from_flags(model_config_file=_FOLDER / "models.config", models_root=tmp_path)

    assert (inside.name, str(inside.base_path)) == ("dates", "/models/dates")
    assert inside.versions == LatestVersions(1)
    assert here.base_path == tmp_path / "dates"


def test_compose_and_the_docker_command_mount_what_the_configuration_names():
    (model,) = models_from_flags(model_config_file=_FOLDER / "models.config")
    compose = (_FOLDER / "compose.yaml").read_text()
    command = (_FOLDER / "README.md").read_text()

    mounted = re.findall(r"source: (\S.*)\n\s+target: (\S+)\n\s+read_only: true", compose)
    assert [target for _, target in mounted] == [str(model.base_path), "/config/models.config"]
    assert mounted[0][0].endswith("}/dates")
    assert (_FOLDER / mounted[1][0]).samefile(_FOLDER / "models.config")
    assert f"/dates:{model.base_path}:ro" in command
    assert "/serving/models.config:/config/models.config:ro" in command
    for text in (compose, command):
        assert "--model_config_file=/config/models.config" in text
        assert "127.0.0.1:8501:8501" in text
        assert re.findall(r"tensorflow/serving:\S+", text) == ["tensorflow/serving:2.19.1"]
