"""The claim: a corpus of millions of lines becomes batches in constant memory.

    python benchmarks/corpus.py [--lines 5000000]

Writes two aligned files of random words, learns a small vocabulary, tokenises them into a store and
draws batches of 2,000 tokens, each stage in a process of its own whose largest resident size is
measured; the same with a tenth of the lines before. The difference is what the lines cost.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from report import write_result

BATCHES = 10_000
BATCH_TOKENS = 2_000


def write_corpus(directory: Path, lines: int) -> None:
    """Lines of 2 to 9 words; a word's frequency falls with its rank, as in a language."""
    random = np.random.default_rng(1)
    letters = np.array(list("enirstadhulcgmobwfkzpv"))
    words = ["".join(random.choice(letters, random.integers(2, 10))) for _ in range(20_000)]
    frequency = 1 / np.arange(3, len(words) + 3)
    frequency /= frequency.sum()
    with open(directory / "a", "w") as source, open(directory / "b", "w") as target:
        for start in range(0, lines, 10_000):
            lengths = random.integers(2, 10, min(10_000, lines - start))
            drawn = iter(random.choice(words, 2 * lengths.sum(), p=frequency).tolist())
            for length in lengths.tolist():
                source.write(" ".join(itertools.islice(drawn, length)) + "\n")
                target.write(" ".join(itertools.islice(drawn, length)) + "\n")


def learn(directory: Path) -> dict:
    from keras_attn.data.aligned_text import read_lines
    from keras_attn.text import learn_subwords

    read = (line for side in "ab" for line in read_lines(directory / side) if line)
    (directory / "subwords.model").write_bytes(learn_subwords(read, 2_000))
    return {}


def store(directory: Path) -> dict:
    from keras_attn.data.aligned_text import aligned_lines
    from keras_attn.data.pair_store import write_pair_store
    from keras_attn.text import SubwordTokenizer

    tokenizer = SubwordTokenizer((directory / "subwords.model").read_bytes())
    pairs = aligned_lines(directory / "a", directory / "b")
    counts = write_pair_store(directory / "pairs", pairs, tokenizer, tokenizer, max_tokens=128)
    return {"pairs": counts.kept, "store_bytes": (directory / "pairs").stat().st_size}


def batches(directory: Path) -> dict:
    from keras_attn.data.pair_store import PairStore
    from keras_attn.data.token_batches import token_batches

    dataset = token_batches(PairStore(directory / "pairs"), BATCH_TOKENS, seed=1)
    started, real, held = time.monotonic(), 0, 0
    for inputs, _, mask in dataset.take(BATCHES):
        real += int(mask.numpy().sum()) + int(inputs["source_lengths"].numpy().sum())
        held += mask.shape.num_elements() + inputs["source"].shape.num_elements()
    seconds = time.monotonic() - started
    return {"batches_a_second": round(BATCHES / seconds), "padding": round(1 - real / held, 4)}


STAGES = {stage.__name__: stage for stage in (learn, store, batches)}


def run_stage(name: str, directory: Path) -> None:
    """In a process of its own: print what the stage cost as JSON."""
    import keras_attn.data.token_batches  # noqa: F401  TensorFlow, before the clock starts

    before, started = _resident_megabytes(), time.monotonic()
    figures = STAGES[name](directory)
    print(
        json.dumps(
            {
                "seconds": round(time.monotonic() - started, 1),
                "megabytes_before": before,
                "megabytes_at_most": _resident_megabytes(),
                **figures,
            }
        )
    )


def _resident_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure(lines: int) -> dict:
    figures = {}
    with tempfile.TemporaryDirectory() as directory:
        write_corpus(Path(directory), lines)
        for name in STAGES:
            reply = subprocess.run(
                [sys.executable, __file__, "--stage", name, "--directory", directory],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            )
            figures[name] = json.loads(reply.stdout.splitlines()[-1])
            print(lines, name, figures[name], flush=True)
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        run_stage(arguments.stage, arguments.directory)
        return
    figures = {
        f"{lines}_lines": measure(lines) for lines in (arguments.lines // 10, arguments.lines)
    }
    write_result(
        "corpus", figures, "target: as much memory for 5,000,000 pairs of lines as for 500,000"
    )


if __name__ == "__main__":
    main()
