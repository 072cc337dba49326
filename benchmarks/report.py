"""Where every benchmark's figures go: a table on the screen and a file that says how they came."""

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def write_result(name: str, figures: dict, note: str = "") -> Path:
    """Write `results/NAME.json`: the figures, the command that made them, the machine."""
    return write_content(RESULTS / f"{name}.json", content_of(figures, note))


def content_of(figures: dict, note: str = "") -> dict:
    """The figures, the command that made them, and the machine."""
    command = " ".join(["python", *(os.path.relpath(sys.argv[0], Path.cwd()), *sys.argv[1:])])
    return {
        "command": command,
        "machine": {
            "cores": os.cpu_count(),
            "processor": platform.machine(),
            "python": platform.python_version(),
            "tensorflow": version("tensorflow"),
            "keras": version("keras"),
        },
        "note": note,
        "figures": figures,
    }


def write_content(path: Path, content: dict) -> Path:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    print(f"Wrote {path}")
    return path
