import numpy as np
import pytest
import tensorflow as tf
from reference import cases

from keras_attn.losses import doubly_stochastic_penalty, token_loss


def _smoothing(case):
    return 0.1 if "smoothing" in case["id"] else 0.0


@pytest.mark.parametrize("case", cases("losses"))
def test_mean_over_real_tokens_is_the_reference(case):
    total, count = token_loss(case["labels"], case["logits"], case["mask"], _smoothing(case))
    assert float(total / count) == pytest.approx(case["expect"], abs=1e-6)


@pytest.mark.parametrize("case", cases("losses"))
def test_splitting_a_batch_changes_nothing(case):
    parts = [
        token_loss(
            case["labels"][part],
            case["logits"][part],
            np.array(case["mask"][part]),
            _smoothing(case),
        )
        for part in (slice(0, 1), slice(1, 3))
    ]
    total = sum(float(total) for total, _ in parts)
    count = sum(float(count) for _, count in parts)
    assert total / count == pytest.approx(case["expect"], abs=1e-6)


def test_padding_reaches_neither_loss_nor_gradient():
    logits = tf.constant([[[0.5, -1.0, 2.0], [np.nan, np.inf, 3.0]]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total, count = token_loss([[2, -7]], logits, [[True, False]], 0.1)
    gradient = tape.gradient(total, logits).numpy()
    assert np.isfinite(float(total))
    assert float(count) == 1
    assert np.isfinite(gradient[0, 0]).all()
    np.testing.assert_array_equal(gradient[0, 1], 0)


def test_no_real_token_gives_zero_and_zero():
    total, count = token_loss([[1]], [[[0.0, 1.0]]], [[False]])
    assert (float(total), float(count)) == (0, 0)


def test_sample_weights_weigh_loss_and_count():
    labels, logits = [[0, 1], [1, 1]], np.random.default_rng(0).normal(size=(2, 2, 2))
    mask = np.array([[True, True], [True, False]])
    weighted = token_loss(labels, logits, mask, sample_weight=[2.0, 1.0])
    twice = token_loss(
        [*labels, labels[0]], np.concatenate([logits, logits[:1]]), np.concatenate([mask, mask[:1]])
    )
    np.testing.assert_allclose(weighted, twice, rtol=1e-6)


def test_half_precision_logits_are_summed_in_float32():
    logits = tf.cast(tf.random.normal([1, 3000, 4]), "bfloat16")
    labels, mask = tf.zeros([1, 3000], "int32"), tf.ones([1, 3000], "bool")
    total, count = token_loss(labels, logits, mask)
    assert total.dtype == count.dtype == tf.float32
    assert float(count) == 3000  # bfloat16 cannot count so far
    assert float(total) == pytest.approx(
        float(token_loss(labels, tf.cast(logits, "float32"), mask)[0]), rel=1e-6
    )


def test_gradient_is_that_of_finite_differences():
    logits = tf.random.normal([2, 3, 4], dtype="float64")
    labels, mask = [[0, 1, 2], [3, 0, 0]], [[True, True, True], [True, False, False]]
    theoretical, numerical = tf.test.compute_gradient(
        lambda logits: token_loss(labels, logits, mask, 0.2)[0], [logits]
    )
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-7)


def test_a_mask_of_numbers_is_refused():
    with pytest.raises(ValueError, match=r"boolean.*Received"):
        token_loss([[1]], [[[0.0, 1.0]]], [[1.0]])


def test_smoothing_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"Received: label_smoothing=1\.0"):
        token_loss([[1]], [[[0.0, 1.0]]], None, label_smoothing=1.0)


LABELS = [[0, 2, 1], [3, 1, 0]]
MASK = [[True, True, True], [True, False, False]]
LOGITS = np.random.default_rng(4).normal(size=(2, 3, 4))
MODES = pytest.mark.parametrize("mode", ["eager", "graph", "xla"])


def _in_mode(function, mode):
    return function if mode == "eager" else tf.function(function, jit_compile=mode == "xla")


def _cross_entropies():
    shares = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(shares, np.array(LABELS)[..., None], -1))[..., 0]


@MODES
def test_losses_of_tokens_and_examples_are_those_of_sequence_loss(mode):
    """As `tfa.seq2seq.sequence_loss` sums: times the weights, over their sum along the time."""
    weights = np.array([[1.0, 2.0, 0.5], [1.5, 1.0, 1.0]])
    both = weights * MASK
    for reduction, expected in (
        ("token", both * _cross_entropies()),
        ("example", (both * _cross_entropies()).sum(1) / both.sum(1)),
    ):
        loss = _in_mode(
            lambda logits, reduction=reduction: token_loss(
                LABELS, logits, MASK, sample_weight=weights, reduction=reduction
            ),
            mode,
        )
        np.testing.assert_allclose(loss(tf.constant(LOGITS)), expected, rtol=1e-6)


