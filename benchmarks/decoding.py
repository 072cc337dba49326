"""How fast searches are, in milliseconds a batch, against other libraries of the same size.

A Transformer of width 256 with 3 + 3 layers and 8,000 words, random weights, writes exactly 64
tokens for sources of 32 (the end token is forbidden): greedy search with a cache of keys and
values, and beam search of width 4, ours; greedy search of KerasHub's BART, of an eager loop in
PyTorch and of CTranslate2 in float32. Each library runs only if it is installed.

    pip install keras-hub torch ctranslate2
    python benchmarks/decoding.py

All run in turn in one process; the table has medians. Then ours alone at growing lengths.
"""

import argparse
import statistics
import time
from dataclasses import dataclass, replace

import keras
import numpy as np
import tensorflow as tf
from decoding_rivals import END, START, ctranslate2_float32, keras_hub_bart, torch_loop
from report import write_result

from keras_attn.decoding import beam_search, greedy_search
from keras_attn.models import Transformer

TARGETS = {  # the time of the other over ours, at batch 1 and 32
    "KerasHub": (3.0, 1.5),
    "torch": (1.3, 0.8),
    "CTranslate2": (0.85, 0.6),
}
BEAM_TARGETS = (3.0, 4.5)  # beam 4 over greedy, at most
RIVALS = {"KerasHub": keras_hub_bart, "torch": torch_loop, "CTranslate2": ctranslate2_float32}


@dataclass(frozen=True)
class Size:
    """The size of all models."""

    dim: int = 256
    heads: int = 4
    intermediate: int = 1024
    layers: int = 3
    vocabulary: int = 8_000


def our_search(size: Size, length: int, beam_width: int, compiled: bool):
    """Greedy search or beam search over our model, compiled by XLA or as a graph."""
    model = Transformer(
        size.vocabulary,
        size.vocabulary,
        size.dim,
        size.heads,
        size.intermediate,
        size.layers,
        size.layers,
        max_length=length,
    )

    @tf.function(jit_compile=compiled)
    def search(source):
        batch_size = source.shape[0]
        lengths = tf.fill([batch_size], source.shape[1])
        state = model.initial_state(model.encode({"source": source, "source_lengths": lengths}))

        def step(tokens, state):  # the alignment is not asked for
            return model.step(tokens, state)[:2]

        call = (step, state, batch_size, START, END, length)
        if beam_width == 1:
            return greedy_search(*call, forbidden_tokens=[END]).tokens
        return beam_search(*call, beam_width, forbidden_tokens=[END]).tokens

    def run(source, _length):
        found = search(tf.constant(source)).numpy()
        assert found.shape[2] == length
        return found

    return run


def faster_of(graph, compiled, source, length):
    """Which of the two modes is faster here, and both times in milliseconds."""
    times = {"graph": [], "XLA": []}
    for _ in range(3):
        times["graph"].append(seconds(graph, source, length))
        times["XLA"].append(seconds(compiled, source, length))
    medians = {name: round(1e3 * statistics.median(each), 2) for name, each in times.items()}
    return min(medians, key=medians.get), medians


def seconds(run, source, length) -> float:
    start = time.perf_counter()
    run(source, length)
    return time.perf_counter() - start


def sources(size: Size, batch_size: int, length: int):
    rng = np.random.default_rng(0)
    return rng.integers(3, size.vocabulary, (batch_size, length)).astype("int32")


def contenders(size: Size, source, length: int) -> tuple[dict, dict]:
    """What is timed, by name, each called once; and why ours runs in its mode, or who is absent."""
    runs, notes = {}, {}
    for name, width in (("greedy", 1), ("beam 4", 4)):
        modes = [our_search(size, length, width, compiled) for compiled in (False, True)]
        for run in modes:
            run(source, length)
        mode, milliseconds = faster_of(*modes, source, length)
        runs[name] = modes[mode == "XLA"]
        notes[name] = {"mode": mode, "milliseconds": milliseconds}
    for name, make in RIVALS.items():
        try:
            runs[name] = make(size)
        except ImportError as error:
            notes[name] = f"not run: {error}"
            continue
        runs[name](source, length)
    return runs, notes


def compare(size: Size, batch_size: int, source_length: int, length: int, rounds: int) -> dict:
    """Medians of all contenders in turn, and the ratios that have targets."""
    source = sources(size, batch_size, source_length)
    runs, notes = contenders(size, source, length)
    times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds(run, source, length))
    medians = {name: 1e3 * statistics.median(each) for name, each in times.items()}
    column = 0 if batch_size == 1 else 1
    ratios = {
        f"{name} / greedy": {
            "ratio": round(medians[name] / medians["greedy"], 2),
            "target": f"at least {TARGETS[name][column]}",
        }
        for name in RIVALS
        if name in medians
    }
    ratios["beam 4 / greedy"] = {
        "ratio": round(medians["beam 4"] / medians["greedy"], 2),
        "target": f"at most {BEAM_TARGETS[column]}",
    }
    rounded = {name: round(value, 2) for name, value in medians.items()}
    return {"milliseconds": rounded, "ratios": ratios, "notes": notes}


def growth(size: Size, source_length: int, lengths: list[int], rounds: int) -> dict:
    """Milliseconds a token of greedy search at growing lengths: the same if time is linear."""
    source, found = sources(size, 1, source_length), {}
    for length in lengths:
        run = our_search(size, length, 1, compiled=False)
        run(source, length)
        median = statistics.median(seconds(run, source, length) for _ in range(rounds))
        found[length] = round(1e3 * median / length, 3)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--source-length", type=int, default=32)
    parser.add_argument("--small", action="store_true", help="A quick try; writes no result.")
    arguments = parser.parse_args()
    size, batches, lengths = Size(), (1, 32), [64, 128, 256, 512]
    if arguments.small:
        size = replace(size, dim=32, heads=2, intermediate=64, layers=1, vocabulary=200)
        batches, lengths = (1, 4), [16, 32]
    keras.utils.set_random_seed(1)
    figures = {}
    for batch_size in batches:
        row = compare(size, batch_size, arguments.source_length, arguments.length, arguments.rounds)
        figures[f"batch {batch_size}"] = row
        print(f"batch {batch_size}: milliseconds {row['milliseconds']}")
        for name, ratio in row["ratios"].items():
            print(f"  {name}: {ratio['ratio']} (target: {ratio['target']})")
        for name, note in row["notes"].items():
            print(f"  {name}: {note}")
    figures["milliseconds a token by length, greedy as a graph, batch 1"] = growth(
        size, arguments.source_length, lengths, arguments.rounds
    )
    print("milliseconds a token by length:", figures[next(reversed(figures))])
    if not arguments.small:
        write_result("decoding", figures, "ratios are times of the named over ours")


if __name__ == "__main__":
    main()
