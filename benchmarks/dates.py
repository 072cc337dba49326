"""The demo's claim: how long `keras-attn demo` takes, and how many unseen dates it reads.

python benchmarks/dates.py
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from report import write_result

KERAS_ATTN = [sys.executable, "-c", "from keras_attn.cli import main; main()"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--picture", type=Path, help="Where the demo's heat map goes.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        started = time.monotonic()
        demo = subprocess.run(
            [*KERAS_ATTN, "demo"], cwd=directory, check=True, stdout=subprocess.PIPE, text=True
        )
        seconds = time.monotonic() - started
        made = Path(directory) / "keras-attn-demo"
        if arguments.picture:
            shutil.copy(made / "alignment.png", arguments.picture)
        model = made / "models" / "dates" / "1"
        size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
    exact_match = float(re.search(r"exact_match: ([0-9.]+)", demo.stdout)[1])
    figures = {
        "exact_match_on_2000_unseen_dates": exact_match,
        "demo_seconds": round(seconds, 1),
        "saved_model_bytes": size,
    }
    print(figures)
    write_result("dates", figures, "target: exact match 0.995 in under 300 s")


if __name__ == "__main__":
    main()