def test_an_example_without_a_real_token_has_a_loss_of_zero_and_a_finite_gradient():
    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = token_loss(LABELS, logits, [[False] * 3, [True] * 3], reduction="example")
    assert float(loss[0]) == 0
    assert float(loss[1]) == pytest.approx(_cross_entropies()[1].mean())
    np.testing.assert_array_equal(tape.gradient(loss, logits)[0], 0)


def test_an_unknown_reduction_is_refused():
    with pytest.raises(ValueError, match=r"sum_and_count, token, example. Received: reduction='m"):
        token_loss(LABELS, LOGITS, MASK, reduction="mean")


def test_an_empty_batch_has_no_loss():
    for labels in (np.zeros([0, 3], int), np.zeros([2, 0], int), [[], []]):
        shape = np.shape(labels)
        total, count = token_loss(labels, np.zeros([*shape, 4]), np.ones(shape, bool))
        assert (float(total), float(count)) == (0, 0)
        assert (
            token_loss(labels, np.zeros([*shape, 4]), None, reduction="example").shape == shape[:1]
        )


@pytest.mark.parametrize(
    ("smoothing", "mode"), [(0.0, "eager"), (0.2, "eager"), (0.2, "graph"), (0.2, "xla")]
)
def test_z_loss_adds_the_square_of_the_logarithm_of_the_partition(smoothing, mode):
    def loss(logits):
        return token_loss(LABELS, logits, MASK, smoothing, z_loss=0.3)[0]

    plain, _ = token_loss(LABELS, LOGITS, MASK, smoothing)
    squares = np.log(np.exp(LOGITS).sum(-1)) ** 2
    found = _in_mode(loss, mode)(tf.constant(LOGITS))
    assert float(found) == pytest.approx(float(plain) + 0.3 * (squares * MASK).sum())
    theoretical, numerical = tf.test.compute_gradient(_in_mode(loss, mode), [tf.constant(LOGITS)])
    np.testing.assert_allclose(theoretical[0], numerical[0], atol=1e-7)


@pytest.mark.parametrize("z_loss", [-1e-4, np.inf, np.nan])
def test_a_z_loss_that_is_no_factor_is_refused(z_loss):
    with pytest.raises(ValueError, match=r"not negative. Received: z_loss="):
        token_loss(LABELS, LOGITS, MASK, z_loss=z_loss)


def test_nested_lists_are_tensors():
    total, count = token_loss(LABELS, LOGITS.tolist(), MASK)
    assert float(total) == pytest.approx((_cross_entropies() * MASK).sum(), rel=1e-6)
    assert float(count) == 4


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "uint32"])
def test_labels_of_any_integer_dtype_are_the_same(dtype):
    total, _ = token_loss(np.array(LABELS, dtype), LOGITS, MASK)
    assert float(total) == pytest.approx((_cross_entropies() * MASK).sum())


@pytest.mark.parametrize("labels", [[[0.0, 1.0, 2.0]] * 2, [[True, False, True]] * 2])
def test_labels_that_are_no_integers_are_refused(labels):
    with pytest.raises(ValueError, match=r"must be integers.*Received: labels\.dtype="):
        token_loss(labels, LOGITS, MASK)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(("mask", shape) for shape in ((2,), (3,), (), (2, 1), (1, 3), (3, 2), (2, 3, 1))),
        *(
            ("sample_weight", shape)
            for shape in ((3,), (1,), (), (2, 1), (1, 3), (3, 2), (2, 3, 1))
        ),
        *(("logits", shape) for shape in ((1, 3, 4), (2, 1, 4), (3, 4), (2, 4), (3, 2, 4), (4,))),
        ("labels", (2,)),
        ("labels", (2, 3, 1)),
    ],
)
def test_nothing_is_broadcast(name, shape):
    given = {"labels": LABELS, "logits": LOGITS, "mask": MASK, "sample_weight": [1.0, 2.0]}
    dtype = {"labels": int, "mask": bool}.get(name, float)
    with pytest.raises(ValueError, match=rf"Received: {name}\.shape=") as caught:
        token_loss(**{**given, name: np.ones(shape, dtype)})
    assert "\n" not in str(caught.value)


