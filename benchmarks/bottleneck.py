"""The bottleneck of one vector: BLEU by source length with attention and without, on Multi30k.

    KERAS_ATTN_DATA=... python benchmarks/bottleneck.py --minutes 15

Trains RNNsearch and the RNN encoder-decoder (Cho et al. 2014, the vector given to every step, the
source read backwards) with equally many parameters, side by side, one process and one thread each,
in `--directory`/MODEL; a run that was stopped goes on, a finished one is not trained again. Greedy
search then translates test2016, and neighbouring sentences of it joined in pairs and in triples, so
that sources reach 60 words. BLEU is counted in buckets of source length and drawn like Figure 2 of
Bahdanau et al. 2014. Beside it stand the share of the parameters that attention takes, and how the
parameters grow with the width of the vector; `--widths 384 512` also trains wider vectors, for the
same minutes, two at a time.
"""

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from report import RESULTS, write_result

from keras_attn.recipes.translation_settings import (
    DEFAULT_VOCABULARY,
    RNNSearchSettings,
    of_model,
)

ROOT = Path(__file__).parent.parent
BUCKETS = ((1, 8), (9, 12), (13, 16), (17, 22), (23, 28), (29, 36), (37, 46), (47, 60))
JOINED = {"sentences": 1, "pairs": 2, "triples": 3}
LABELS = {"rnnsearch": "RNNsearch", "rnn-encoder-decoder": "one vector"}


def recipe_of(model: str, options: dict):
    """The translation recipe on Multi30k, with validations by a part of the validation set."""
    from keras_attn.data.multi30k import multi30k_files
    from keras_attn.recipes import make_recipe

    source, target = multi30k_files("train")
    validation_source, validation_target = multi30k_files("val")
    recipe = make_recipe(
        "translation",
        model=model,
        source=str(source),
        target=str(target),
        validation_source=str(validation_source),
        validation_target=str(validation_target),
        **options,
    )
    recipe.validation_pairs = 256
    return recipe


def train_one(directory: Path, model: str, options: dict, minutes: float) -> None:
    """Train on one thread, in this process, and write the answers to the test texts."""
    import tensorflow as tf

    from keras_attn.kept_memory import keep_freed_memory
    from keras_attn.recipes.run import load, train
    from keras_attn.training import Budget, RunDirectory

    keep_freed_memory()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    run = RunDirectory(directory)
    if train(recipe_of(model, options), run, Budget(minutes=minutes)) is not None:
        raise SystemExit("Stopped; the same command goes on from here.")
    _, text_model = load(run)
    answers = {}
    for name, count in JOINED.items():
        sources, _ = test_texts(count)
        by_length = sorted(range(len(sources)), key=lambda row, texts=sources: len(texts[row]))
        found = text_model.answer([sources[row] for row in by_length], 64)
        rows = dict(zip(by_length, found, strict=True))
        answers[name] = [rows[row] for row in range(len(sources))]
    parameters = text_model.model.count_params()
    (directory / "answers.json").write_text(
        json.dumps({"parameters": parameters, "minutes": minutes, "answers": answers})
    )


def test_texts(count: int) -> tuple[list[str], list[str]]:
    """Sources and references of test2016, `count` neighbouring lines joined to one."""
    from keras_attn.data.multi30k import multi30k_files

    sides = [Path(path).read_text().splitlines() for path in multi30k_files("test_2016_flickr")]
    return tuple(
        [" ".join(lines[row : row + count]) for row in range(0, len(lines) - count + 1, count)]
        for lines in sides
    )


