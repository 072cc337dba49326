from itertools import pairwise

import numpy as np
import pytest

from keras_attn.data import token_batches as module
from keras_attn.data.pair_store import PairStore, write_pair_store
from keras_attn.data.token_batches import token_batches
from keras_attn.text import END, PADDING, START, CharacterTokenizer

TOKENIZER = CharacterTokenizer("abcdefghijklmnopqrstuvwxyz0123456789")
PAIRS = 5_000


def _corpus():
    """The first four characters of both sides number the pair; lengths go together, roughly."""
    random = np.random.default_rng(4)
    for number in range(PAIRS):
        name = np.base_repr(number, 36).lower().rjust(4, "0")
        length = int(random.gamma(4.0, 3.0))
        yield name + "x" * length, name + "y" * max(0, length + int(random.integers(-3, 4)))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "pairs"
    write_pair_store(path, _corpus(), TOKENIZER, TOKENIZER, max_tokens=60)
    return PairStore(path)


def _batches(store, count, seed=1, batch_tokens=500):
    return list(token_batches(store, batch_tokens, seed).take(count).as_numpy_iterator())


def _one_pass(store, seed=1, batch_tokens=500):
    batches, pairs = [], 0
    for batch in token_batches(store, batch_tokens, seed).as_numpy_iterator():
        batches.append(batch)
        pairs += len(batch[1])
        if pairs >= len(store):
            return batches


def _names(batch):
    return [tuple(row) for row in batch[0]["source"][:, :4]]


def _all_names(batches):
    return sorted(name for batch in batches for name in _names(batch))


def test_batches_have_the_form_of_a_sequence_model(store):
    for inputs, labels, mask in _batches(store, 20):
        assert list(inputs) == ["source", "source_lengths", "target"]
        assert all(value.dtype == np.int32 for value in (*inputs.values(), labels))
        for source, length, target, label, real in zip(
            inputs["source"], inputs["source_lengths"], inputs["target"], labels, mask, strict=True
        ):
            assert source[length - 1] == END
            assert (source[length:] == PADDING).all()
            tokens = label[real]
            assert tokens[-1] == END
            assert (label[~real] == PADDING).all()
            assert target[0] == START
            np.testing.assert_array_equal(target[1:], label[:-1])
            np.testing.assert_array_equal(tokens[:4], source[:4])


@pytest.mark.parametrize("batch_tokens", [70, 500, 2_000])
def test_no_batch_has_more_tokens_than_it_may_and_most_are_nearly_full(store, batch_tokens):
    sizes = [
        max(inputs["source"].size, labels.size)
        for inputs, labels, _ in _one_pass(store, batch_tokens=batch_tokens)
    ]
    assert max(sizes) <= batch_tokens
    assert np.mean(sizes) > 0.8 * batch_tokens


def test_a_pass_has_every_pair_once(store):
    names = _all_names(_one_pass(store))
    assert len(names) == len(set(names)) == len(store)


def test_every_pass_has_every_pair_once_also_from_many_pools(store, monkeypatch):
    monkeypatch.setattr(module, "_TOKENS_IN_POOL", 30_000)
    batches, pairs = [], 0
    for batch in token_batches(store, 500, 1).as_numpy_iterator():
        batches.append(batch)
        pairs += len(batch[1])
        if pairs >= 3 * len(store):
            break
    names = [name for batch in batches for name in _names(batch)]
    passes = [names[at : at + len(store)] for at in range(0, len(names), len(store))]
    assert [len(set(found)) for found in passes] == [len(store)] * 3
    assert len({tuple(found) for found in passes}) == 3


def test_pools_are_about_as_large_as_they_may_be():
    blocks, tokens = np.arange(50), np.full(50, 1 << 18)
    pools = module._dealt(blocks, tokens)
    assert np.concatenate(pools).tolist() == blocks.tolist()
    assert max(tokens[pool].sum() for pool in pools) <= module._TOKENS_IN_POOL + tokens[0]
    assert len(pools) == 4


def test_less_than_a_tenth_is_padding(store):
    batches = _one_pass(store, batch_tokens=500)
    real = sum(int(inputs["source_lengths"].sum() + mask.sum()) for inputs, _, mask in batches)
    held = sum(inputs["source"].size + labels.size for inputs, labels, _ in batches)
    assert 1 - real / held < 0.1


def test_short_and_long_batches_come_in_no_order(store):
    widths = [labels.shape[1] for _, labels, _ in _one_pass(store)]
    rises = sum(after > before for before, after in pairwise(widths))
    assert 0.3 < rises / len(widths) < 0.7


def test_the_order_is_a_function_of_the_seed_and_the_step(store):
    first, again, other = _batches(store, 40), _batches(store, 40), _batches(store, 40, seed=2)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_equal(one, two)
    assert list(map(_names, first)) != list(map(_names, other))
    assert _batches(store, 3, seed=-1)[0][1].size


@pytest.mark.parametrize("steps", [1, 7, 300])
def test_skipped_steps_are_those_that_would_have_come(store, steps):
    expected = _batches(store, steps + 3)[steps:]
    skipped = token_batches(store, 500, 1).skip(steps).take(3).as_numpy_iterator()
    for one, two in zip(expected, skipped, strict=True):
        np.testing.assert_equal(one, two)


def test_in_another_pass_pairs_meet_others(store):
    first = _one_pass(store)
    second = list(
        token_batches(store, 500, 1).skip(len(first)).take(len(first)).as_numpy_iterator()
    )
    together = {pair for batch in first for pair in pairwise(sorted(_names(batch)))}
    again = {pair for batch in second for pair in pairwise(sorted(_names(batch)))}
    assert len(together & again) < 0.5 * len(together)


def test_two_readers_of_one_store_do_not_disturb_each_other(store):
    one, two = (token_batches(store, 500, 1).as_numpy_iterator() for _ in range(2))
    for _ in range(10):
        np.testing.assert_equal(next(one), next(two))


def test_a_sequence_that_fits_into_no_batch_is_refused(store):
    with pytest.raises(ValueError, match="Received: batch_tokens=20"):
        token_batches(store, 20, 1)


def test_the_shape_of_a_batch_is_known_to_the_graph(store):
    inputs, labels, mask = token_batches(store, 500, 1).element_spec
    assert inputs["source"].shape.as_list() == [None, None]
    assert inputs["source_lengths"].shape.as_list() == [None]
    assert labels.shape.as_list() == mask.shape.as_list() == [None, None]
