"""Grammar as a foreign language: labelled F1 with attention and without, on two small treebanks.

    KERAS_ATTN_DATA=... python benchmarks/grammar.py --minutes 25

Trains the recipe `grammar` twice side by side, one process and one thread each: with attention, and
with one vector between the two sides, in `--directory`/MODEL. A run that was stopped goes on, a
finished one is not trained again. Both learn from 13,620 trees: the sample of the Penn Treebank,
drawn by hand, and GUM, whose brackets are silver: a parser made them. Both are tested on the 245
trees of the sample's files 0180 to 0199, searched greedily, greedily among well-formed trees, and
so with a beam. Beside them stand two trees that need no learning: a flat one, `S` over all words,
and the best right-branching one, `S` over all words and one label over each rest of them.

The claims, of the model with attention: F1 at least 55, 60 among well-formed trees and not more
than 0.2 below the free search; under 10 % malformed without, 0 with; at least 15 above one vector.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from report import write_result

ROOT = Path(__file__).parent.parent
MODELS = {"attention": "LSTMs with attention", "vector": "one vector"}
SEARCHES = {
    "greedy": {},
    "greedy, well formed": {"well_formed": True},
    "beam of 4, well formed": {"beam_width": 4, "well_formed": True},
}


def train_one(directory: Path, model: str, minutes: float) -> None:
    """Train on one thread, in this process, and write what each search scores."""
    import tensorflow as tf

    from keras_attn.kept_memory import keep_freed_memory
    from keras_attn.recipes import make_recipe
    from keras_attn.recipes.run import load, train
    from keras_attn.serving.answers import Search
    from keras_attn.training import Budget, RunDirectory

    keep_freed_memory()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    run = RunDirectory(directory)
    if train(make_recipe("grammar", model=model), run, Budget(minutes=minutes)) is not None:
        raise SystemExit("Stopped; the same command goes on from here.")
    recipe, trees = load(run)
    scores = {
        name: recipe.evaluate(trees.with_search(Search(**search)))
        for name, search in SEARCHES.items()
    }
    found = {"parameters": trees.model.count_params(), "minutes": minutes, "searches": scores}
    (directory / "scores.json").write_text(json.dumps(found))


def train_side_by_side(runs: list[tuple[Path, str]], minutes: float) -> None:
    """A process for each run that is not finished."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends the trainings too
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    running = []
    try:
        for directory, model in runs:
            if not is_finished(directory, minutes):
                command = [sys.executable, __file__, "--train-one", directory, model, minutes]
                running.append(subprocess.Popen(map(str, command), env=environment))
        codes = [process.wait() for process in running]
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
    if any(codes):
        raise SystemExit("A training did not end; the same command goes on from here.")


def is_finished(directory: Path, minutes: float) -> bool:
    scores = directory / "scores.json"
    return scores.exists() and json.loads(scores.read_text())["minutes"] >= minutes


def floors() -> dict:
    """F1 of trees that need no learning, on the test trees."""
    from keras_attn.analysis import bracket_scores
    from keras_attn.data.bracketed_trees import Bracket, Tree, read_trees
    from keras_attn.data.treebanks import treebank_file

    right = list(read_trees(treebank_file("treebank_nltk", "test")))

    def scored(label: str | None) -> float:
        trees = []
        for tree in right:
            end = len(tree.words)
            rest = () if label is None else tuple(Bracket(label, n, end) for n in range(1, end))
            trees.append(Tree(tree.words, tree.tags, (Bracket("S", 0, end), *rest)))
        return round(bracket_scores(trees, right).f1, 2)

    branching = {label: scored(label) for label in ("S", "NP", "VP", "PP")}
    return {"flat": scored(None), "right-branching, by its label": branching}


def rounded(run: dict) -> dict:
    """The scores of a run to two decimals."""
    searches = {
        name: {metric: round(value, 2) for metric, value in scores.items()}
        for name, scores in run["searches"].items()
    }
    return {**run, "searches": searches}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--directory", type=Path, default=Path("runs/grammar"))
    parser.add_argument("--note", default="")
    parser.add_argument("--try-out", action="store_true", help="write no result")
    return parser.parse_args()


def main():
    if sys.argv[1:2] == ["--train-one"]:
        directory, model, minutes = sys.argv[2:]
        return train_one(Path(directory), model, float(minutes))
    given = arguments()
    directories = {model: given.directory / model for model in MODELS}
    train_side_by_side([(path, model) for model, path in directories.items()], given.minutes)
    runs = {
        model: json.loads((path / "scores.json").read_text()) for model, path in directories.items()
    }
    f1 = {
        model: {name: scores["f1"] for name, scores in run["searches"].items()}
        for model, run in runs.items()
    }
    free, kept, beam = f1["attention"].values()
    result = {
        "runs": {MODELS[model]: rounded(run) for model, run in runs.items()},
        "floors": floors(),
        "f1 that attention adds, greedy": round(free - f1["vector"]["greedy"], 2),
        "f1 that well-formed search adds, greedy": round(kept - free, 2),
        "f1 that a beam adds to it": round(beam - kept, 2),
        "training trees": "13,620: 3,396 by hand (treebank_nltk), 10,224 silver (gum_const)",
    }
    print(json.dumps(result, indent=1))
    if not given.try_out:
        write_result("grammar", result, given.note)


if __name__ == "__main__":
    main()
