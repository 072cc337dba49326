"""Batches that begin at any step are those of a run from the first, whole and in shares."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data import token_batches as token_module
from keras_attn.data.adding import adding_batches
from keras_attn.data.fixed_shapes import with_fixed_shapes
from keras_attn.data.pair_store import PairStore, write_pair_store
from keras_attn.data.seekable import SeekableBatches, seekable_batches
from keras_attn.data.sequence_pairs import batches_of_pairs
from keras_attn.data.token_batches import token_batches
from keras_attn.errors import UserError
from keras_attn.text import CharacterTokenizer
from keras_attn.training import Budget, KeepCheckpoints, Pace, RunDirectory, fit, resume
from keras_attn.training.shares import share

TOKENIZER = CharacterTokenizer("abcdefghijklmnopqrstuvwxyz")
SHAPES = {16: 60, 32: 60, 64: 60}


def _pairs():
    random = np.random.default_rng(5)
    for _ in range(2_500):
        length = int(random.integers(1, 40))
        yield "".join(random.choice(list("abcdef"), length)), "b" * max(1, length - 3)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "pairs"
    write_pair_store(path, _pairs(), TOKENIZER, TOKENIZER, max_tokens=60)
    return path


@pytest.fixture(autouse=True)
def small_pools(monkeypatch):
    monkeypatch.setattr(token_module, "_TOKENS_IN_POOL", 40_000)


def _of_store(path, seed=1):
    return token_batches(PairStore(path), 700, seed)


def _in_memory(path, seed=1):
    lengths = np.random.default_rng(0).integers(0, 30, size=103)
    sources = tf.ragged.constant([[row + 10] * n for row, n in enumerate(lengths)], dtype=tf.int32)
    return batches_of_pairs(sources, sources[:, :7], batch_size=10, seed=seed)


def _in_few_shapes(path, seed=1):
    lengths = sorted(SHAPES)
    store = PairStore(path)
    return with_fixed_shapes(token_batches(store, 700, seed, lengths), SHAPES)


def _of_numbers(path, seed=1):
    return adding_batches(length=9, batch_size=7, seed=seed)


KINDS = [_of_store, _in_memory, _in_few_shapes, _of_numbers]
FEW = 4


def _assert_equal(found, expected):
    tf.nest.assert_same_structure(found, expected)
    for one, two in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_array_equal(one, two)
        assert np.asarray(one).dtype == np.asarray(two).dtype


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("step", [1, 290])
def test_any_step_is_found_with_the_state_of_a_checkpoint_and_without(make, step, path):
    whole = make(path)
    reader = iter(whole)
    expected = [next(reader) for _ in range(step + 3)][step:]  # read ahead of the state, too
    state = {name: np.float64(value) for name, value in whole.state(step).items()}
    for batches in (make(path), make(path).restore({"step": 3, **state})):
        for found, wanted in zip(batches.from_step(step).take(3), expected, strict=True):
            _assert_equal(found, wanted)


def test_a_state_spares_the_way_to_its_step(path, monkeypatch):
    whole = _of_store(path)
    list(whole.take(300))
    state = whole.state(299)
    assert state["data/pass"] > 0
    pools = []
    source = token_module._Pools
    original = source._pool
    monkeypatch.setattr(
        source, "_pool", lambda self, *rest: pools.append(1) or original(self, *rest)
    )
    next(iter(_of_store(path).restore(state).from_step(299)))
    with_state, pools[:] = len(pools), []
    next(iter(_of_store(path).from_step(299)))
    assert with_state <= 3  # one, and what is read ahead
    assert len(pools) > with_state + 2


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("number", [3, 80])
def test_the_rows_of_all_workers_are_the_batch(make, number, path):
    whole = list(make(path).from_step(5).take(FEW))
    digests = []
    for index in {1, number - 1}:
        for expected, part in zip(whole, make(path).parts(5, index, number).take(FEW), strict=True):
            rows, first, total, digest = part
            labels = expected[1]
            assert int(total) == len(labels)
            assert int(first) == index * len(labels) // number
            _assert_equal(rows, share(expected, index, number))
            digests.append((index, int(digest)))
    by_worker = [[d for worker, d in digests if worker == index] for index in {1, number - 1}]
    assert by_worker[0] == by_worker[-1]
    assert len(set(by_worker[0])) == FEW


@pytest.mark.parametrize("make", [_of_store, _in_memory])
def test_a_worker_gathers_the_ids_of_its_own_rows_only(make, path, monkeypatch):
    gathered = []
    if make is _of_store:
        original = PairStore.block

        def block(self, number, rows=slice(None)):
            sides = original(self, number, rows)
            gathered.append(len(sides[0].lengths))
            return sides

        monkeypatch.setattr(PairStore, "block", block)
        next(iter(make(path).parts(0, 1, 4)))
        pairs = sum(PairStore(path).pairs_of_blocks)
        assert 0 < sum(gathered) < pairs  # of at least two pools of about a quarter each
        assert max(gathered) < 0.3 * 1024
    else:
        rows, *_ = next(iter(make(path).parts(0, 1, 5)))
        assert rows[1].shape[0] == 2


def test_another_seed_or_other_data_have_no_use_for_a_state(path):
    state = _of_store(path).state(0)
    with pytest.raises(UserError, match=r"other batches.*seed is 1.* there and 2 here"):
        _of_store(path, seed=2).restore(state)
    assert isinstance(_of_store(path).restore({"step": 7.0}), SeekableBatches)


def test_a_store_tells_its_content(tmp_path):
    pairs = [("a", "b")] * 5
    contents = []
    for name, wanted in (("one", pairs), ("two", pairs), ("three", [("a", "c"), *pairs[1:]])):
        write_pair_store(tmp_path / name, wanted, TOKENIZER, TOKENIZER, max_tokens=9)
        contents.append(PairStore(tmp_path / name).content)
    assert contents[0] == contents[1] != contents[2]


def test_the_rows_of_ones_own_store_are_read_by_those_who_need_them():
    table = tf.range(100) * 10

    def rows(step):
        places = tf.range(4 * step, 4 * step + 4)
        return tf.random.experimental.index_shuffle(places % 100, tf.constant([1, 2], tf.int64), 99)

    def read(rows, batch):
        return tf.gather(table, rows), tf.ones_like(rows) * tf.reduce_max(batch)

    batches = seekable_batches(rows, read)
    one_pass = np.concatenate([values for values, _ in batches.take(25)])
    assert sorted(one_pass) == table.numpy().tolist()
    whole = next(iter(batches.from_step(7)))
    parts = [next(iter(batches.parts(7, index, 3)))[0] for index in range(3)]
    assert [len(values) for values, _ in parts] == [1, 1, 2]
    _assert_equal(tuple(np.concatenate(side) for side in zip(*parts, strict=True)), whole)


def test_a_seekable_dataset_is_a_dataset():
    batches = _of_numbers(None)
    assert isinstance(batches, tf.data.Dataset)
    assert batches.element_spec[0].shape.as_list() == [7, 9, 2]
    for one, two in zip(batches.skip(4).take(1), batches.from_step(4).take(1), strict=True):
        _assert_equal(one, two)


def test_a_checkpoint_keeps_the_place_of_its_step(path, tmp_path):
    """Not the place that has been read ahead: the weights are those of a run without a stop."""

    def trained(directory, *ends):
        for end in ends:
            inputs = keras.Input((None,), dtype="int32", name="source")
            keras.utils.set_random_seed(1)
            embedded = keras.layers.Embedding(40, 1)(inputs)
            model, optimizer = keras.Model(inputs, embedded), keras.optimizers.SGD(0.1)
            progress = resume(RunDirectory(directory), model, optimizer)
            batches = _of_store(path).restore(progress)
            pace = Pace(Budget(steps=60), lambda used, step: 0.1)
            keeping = KeepCheckpoints(
                RunDirectory(directory), pace, lambda: {"score": 0.0}, 1, report=str, data=batches
            )
            fit(
                model, batches, end, optimizer=optimizer, callbacks=[pace, keeping],
                initial_step=int(progress.get("step", 0)),
                objective=lambda model, batch: (
                    tf.reduce_sum(model(batch[0]["source"])), tf.constant(1.0)
                ),
            )  # fmt: skip
        return model.get_weights()[0], progress

    whole, _ = trained(tmp_path / "whole", 60)
    stopped, progress = trained(tmp_path / "stopped", 37, 60)
    np.testing.assert_array_equal(stopped, whole)
    assert progress["step"] == 37
    assert progress["data/step"] <= 37
    assert progress["data/random"].shape == (10,)
