"""The code of the guides runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_attn import layers

DOCS = Path(__file__).parents[1] / "docs"
ADDONS = (DOCS / "from_tensorflow_addons.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def ours():
    """What the blocks marked as ours leave behind, run from top to bottom."""
    blocks = re.findall(r"```python keras_attn\n(.*?)```", ADDONS, flags=re.DOTALL)
    assert len(blocks) >= 6
    names = {}
    exec(compile("\n".join(blocks), "from_tensorflow_addons.md", "exec"), names)
    return names


def test_every_pair_of_blocks_runs_on_our_side(ours):
    assert ours["logits"].shape == (2, 5, 20)
    assert ours["found"].tokens.shape == (2, 4, 9)
    assert ours["drawn"].lengths.shape == (2, 1)
    assert ours["ranked"].scores.shape == (2, 5)
    scores, as_addons = ours["found"].scores[:, 0], ours["like_addons"].scores[:, 0]
    assert (as_addons.numpy() >= scores.numpy() - 1e-6).all()


def test_every_block_says_whose_code_it_is():
    kinds = re.findall(r"^```(\S.*)$", ADDONS, flags=re.MULTILINE)
    assert set(kinds) == {"python tfa", "python keras_attn"}


def test_every_name_of_ours_in_the_table_exists():
    for name in re.findall(r"`layers\.(\w+)`", ADDONS):
        assert hasattr(layers, name)


def test_addons_peephole_weights_give_the_step_of_its_equations(ours):
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape) for shape in ours["old_shapes"]]
    kernel, recurrent, bias, see_i, see_f, see_o = weights
    x, h, c = rng.normal(size=(2, 6)), rng.normal(size=(2, 8)), rng.normal(size=(2, 8))
    i, f, new, o = np.split(x @ kernel + h @ recurrent + bias, 4, axis=1)
    sigmoid = lambda value: 1 / (1 + np.exp(-value))  # noqa: E731
    cell = sigmoid(f + see_f * c) * c + sigmoid(i + see_i * c) * np.tanh(new)
    expected = sigmoid(o + see_o * cell) * np.tanh(cell)

    ours["lstm_cell"].set_weights(ours["from_addons"](weights))
    output, _ = ours["lstm_cell"](*map(_float32, (x,)), [_float32(h), _float32(c)])
    np.testing.assert_allclose(output, expected, atol=1e-5)


def test_addons_attention_weights_are_ours_by_name(ours):
    attention = ours["attention"]
    shapes = {
        "query_kernel": (8, 16),
        "key_kernel": (12, 16),
        "score_vector": (16,),
        "bias": (16,),
        "score_scale": (),
    }
    for name, shape in shapes.items():
        assert tuple(getattr(attention, name).shape) == shape
        assert f"`{name}`" in ADDONS


def _float32(value):
    return tf.constant(value, tf.float32)
