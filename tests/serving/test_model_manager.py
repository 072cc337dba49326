"""Following the versions on the disk."""

import shutil
import time

import pytest

from keras_attn.serving.errors import RequestError
from keras_attn.serving.model_config import AllVersions, ModelConfig
from keras_attn.serving.model_manager import ModelManager


@pytest.fixture
def manage(tmp_path, demo_directory):
    """Starts a manager that looks at the disk all the time, over a directory with version 1."""
    shutil.copytree(demo_directory / "1", tmp_path / "1")
    managers = []

    def start(**options):
        managers.append(ModelManager([ModelConfig("m", tmp_path, **options)], poll_seconds=0.01))
        return managers[-1]

    yield start
    for manager in managers:
        manager.close()


def _wait(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_broken_version_is_told_once_and_loaded_when_it_is_whole(
    manage, tmp_path, demo_directory, caplog
):
    manager = manage()
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "saved_model.pb").write_bytes(b"half")
    _wait(lambda: len(manager.status("m")["model_version_status"]) == 2)
    time.sleep(0.3)  # some thirty looks

    state = manager.status("m", version=2)["model_version_status"][0]
    assert (state["state"], state["status"]["error_code"]) == ("END", "UNKNOWN")
    assert manager.servable("m").version == 1
    assert len([line for line in caplog.messages if "Version 2" in line]) == 1

    shutil.copytree(demo_directory / "1", tmp_path / "2", dirs_exist_ok=True)
    _wait(lambda: manager.servable("m").version == 2)


def test_an_emptied_directory_keeps_what_serves(manage, tmp_path):
    manager = manage()
    shutil.rmtree(tmp_path / "1")
    time.sleep(0.2)

    assert manager.servable("m").version == 1


def test_a_deleted_version_is_let_go_when_others_are_left(manage, tmp_path, demo_directory):
    manager = manage(versions=AllVersions())
    shutil.copytree(demo_directory / "1", tmp_path / "5")
    _wait(lambda: manager.servable("m").version == 5)
    assert manager.servable("m", version=1).version == 1
    shutil.rmtree(tmp_path / "5")
    _wait(lambda: manager.servable("m").version == 1)

    with pytest.raises(RequestError) as caught:
        manager.servable("m", version=5)
    assert caught.value.status == 404
