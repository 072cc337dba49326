"""The README's code runs as it stands."""

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_the_python_of_the_readme_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) >= 3
    exec(compile("\n".join(blocks), "README.md", "exec"), {})
    assert (tmp_path / "models" / "mine" / "1" / "saved_model.pb").exists()


def test_every_file_that_the_readme_names_is_there():
    links = re.findall(r"\]\(((?!https?:)[^)#]+)\)", README)
    assert links
    missing = [link for link in links if not (Path(__file__).parents[1] / link).exists()]
    assert missing == []