def train_side_by_side(runs: list[tuple[Path, str, dict]], minutes: float) -> None:
    """Two processes at a time, each a run that `train_one` would make; finished ones are left."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends the trainings too
    waiting = [run for run in runs if not is_finished(run[0], minutes)]
    running = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    try:
        while waiting or running:
            while waiting and len(running) < 2:
                directory, model, options = waiting.pop(0)
                directory.mkdir(parents=True, exist_ok=True)
                given = [str(directory), model, json.dumps(options), str(minutes)]
                command = [sys.executable, __file__, "--train-one", *given]
                running.append(subprocess.Popen(command, env=environment))
            if running.pop(0).wait() != 0:
                raise SystemExit("A training stopped; the same command goes on from here.")
    finally:
        for process in running:
            process.terminate()
            process.wait()


def is_finished(directory: Path, minutes: float) -> bool:
    """Whether a run was trained for so long and has answered the test texts."""
    answers = directory / "answers.json"
    return answers.exists() and json.loads(answers.read_text())["minutes"] >= minutes


def parameters(vocabulary: int, embedding: int, units: int) -> int:
    """Of the encoder-decoder of one layer, tied and shared; the readout as wide as a word."""
    encoder = 3 * units * (embedding + units + 1)
    bridge = 2 * units * (units + 1)  # V and V_1
    decoder = 3 * units * (embedding + 2 * units + 1)
    readout = 2 * embedding * (2 * units + embedding + 1)
    return vocabulary * embedding + encoder + bridge + decoder + readout


def equal_width(vocabulary: int, embedding: int, wanted: int) -> int:
    """The width at which the encoder-decoder has the wanted parameters, as nearly as can be."""
    widths = range(1, 4_000)
    return min(widths, key=lambda n: abs(parameters(vocabulary, embedding, n) - wanted))


def shares_of_search(options: dict, vocabulary: int) -> dict:
    """The parameters of RNNsearch, and what of them is there for attention alone."""
    from keras_attn.recipes.translation_models import ARCHITECTURES

    options = of_model("rnnsearch", options, {})
    model = ARCHITECTURES["rnnsearch"].build(vocabulary, options)
    total, attention = model.count_params(), model.decoder.cell.attention.count_params()
    words = vocabulary * model.settings["embedding_dim"]
    return {
        "parameters": total,
        "of the alignment model": attention,
        "share of all, percent": round(100 * attention / total, 2),
        "share without the embeddings, percent": round(100 * attention / (total - words), 2),
        # W_a and U_a of the paper's sizes, beside 1000 units, words of 620 and a vocabulary of 30k.
        "share at the paper's sizes, percent": round(100 * paper_share(), 2),
    }


def paper_share() -> float:
    """The share of the alignment model in the RNNsearch of the paper, from its sizes."""
    words, units, vocabulary, readout = 620, 1000, 30_000, 500
    encoder = 2 * 3 * units * (words + units + 1)
    attention = units * (units + 2 * units + 1)
    decoder = 3 * units * (words + 2 * units + units + 1) + units * (units + 1)
    output = 2 * readout * (units + words + 2 * units + 1) + readout * vocabulary
    return attention / (2 * vocabulary * words + encoder + attention + decoder + output)


def bleu(answers: list[str], references: list[str]) -> float:
    from keras_attn.recipes.translation_quality import translation_quality

    return translation_quality(answers, references, False)["bleu"]


def measured(directory: Path) -> dict:
    """Corpus BLEU of each kind of text, and BLEU by the words of the source over all of them."""
    found = json.loads((directory / "answers.json").read_text())
    sources, references, answers = [], [], []
    figures = {"parameters": found["parameters"], "minutes": found["minutes"]}
    for name, count in JOINED.items():
        texts = test_texts(count)
        figures[f"bleu, {name}"] = round(bleu(found["answers"][name], texts[1]), 2)
        sources += texts[0]
        references += texts[1]
        answers += found["answers"][name]
    figures["bleu by words of the source"] = by_length = {}
    for shortest, longest in BUCKETS:
        rows = [r for r, text in enumerate(sources) if shortest <= len(text.split()) <= longest]
        if len(rows) >= 20:
            score = bleu([answers[row] for row in rows], [references[row] for row in rows])
            by_length[f"{shortest}-{longest}"] = {"bleu": round(score, 2), "texts": len(rows)}
    return figures


def growth(vocabulary: int, embedding: int, widths: list[int], trained: dict) -> dict:
    """What a vector of each width costs, and what it bought where it was trained."""
    rows = {}
    for width in sorted({*widths, 64, 128, 256, 512, 1024, 2048}):
        rows[str(width)] = {
            "parameters without the embeddings": parameters(vocabulary, embedding, width)
            - vocabulary * embedding,
            **{key: value for key, value in trained.get(width, {}).items() if "bleu, " in key},
        }
    narrow, wide = (rows[str(width)]["parameters without the embeddings"] for width in (512, 2048))
    exponent = math.log(wide / narrow) / math.log(4)
    return {"by width": rows, "power of the width, 512 to 2048": round(exponent, 2)}


def plot(runs: dict, output: Path) -> None:
    from matplotlib.figure import Figure

    from keras_attn.files import written_whole

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, run in runs.items():
        rows = run["bleu by words of the source"]
        middles = [sum(map(int, bucket.split("-"))) / 2 for bucket in rows]
        label = f"{name}, {run['parameters'] / 1e6:.2f} M parameters"
        axes.plot(middles, [row["bleu"] for row in rows.values()], marker="o", label=label)
    axes.axvspan(*longest_of_training(), color="black", alpha=0.06, linewidth=0)
    axes.set(xlabel="words of the source", ylabel="BLEU", xlim=(0, 60), ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    axes.set_title("Grey: longer than 99 % of the sources of training", fontsize=9)
    with written_whole(output) as file:
        figure.savefig(file, format="png", dpi=160)


def longest_of_training() -> tuple[int, int]:
    """From the length that 99 % of the training sources do not exceed, to the edge."""
    from keras_attn.data.multi30k import multi30k_files

    source, _ = multi30k_files("train")
    lengths = sorted(len(line.split()) for line in Path(source).read_text().splitlines())
    return lengths[int(0.99 * len(lengths))], 60


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--directory", type=Path, default=Path("runs/bottleneck"))
    parser.add_argument("--widths", type=int, nargs="*", default=[], help="wider vectors to train")
    parser.add_argument("--note", default="")
    parser.add_argument("--try-out", action="store_true", help="write no result")
    return parser.parse_args()


def main():
    if sys.argv[1:2] == ["--train-one"]:
        directory, model, options, minutes = sys.argv[2:]
        return train_one(Path(directory), model, json.loads(options), float(minutes))
    given = arguments()
    embedding = RNNSearchSettings().embedding_dim
    search = shares_of_search({}, DEFAULT_VOCABULARY)
    width = equal_width(DEFAULT_VOCABULARY, embedding, search["parameters"])
    directories = {n: given.directory / f"vector-{n}" for n in [width, *given.widths]}
    runs = [(given.directory / "rnnsearch", "rnnsearch", {})]
    runs += [(path, "rnn-encoder-decoder", {"units": n}) for n, path in directories.items()]
    train_side_by_side(runs, given.minutes)

    vectors = {n: measured(path) for n, path in directories.items()}
    figures = {
        LABELS["rnnsearch"]: measured(given.directory / "rnnsearch"),
        f"{LABELS['rnn-encoder-decoder']} of {width}": vectors[width],
    }
    if given.widths:
        figures |= {f"one vector of {n}": vectors[n] for n in given.widths}
    result = {
        "runs": figures,
        "bleu that attention adds on test2016": round(
            figures["RNNsearch"]["bleu, sentences"] - vectors[width]["bleu, sentences"], 2
        ),
        "attention": search,
        "widening the vector": growth(
            DEFAULT_VOCABULARY, embedding, [width, *given.widths], vectors
        ),
    }
    print(json.dumps(result, indent=1))
    if not given.try_out:
        write_result("bottleneck", result, given.note)
        plot(figures, RESULTS / "bottleneck.png")
    else:
        with tempfile.TemporaryDirectory() as directory:
            plot(figures, Path(directory, "bottleneck.png"))


if __name__ == "__main__":
    main()