def test_a_mask_of_rows_is_not_read_as_one_of_positions():
    logits = [[[0.0, 5.0, 0.0]] * 2, [[0.0, 0.0, 0.0]] * 2]
    with pytest.raises(ValueError, match=r"shape of the labels.*mask\.shape=\(2,\)"):
        token_loss([[1, 1], [1, 1]], logits, [True, False])
    total, count = token_loss([[1, 1], [1, 1]], logits, None, sample_weight=[1.0, 0.0])
    assert float(total / count) == pytest.approx(0.0133859, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "shape"), [("mask", (2, 1)), ("sample_weight", (1, 3)), ("logits", (1, 3, 4))]
)
def test_nothing_is_broadcast_either_where_shapes_are_known_only_when_the_graph_runs(name, shape):
    given = {"labels": LABELS, "logits": LOGITS, "mask": MASK, "sample_weight": np.ones([2, 3])}
    given = {key: tf.convert_to_tensor(value) for key, value in given.items()}
    signature = [tf.TensorSpec([None] * x.shape.rank, x.dtype) for x in given.values()]

    def loss(labels, logits, mask, sample_weight):
        return token_loss(labels, logits, mask, sample_weight=sample_weight)[0]

    expected = float(loss(**given))
    given[name] = tf.ones(shape, given[name].dtype)
    for jit_compile in (False, True):
        traced = tf.function(loss, input_signature=signature, jit_compile=jit_compile)
        good = {**given, "logits": tf.constant(LOGITS), "sample_weight": tf.ones([2, 3], "float64")}
        assert float(traced(**{**good, "mask": tf.constant(MASK)})) == pytest.approx(expected)
        if jit_compile:  # XLA can raise nothing
            assert np.isnan(float(traced(**given)))
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="for nothing is broadcast"):
                traced(**given)


OUTSIDE = [(-1, "int32"), (4, "int32"), (2**32, "int64"), (-(2**32), "int64"), (200, "uint8")]


@MODES
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("label", "dtype"), OUTSIDE)
def test_a_label_outside_of_the_vocabulary_is_an_error_and_where_there_is_none_no_number(
    label, dtype, smoothing, mode
):
    labels = np.array(LABELS, dtype)
    labels[0, 1] = label

    def loss_and_gradient(labels, logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss, _ = token_loss(labels, logits, MASK, smoothing)
        return loss, tape.gradient(loss, logits)

    run, logits = _in_mode(loss_and_gradient, mode), tf.constant(LOGITS)
    if mode == "xla":
        loss, gradient = run(tf.constant(labels), logits)
        assert np.isnan(float(loss))
        np.testing.assert_array_equal(gradient[0, 1], 0)
        _, other = run(tf.constant(LABELS, dtype), logits)
        np.testing.assert_array_equal(gradient[0, 0], other[0, 0])
        return
    error = ValueError if mode == "eager" else tf.errors.InvalidArgumentError
    with pytest.raises(error, match=rf"Received: label\D*{label}\D+4(?!\d)"):
        run(tf.constant(labels), logits)


@MODES
@pytest.mark.parametrize(("label", "dtype"), OUTSIDE)
def test_labels_of_tokens_that_do_not_count_are_ignored(label, dtype, mode):
    labels = np.array(LABELS, dtype)
    labels[1, 1:] = label

    def losses(labels):
        masked, _ = token_loss(labels, LOGITS, MASK)
        return masked, token_loss(labels, LOGITS, None, sample_weight=np.array(MASK))[0]

    for total in _in_mode(losses, mode)(tf.constant(labels)):
        assert float(total) == pytest.approx((_cross_entropies() * MASK).sum())


@pytest.mark.parametrize("case", cases("vision", "doubly-stochastic"))
def test_the_penalty_of_attention_is_the_reference_whatever_is_behind_a_caption(case):
    attention, lengths = np.array(case["attention"], np.float32), case["lengths"]
    assert float(doubly_stochastic_penalty(attention, lengths)) == pytest.approx(
        case["expect"], abs=1e-6
    )
    behind = np.arange(attention.shape[1]) >= np.array(lengths)[:, None]
    attention[behind] = np.nan
    with tf.GradientTape() as tape:
        tape.watch(attention := tf.constant(attention))
        penalty = doubly_stochastic_penalty(attention, lengths)
    assert float(penalty) == pytest.approx(case["expect"], abs=1e-6)
    gradient = tape.gradient(penalty, attention).numpy()
    np.testing.assert_array_equal(gradient[behind], 0.0)
    assert (gradient[~behind] != 0).all()


def test_the_penalty_of_no_caption_is_nothing_and_other_shapes_are_refused():
    assert float(doubly_stochastic_penalty(np.zeros((0, 3, 4), np.float32), [])) == 0.0
    with pytest.raises(ValueError, match=r"Received: attention.shape=\(2, 3\)"):
        doubly_stochastic_penalty(np.zeros((2, 3), np.float32), [1, 1])
