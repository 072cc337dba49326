"""Kills of a translation run in every part of its life, and whether it ends with the same bits.

    python benchmarks/kills.py [--kills 24] [--seed 1]

A small Transformer learns to read numbers: it learns its subwords, trains, is validated, and at the
end the average of its last checkpoints is validated. One run is left alone. Others are ended by a
signal at a random moment of a part that is named in turn, some of them twice, and are started
again until they are done. Then the last checkpoint, the average and the subwords are compared with
those of the run that was left alone. SIGKILL ends a process at once; SIGINT and SIGTERM once let it
finish its step, and SIGINT twice does not wait for that.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from report import write_result

PARTS = ("subwords", "training", "validating", "averaging")
SIGNALS = ("SIGKILL", "SIGKILL", "SIGINT", "SIGTERM", "SIGINT twice")
STEPS = 120
_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_NUMBERS = ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=Path, help="what the script starts itself with")
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train)
        return
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_corpora(directory)
        lasts, _ = lengths_of_parts(directory / "whole")
        print({part: f"{seconds:.1f} s" for part, seconds in lasts.items()}, flush=True)
        figures = killed_runs(directory, lasts, arguments.kills, random.Random(arguments.seed))
    print(figures)
    note = f"{STEPS} steps; seconds of the parts of the run that was left alone: " + ", ".join(
        f"{part} {seconds:.1f}" for part, seconds in lasts.items()
    )
    write_result("kills", figures, note)


def killed_runs(directory: Path, lasts: dict, kills: int, chance: random.Random) -> dict:
    """Runs that are ended in each part in turn; how many there were, and how many differ."""
    expected = contents(directory / "whole")
    counts, differing, refused = Counter(), [], []
    for number in range(kills):
        part, name = PARTS[number % len(PARTS)], SIGNALS[number % len(SIGNALS)]
        run = directory / f"killed-{number}"
        moment = chance.uniform(0, lasts[part])
        ended = ended_in(run, part, moment, name)
        counts[f"{part}, {name}" if ended else "done before the signal came"] += 1
        _, errors = lengths_of_parts(run)
        if "Traceback" in errors:
            refused.append(f"{part} after {moment:.2f} s by {name}: {errors.splitlines()[-1]}")
        if contents(run) != expected:
            differing.append(f"{part} after {moment:.2f} s by {name}")
        print(f"{number + 1}: {part} after {moment:.2f} s by {name}", differing, flush=True)
    return {"kills": dict(sorted(counts.items())), "differ": differing, "tracebacks": refused}


def contents(run: Path) -> dict:
    """Every variable that the run ended with, and its subwords."""
    found = {"subwords": (run / "subwords.model").read_bytes()}
    for name in ("last", "best", "average"):
        with np.load(run / f"{name}.npz") as arrays:
            for key in arrays:
                if not key.startswith("progress/") or key == "progress/step":
                    found[f"{name} {key}"] = arrays[key].tobytes()
    return found


def started(run: Path) -> subprocess.Popen:
    command = [sys.executable, __file__, "--train", str(run)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    )


def lengths_of_parts(run: Path) -> tuple[dict[str, float], str]:
    """Let a run end; seconds of the longest stretch of each of its parts, and what it said."""
    process, lasts = started(run), dict.fromkeys(PARTS, 0.0)
    part, began = None, time.monotonic()
    for line in process.stdout:
        now = time.monotonic()
        if part in lasts:
            lasts[part] = max(lasts[part], now - began)
        part, began = line.strip(), now
    _, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"The run in {run} did not end:\n{errors}")
    return lasts, errors


def ended_in(run: Path, part: str, moment: float, name: str) -> bool:
    """Start a run and end it so many seconds after a part began; False if it was faster."""
    process = started(run)
    for line in process.stdout:
        if line.strip() == part:
            break
    time.sleep(moment)
    if process.poll() is not None:
        return False
    number, *again = name.split()
    process.send_signal(signal.Signals[number])
    if again:
        time.sleep(0.05)
        if process.poll() is None:
            process.send_signal(signal.Signals[number])
    process.communicate()
    return process.returncode != 0


def write_corpora(directory: Path) -> None:
    for name, lines, seed in (("train", 20_000, 1), ("validation", 400, 2)):
        chance = random.Random(seed)
        rows = [[chance.randrange(10) for _ in range(chance.randint(1, 9))] for _ in range(lines)]
        for language, words in (("en", _WORDS), ("de", _NUMBERS)):
            text = "".join(" ".join(words[digit] for digit in row) + "\n" for row in rows)
            (directory / f"{name}.{language}").write_text(text, encoding="utf-8")


def train(path: Path) -> None:
    """Train in this process, and print the name of each part when it begins."""
    from keras_attn.recipes import make_recipe, run
    from keras_attn.recipes.translation_subwords import LearnedSubwords
    from keras_attn.training import Budget, RunDirectory

    def telling(part, function, then="training"):
        def told(*arguments, **options):
            print(part, flush=True)
            try:
                return function(*arguments, **options)
            finally:
                print(then, flush=True)

        return told

    places = {
        "source": path.parent / "train.en",
        "target": path.parent / "train.de",
        "validation_source": path.parent / "validation.en",
        "validation_target": path.parent / "validation.de",
    }
    recipe = make_recipe(
        "translation", **places, vocabulary_size=330, model="transformer", dim=32, num_heads=2,
        intermediate_dim=64, encoder_layers=1, decoder_layers=1, batch_tokens=600,
    )  # fmt: skip
    recipe.validations = 4
    LearnedSubwords.prepare = telling("subwords", LearnedSubwords.prepare)
    validate, keep_average = recipe.validate, run._keep_average
    recipe.validate = telling("validating", validate)

    def keep_average_as_one_part(*arguments):
        recipe.validate = validate
        keep_average(*arguments)

    run._keep_average = telling("averaging", keep_average_as_one_part, then="done")
    received = run.train(recipe, RunDirectory(path), Budget(steps=STEPS), every_steps=10)
    sys.exit(128 + received if received else 0)


if __name__ == "__main__":
    main()
