import numpy as np
import pytest

from keras_attn.data.number_sequences import number_sequences


def _batches(count, **changed):
    settings = {"shortest": 2, "longest": 6, "batch_size": 8, "seed": 3, **changed}
    return list(number_sequences(**settings).take(count).as_numpy_iterator())


def test_all_lengths_and_all_numbers_occur_and_no_others():
    batches = _batches(60)
    assert {batch.shape for batch in batches} == {(8, length) for length in range(2, 7)}
    assert set(np.concatenate([batch.ravel() for batch in batches])) == set(range(20))


def test_numbers_repeat_within_a_sequence():
    sequences = _batches(1, shortest=15, longest=15)[0]
    assert any(len(set(sequence)) < len(sequence) for sequence in sequences.tolist())


def test_a_batch_is_a_function_of_the_seed_and_its_step():
    whole = _batches(5)
    batches = number_sequences(2, 6, 8, seed=3)
    for step in (3, 4):
        later = next(batches.from_step(step).as_numpy_iterator())
        np.testing.assert_array_equal(later, whole[step])
    assert len({batch.tobytes() for batch in whole}) == 5
    assert not np.array_equal(_batches(1, shortest=6)[0], _batches(1, shortest=6, seed=4)[0])


def test_workers_read_the_rows_of_one_batch_between_them():
    batches = number_sequences(4, 6, 8, seed=3)
    shares = [next(iter(batches.parts(2, index, 2)))[0].numpy() for index in (0, 1)]
    np.testing.assert_array_equal(np.concatenate(shares), next(iter(batches.from_step(2))))


@pytest.mark.parametrize(
    ("settings", "received"),
    [
        ({"shortest": 0}, "shortest=0, longest=6"),
        ({"shortest": 7}, "shortest=7, longest=6"),
        ({"numbers": 0}, "numbers=0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(settings, received):
    with pytest.raises(ValueError, match=f"Received: {received}"):
        _batches(1, **settings)
