"""Write rotary_scalings.json: what `transformers` makes of random rotary scalings.

Needs torch and transformers 5 (run with 5.24.0 and torch 2.13.0); the tests need the file alone.
Each row is one configuration as a user pastes it, the number of features, the length of the
sequence, and what transformers' own code gives for them: radians per position of each pair, and
the factor of cosine and sine. That code computes in float32; here torch's names for float32 mean
float64 while it runs, so that the numbers have nine exact digits.
"""

import json
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

CASES_OF_A_GROUP = 50


def linear(rng, dim):
    return {"rope_type": "linear", "factor": _number(rng, 1, 20)}


def dynamic(rng, dim):
    return {"rope_type": "dynamic", "factor": _number(rng, 1, 20), **_original(rng)}


def llama3(rng, dim):
    low = _number(rng, 0.5, 4)
    high = round(low + _number(rng, 0.5, 20), 3)
    factors = {"factor": _number(rng, 1, 40), "low_freq_factor": low, "high_freq_factor": high}
    return {"rope_type": "llama3", **factors, **_original(rng)}


def yarn(rng, dim):
    settings = {"rope_type": "yarn", "factor": _number(rng, 1, 40), **_original(rng)}
    if rng.random() < 0.5:
        settings |= {"beta_fast": _number(rng, 8, 64), "beta_slow": _number(rng, 0.5, 4)}
    amplitude = rng.integers(3)
    if amplitude == 1:
        settings["attention_factor"] = _number(rng, 0.5, 2)
    if amplitude == 2:
        settings |= {"mscale": _number(rng, 0.3, 2), "mscale_all_dim": _number(rng, 0.3, 2)}
    return settings


def yarn_not_truncated(rng, dim):
    return {**yarn(rng, dim), "truncate": False}


def longrope(rng, dim):
    settings = {"rope_type": "longrope", **_original(rng)}
    for name, highest in (("short_factor", 2), ("long_factor", 60)):
        settings[name] = [round(_number(rng, 1, highest), 1) for _ in range(dim // 2)]
    if rng.random() < 0.5:
        return settings | {"attention_factor": _number(rng, 0.8, 1.4)}
    return settings | {"factor": _number(rng, 1, 40)}


def _number(rng, low, high):
    return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))), 3)


def _original(rng):
    return {"original_max_position_embeddings": int(rng.choice([128, 1000, 2048, 8192, 32768]))}


def row(settings, dim, base, length):
    """What transformers gives: settings, features, length, radians per position, amplitude."""
    config = LlamaConfig(
        hidden_size=dim,
        num_attention_heads=1,
        head_dim=dim,
        max_position_embeddings=settings.get("original_max_position_embeddings", 2048),
        rope_parameters={**settings, "rope_theta": base},
    )
    double = {"float": torch.float64, "float32": torch.float64}
    with mock.patch.multiple(torch, **double), mock.patch("torch.Tensor.float", torch.Tensor.double):
        compute = ROPE_INIT_FUNCTIONS[settings["rope_type"]]
        frequencies, amplitude = compute(config, "cpu", seq_len=length)
    assert frequencies.dtype == torch.float64
    frequencies = [float(f"{w:.9g}") for w in frequencies.tolist()]
    return [{**settings, "rope_theta": base}, dim, length, frequencies, float(f"{amplitude:.9g}")]


def main():
    rng = np.random.default_rng(5)
    groups = {}
    for make in (linear, dynamic, llama3, yarn, yarn_not_truncated, longrope):
        groups[make.__name__] = cases = []
        for _ in range(CASES_OF_A_GROUP):
            dim = int(rng.choice([4, 6, 8, 12]))
            base = int(rng.choice([10000, 50000, 500000, 1000000]))
            settings = make(rng, dim)
            original = settings.get("original_max_position_embeddings", 2048)
            cases.append(row(settings, dim, base, int(original * _number(rng, 0.5, 16))))
    rows = ",\n".join(
        f'"{name}": [\n' + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "]"
        for name, cases in groups.items()
    )
    Path(__file__).with_name("rotary_scalings.json").write_text("{" + rows + "}\n")


if __name__ == "__main__":
    main()
