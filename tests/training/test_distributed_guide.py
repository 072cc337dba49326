"""The commands and the code of the guide to distributed training."""

import json
import re
import shlex
import sys

import pytest
from processes import ROOT, finish, free_ports, start

GUIDE = (ROOT / "docs" / "distributed_training.md").read_text(encoding="utf-8")


def _terminals() -> list[tuple[dict, list[str]]]:
    """TF_CONFIG and the command of each of the two terminals."""
    section = GUIDE.split("## Two terminals")[1].split("\n## ")[0]
    found = []
    for block in re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL):
        _, export, command = block.strip().splitlines()
        config = shlex.split(export)[1].removeprefix("TF_CONFIG=")
        found.append((json.loads(config), shlex.split(command)))
    return found


def test_two_terminals_train_together(tmp_path):
    terminals, ports = _terminals(), free_ports(2)
    assert len(terminals) == 2
    processes = []
    for config, (program, *arguments) in terminals:
        assert program == "keras-attn"
        config["cluster"]["worker"] = [f"127.0.0.1:{port}" for port in ports]
        arguments[arguments.index("--steps") + 1] = "2"
        processes.append(
            start(
                "-c",
                "from keras_attn.cli import main; main()",
                *arguments,
                environment={"TF_CONFIG": json.dumps(config)},
                cwd=tmp_path,
            )
        )
    (code, _, shown), (other_code, _, silent) = finish(processes)
    assert (code, other_code) == (0, 0), shown + silent
    assert "step 2 of 2" in shown
    assert silent == ""
    assert (tmp_path / "runs/two/last.npz").is_file()
    assert not (tmp_path / "runs/two/worker-1/last.npz").exists()


def test_the_python_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python keras_attn\n(.*?)```", GUIDE, flags=re.DOTALL)
    names = {}
    exec(compile("\n".join(blocks), "distributed_training.md", "exec"), names)
    assert names["run"].last_checkpoint.is_file()
    assert names["pace"].step == 40
    (profile,) = (tmp_path / "runs/mine/profile").rglob("*.xplane.pb")
    assert profile.stat().st_size > 0


@pytest.mark.parametrize("kind", ["yaml", "bash"])
def test_the_json_in_the_other_launches_is_json(kind):
    """Each shell line that makes TF_CONFIG, run by a shell."""
    import subprocess

    section = {"yaml": "## Kubernetes", "bash": "## Slurm"}[kind]
    text = GUIDE.split(section)[1].split("\n## ")[0]
    (export,) = re.findall(r"export TF_CONFIG=.*?\}\}['\"]$", text, flags=re.DOTALL | re.MULTILINE)
    before = 'HOSTNAME=train-1 SLURM_PROCID=1; workers=\'"a:2222","b:2222"\';'
    reply = subprocess.run(
        ["bash", "-c", f'{before} {export}; {sys.executable} -c "{_PRINT}"'],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    config = json.loads(reply.stdout)
    assert config["task"] == {"type": "worker", "index": 1}
    assert len(config["cluster"]["worker"]) == 2


_PRINT = "import os; print(os.environ['TF_CONFIG'])"
