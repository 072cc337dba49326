"""GNMT on Multi30k, and what its residual connections are worth.

    KERAS_ATTN_DATA=... python benchmarks/gnmt.py --minutes 25
    KERAS_ATTN_DATA=... python benchmarks/gnmt.py --residual --minutes 10

The first command trains GNMT with four layers on each side, 256 wide, the first of the encoder
bidirectional, on all cores in `--directory`/gnmt, and scores it on test2016 by greedy search and by
a beam of 5. The second trains two such models side by side, one thread each: one with residual
connections from the third layer on and one without. A run that was stopped goes on, a finished one
is not trained again.
"""

import argparse
import json
from pathlib import Path

from bottleneck import JOINED, measured, recipe_of, train_side_by_side
from report import RESULTS, write_result

BEAM_WIDTH, LENGTH_PENALTY = 5, 1.0


def one_run(directory: Path, minutes: float) -> dict:
    """Train on all cores and score the best checkpoint."""
    from keras_attn.kept_memory import keep_freed_memory
    from keras_attn.recipes.run import load, train
    from keras_attn.training import Budget, RunDirectory, read_history

    keep_freed_memory()
    run = RunDirectory(directory)
    if train(recipe_of("gnmt", {}), run, Budget(minutes=minutes)) is not None:
        raise SystemExit("Stopped; the same command goes on from here.")
    _, text_model = load(run)
    curve = [entry for entry in read_history(run.path) if "bleu" in entry]
    return {
        "minutes": minutes,
        "steps": int(curve[-1]["step"]),
        "parameters": text_model.model.count_params(),
        "test2016 bleu, greedy": score(text_model),
        "test2016 bleu, beam 5": score(text_model.with_beam(BEAM_WIDTH, LENGTH_PENALTY, 1)),
        "curve, minutes and greedy validation bleu": [
            [round(entry["minutes"], 2), round(entry["bleu"], 2)] for entry in curve
        ],
    }


def score(text_model) -> float:
    """BLEU on test2016."""
    from bottleneck import bleu, test_texts

    sources, references = test_texts(JOINED["sentences"])
    return round(bleu(list(text_model.answer(sources)), references), 2)


def with_and_without(directory: Path, minutes: float) -> dict:
    """Residual connections against none, side by side."""
    options = {"with residuals": {}, "without residuals": {"residual": False}}
    places = {name: directory / name.replace(" ", "-") for name in options}
    train_side_by_side([(places[name], "gnmt", options[name]) for name in options], minutes)
    return {name: measured(place) for name, place in places.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--residual", action="store_true", help="compare with and without")
    parser.add_argument("--directory", type=Path, default=Path("runs/gnmt"))
    parser.add_argument("--note", default="")
    parser.add_argument("--try-out", action="store_true", help="write no result")
    given = parser.parse_args()
    if given.residual:
        found = {"residual connections": with_and_without(given.directory, given.minutes)}
    else:
        found = {"gnmt": one_run(given.directory / "gnmt", given.minutes)}
    print(json.dumps(found, indent=1))
    if not given.try_out:
        path = RESULTS / "gnmt.json"
        earlier = json.loads(path.read_text())["figures"] if path.exists() else {}
        write_result("gnmt", {**earlier, **found}, given.note)


if __name__ == "__main__":
    main()
