"""One contender of `decoding.py` in a process of its own, which runs when it is told to.

    python decoding_process.py NAME THREADS SIZE BATCH SOURCE_LENGTH LENGTH

SIZE is the JSON of `Size`. It builds, runs twice to warm up, and says `ready`; then for each line
of standard input it runs once and prints the milliseconds. A library that is not installed is said
in a line that begins with `absent`.
"""

import functools
import json
import os
import sys
import time
from dataclasses import dataclass

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from decoding_rivals import (
    END,
    START,
    ctranslate2_float32,
    keras_hub_bart,
    limit_tensorflow,
    torch_loop,
)


@dataclass(frozen=True)
class Size:
    """The size of all models."""

    dim: int = 256
    heads: int = 4
    intermediate: int = 1024
    layers: int = 3
    vocabulary: int = 8_000


def our_search(size: Size, threads: int, length: int, beam_width: int, compiled: bool):
    """Greedy search or beam search over our Transformer, compiled by XLA or as a graph."""
    limit_tensorflow(threads)
    import keras
    import tensorflow as tf

    from keras_attn.decoding import beam_search, greedy_search
    from keras_attn.models import Transformer

    keras.utils.set_random_seed(1)
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

    def run(source, length):
        found = search(tf.constant(source)).numpy()
        assert found.shape[2] == length
        return found

    return run


def ours(beam_width: int, compiled: bool):
    def make(size, threads, length):
        return our_search(size, threads, length, beam_width, compiled)

    return make


def theirs(build, **options):
    def make(size, threads, length):
        return functools.partial(build, **options)(size, threads)

    return make


CONTENDERS = {
    "greedy, graph": ours(1, compiled=False),
    "greedy, XLA": ours(1, compiled=True),
    "beam 4, graph": ours(4, compiled=False),
    "beam 4, XLA": ours(4, compiled=True),
    "KerasHub": theirs(keras_hub_bart),
    "torch": theirs(torch_loop),
    "CTranslate2": theirs(ctranslate2_float32),
    "CTranslate2, beam 4": theirs(ctranslate2_float32, beam_width=4),
}


def main(name, threads, size, batch_size, source_length, length):
    size, length = Size(**json.loads(size)), int(length)
    rng = np.random.default_rng(0)
    shape = (int(batch_size), int(source_length))
    source = rng.integers(3, size.vocabulary, shape).astype("int32")
    try:
        run = CONTENDERS[name](size, int(threads), length)
    except ImportError as error:
        print(f"absent {error}", flush=True)
        return
    run(source, length)
    run(source, length)
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        run(source, length)
        print(f"{1e3 * (time.perf_counter() - started):.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
