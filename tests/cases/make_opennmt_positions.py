"""Write opennmt_positions.json: OpenNMT-tf's sinusoidal positions, in float64.

The formula is that of `opennmt.layers.SinusoidalPositionEncoder`, for which the first token has
position 1 and an odd depth is an error: with `k = ln 10000 / (depth / 2 - 1)` the encoding of
position p is all `sin(p exp(-i k))`, then all `cos(p exp(-i k))`, for i from 0 to depth / 2 - 1.
Each row is the depth, the index of a token counted from 0, and its encoding.
"""

import json
import math
from pathlib import Path

import numpy as np


def encoding(index: int, depth: int) -> np.ndarray:
    step = math.log(10000) / (depth / 2 - 1)
    angles = (index + 1) * np.exp(np.arange(depth // 2, dtype="float64") * -step)
    return np.concatenate([np.sin(angles), np.cos(angles)])


def main():
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(50):
        depth, index = 2 * int(rng.integers(2, 17)), int(10 ** rng.uniform(0, 5)) - 1
        rows.append([depth, index, [round(x, 9) for x in encoding(index, depth).tolist()]])
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    Path(__file__).with_name("opennmt_positions.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
