import numpy as np
import pytest

from keras_attn.data.adding import adding_batches


def test_the_target_is_the_sum_of_a_number_in_each_half():
    for sequences, sums in adding_batches(length=7, batch_size=20, seed=3).take(3):
        values, markers = sequences.numpy()[..., 0], sequences.numpy()[..., 1]
        np.testing.assert_array_equal(markers[:, :3].sum(axis=1), np.ones(20))
        np.testing.assert_array_equal(markers[:, 3:].sum(axis=1), np.ones(20))
        np.testing.assert_allclose(sums[:, 0], (values * markers).sum(axis=1), rtol=1e-6)
        assert values.min() >= 0
        assert values.max() < 1


def test_a_batch_is_a_function_of_the_seed_and_its_number():
    whole = [batch[0].numpy() for batch in adding_batches(5, 4, seed=1).take(4)]
    resumed = [batch[0].numpy() for batch in adding_batches(5, 4, seed=1).skip(2).take(2)]
    np.testing.assert_array_equal(whole[2:], resumed)
    assert not np.array_equal(whole[0], whole[1])
    other = next(iter(adding_batches(5, 4, seed=2)))[0].numpy()
    assert not np.array_equal(whole[0], other)


def test_always_answering_one_has_the_error_that_papers_name():
    sums = next(iter(adding_batches(10, 20_000, seed=0)))[1].numpy()
    assert np.mean((sums - 1) ** 2) == pytest.approx(1 / 6, rel=0.03)


def test_a_stream_too_short_for_two_numbers_is_refused():
    with pytest.raises(ValueError, match="Received: length=1"):
        adding_batches(1, 4, seed=1)
