"""Blockwise attention against dense attention: outputs, gradients, memory."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.ops import blockwise_attention, dot_product_attention
from keras_attn.ops.attention import chooses_blockwise

MASKS = ["none", "BS", "BTS", "1TS", "BNTS", "B1TS", "BT1", "BN1S"]
LENGTHS = [(1, 1), (5, 5), (8, 8), (5, 11), (11, 5), (1, 9), (9, 1), (0, 3), (3, 0)]


def _random(*shapes, seed=0):
    rng = np.random.default_rng(seed)
    return [tf.constant(rng.standard_normal(shape), tf.float32) for shape in shapes]


def _inputs(queries, keys, batch=2, heads=4, groups=2):
    return _random((batch, queries, heads, 6), (batch, keys, groups, 6), (batch, keys, groups, 5))


def _mask(form, batch, queries, keys, heads=4):
    shapes = {
        "BS": (batch, keys),
        "BTS": (batch, queries, keys),
        "1TS": (1, queries, keys),
        "BNTS": (batch, heads, queries, keys),
        "B1TS": (batch, 1, queries, keys),
        "BT1": (batch, queries, 1),
        "BN1S": (batch, heads, 1, keys),
    }
    if form == "none":
        return None
    return np.random.default_rng(1).random(shapes[form]) < 0.5


def _with_gradients(attend, inputs):
    """The output, and the gradients of a function of it that no symmetry simplifies."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        output = attend(*inputs)
        loss = tf.reduce_sum(tf.sin(tf.cast(output, tf.float32)) * tf.cast(output, tf.float32))
    return [output, *tape.gradient(loss, inputs)]


def _assert_equal_to_dense(inputs, mask=None, atol=1e-5, attend=None, **options):
    attend = attend or (lambda *x: blockwise_attention(*x, mask, block_size=4, **options))
    dense = _with_gradients(
        lambda *x: dot_product_attention(*x, mask, method="dense", **options), inputs
    )
    for blockwise, expected in zip(_with_gradients(attend, inputs), dense, strict=True):
        assert blockwise.shape == expected.shape
        assert blockwise.dtype == expected.dtype
        np.testing.assert_allclose(
            tf.cast(blockwise, tf.float32), tf.cast(expected, tf.float32), atol=atol, rtol=atol
        )


@pytest.mark.parametrize("form", MASKS)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("window", [None, 3])
def test_outputs_and_gradients_are_those_of_dense_attention_for_every_mask(form, causal, window):
    queries, keys = (5, 11) if window is None else (11, 5)
    mask = _mask(form, 2, queries, keys)
    _assert_equal_to_dense(_inputs(queries, keys), mask, causal=causal, window=window)


@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
@pytest.mark.parametrize("form", ["none", "BS"])
def test_lengths_around_the_block_and_of_zero_are_those_of_dense_attention(queries, keys, form):
    for causal, window in [(False, None), (True, 3)]:
        mask = _mask(form, 2, queries, keys)
        _assert_equal_to_dense(_inputs(queries, keys), mask, causal=causal, window=window)


@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (4, 4), (4, 1), (6, 2)])
def test_each_key_head_serves_its_group_of_query_heads(heads, groups):
    _assert_equal_to_dense(_inputs(6, 9, heads=heads, groups=groups), causal=True)


def test_an_empty_batch_has_an_empty_output():
    _assert_equal_to_dense(_inputs(5, 7, batch=0), np.ones((0, 7), bool), causal=True)


@pytest.mark.parametrize("shared", ["query", "key"])
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown batch"])
def test_one_side_may_be_shared_by_all_examples(shared, unknown):
    batches = {"query": 3, "key": 3, shared: 1}
    inputs = _random(*[(batches[n], 5, 2, 6) for n in ("query", "key", "key")])
    mask = np.arange(5)[None] < np.array([5, 2, 0])[:, None]

    def attend(*inputs):
        return blockwise_attention(*inputs, mask, block_size=4)

    if unknown:
        attend = tf.function(attend, input_signature=[
            tf.TensorSpec((1 if batches[n] == 1 else None, None, 2, 6))
            for n in ("query", "key", "key")
        ])  # fmt: skip
    _assert_equal_to_dense(inputs, mask, attend=attend)


def test_default_blocks_and_scale_are_those_of_dense_attention():
    inputs = _random(*[(1, 300, 1, 4)] * 3)
    attend = lambda *x: dot_product_attention(*x, causal=True, scale=0.3, method="blockwise")  # noqa: E731
    _assert_equal_to_dense(inputs, attend=attend, causal=True, scale=0.3)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_query_without_keys_gets_zeros_and_finite_gradients(dtype):
    inputs = [tf.cast(x, dtype) for x in _inputs(6, 6)]
    mask = np.arange(6)[None] < np.array([[4], [0]])
    output, *gradients = _with_gradients(
        lambda *x: blockwise_attention(*x, mask, block_size=4), inputs
    )
    assert np.all(tf.cast(output[1], tf.float32) == 0)
    assert np.any(tf.cast(output[0], tf.float32) != 0)
    for gradient in gradients:
        assert np.all(np.isfinite(tf.cast(gradient, tf.float32)))
        assert np.all(tf.cast(gradient[1], tf.float32) == 0)


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("form", ["BS", "BTS"])
def test_nan_of_a_hidden_key_reaches_no_output_and_no_gradient(form, window):
    """As in dense attention: hidden by the mask, or beside a mask by the window, from everyone."""
    query, key, value = _inputs(4, 9)
    mask = np.ones((2, 9), bool)
    mask[:, 7] = False
    hidden = [7] if window is None else [0, 1, 2, 3, 7]
    mask = mask if form == "BS" else np.repeat(mask[:, None], 4, axis=1)
    poison = np.zeros((1, 9, 1, 1), "float32")
    poison[:, hidden] = np.nan
    attend = lambda *x: blockwise_attention(*x, mask, True, window, block_size=4)  # noqa: E731
    clean = _with_gradients(attend, [query, key, value])
    poisoned = _with_gradients(attend, [query, key + poison, value + poison])
    for expected, result in zip(clean, poisoned, strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("dtype", "atol"), [("bfloat16", 0.06), ("float16", 0.01)])
def test_half_precision_is_nearer_to_float32_than_dense_attention(dtype, atol):
    inputs = [tf.cast(x, dtype) for x in _inputs(11, 11)]
    _assert_equal_to_dense(inputs, atol=atol, causal=True)
    exact = dot_product_attention(*(tf.cast(x, tf.float32) for x in inputs), causal=True)
    error = {
        method: np.abs(
            tf.cast(dot_product_attention(*inputs, causal=True, method=method), tf.float32) - exact
        ).mean()
        for method in ("dense", "blockwise")
    }
    assert error["blockwise"] <= error["dense"]


def test_statistics_are_float32_over_many_keys_of_half_precision():
    """Summed in bfloat16, 4096 equal weights would stop at 256."""
    value = tf.cast(np.tile([1.0, 3.0], 2048), tf.bfloat16)[None, :, None, None]
    output = blockwise_attention(tf.zeros_like(value)[:, :1], tf.zeros_like(value), value)
    np.testing.assert_array_equal(tf.cast(output, tf.float32), [[[[2.0]]]])


def _run_in_graph(attend, inputs, **options):
    return tf.function(lambda *x: _with_gradients(attend, list(x)), **options)(*inputs)


@pytest.mark.parametrize("case", ["plain", "masked", "dropped"])
def test_eager_graph_and_xla_agree(case):
    inputs = _inputs(7, 10)
    options = {
        "plain": {"causal": True},
        "masked": {"mask": _mask("BS", 2, 7, 10), "window": 4},
        "dropped": {"dropout": 0.5, "seed": tf.constant([1, 2])},
    }[case]

    def attend(*inputs, jit_compile):
        return blockwise_attention(*inputs, block_size=4, jit_compile=jit_compile, **options)

    def plain(*inputs):
        return attend(*inputs, jit_compile=False)

    def compiled(*inputs):
        return attend(*inputs, jit_compile=True)

    def chosen(*inputs):
        return attend(*inputs, jit_compile="auto")

    eager = _with_gradients(plain, inputs)
    unknown = [tf.TensorSpec([None, None, *x.shape[2:]]) for x in inputs]
    for name, results in {
        "graph": _run_in_graph(plain, inputs),
        "unknown sizes": _run_in_graph(chosen, inputs, input_signature=unknown),
        "compiled loops": _with_gradients(compiled, inputs),
        "compiled where it pays": _run_in_graph(chosen, inputs),
        "compiled as a whole": _run_in_graph(chosen, inputs, jit_compile=True),
    }.items():
        for result, expected in zip(results, eager, strict=True):
            np.testing.assert_allclose(result, expected, atol=1e-5, err_msg=name)


def test_a_graph_of_unknown_sizes_takes_any_of_them_and_any_mask():
    signature = [tf.TensorSpec([None, None, 4, 6]), *[tf.TensorSpec([None, None, 2, 6])] * 2]

    @tf.function(input_signature=[*signature, tf.TensorSpec([None] * 4, tf.bool)])
    def attend(query, key, value, mask):
        return blockwise_attention(query, key, value, mask, causal=True, block_size=4)

    for batch, queries, keys, form in [
        (2, 5, 9, "BNTS"), (3, 9, 8, "B1TS"), (1, 1, 1, "BN1S"), (0, 4, 4, "BNTS"),
        (2, 0, 3, "BNTS"), (2, 3, 0, "BNTS"),
    ]:  # fmt: skip
        query, key = _random((batch, queries, 4, 6), (batch, keys, 2, 6))
        mask = _mask(form, batch, queries, keys)
        expected = dot_product_attention(query, key, key, mask, causal=True, method="dense")
        np.testing.assert_allclose(attend(query, key, key, mask), expected, atol=1e-5)


def test_the_gradient_has_a_gradient():
    inputs = _inputs(5, 7)

    def curvature(attend):
        with tf.GradientTape() as outer:
            outer.watch(inputs)
            gradients = _with_gradients(attend, inputs)[1:]
            loss = tf.add_n([tf.reduce_sum(tf.cos(gradient)) for gradient in gradients])
        return outer.gradient(loss, inputs)

    mask = _mask("BS", 2, 5, 7)
    dense = curvature(lambda *x: dot_product_attention(*x, mask, causal=True, method="dense"))
    attend = lambda *x: blockwise_attention(*x, mask, causal=True, block_size=4)  # noqa: E731
    for run in (curvature, tf.function(curvature)):
        for result, expected in zip(run(attend), dense, strict=True):
            np.testing.assert_allclose(result, expected, atol=1e-5)


class TestDropout:
    def attend(self, *inputs, seed=(1, 2), dropout=0.4, **options):
        return blockwise_attention(
            *inputs, block_size=4, dropout=dropout, seed=tf.constant(seed), **options
        )

    def weights(self, queries, keys, **options):
        """The weights after dropout, read off by values that are the unit vectors."""
        query, key, _ = _inputs(queries, keys, heads=2)
        value = tf.tile(tf.eye(keys)[None, :, None], [2, 1, 2, 1])
        return tf.transpose(self.attend(query, key, value, **options), [0, 2, 1, 3])

    def test_forward_and_backward_drop_the_same_weights(self):
        """The gradient of the loss is that with the mask of the forward pass as a constant."""
        inputs = _inputs(6, 9, heads=2)
        kept = tf.cast(self.weights(6, 9) > 0, tf.float32) / 0.6

        def dropped_densely(query, key, value):
            scores = tf.einsum("btnd,bsnd->bnts", query, key) * 6**-0.5
            return tf.einsum("bnts,bsnd->btnd", tf.nn.softmax(scores) * kept, value)

        expected = _with_gradients(dropped_densely, inputs)
        for result, dense in zip(_with_gradients(self.attend, inputs), expected, strict=True):
            np.testing.assert_allclose(result, dense, atol=1e-5)

    def test_the_seed_decides_and_blocks_heads_and_examples_differ(self):
        kept = np.array(self.weights(8, 8)) > 0
        np.testing.assert_array_equal(np.array(self.weights(8, 8)) > 0, kept)
        assert np.any((np.array(self.weights(8, 8, seed=(1, 3))) > 0) != kept)
        blocks = [
            kept[b, n, t : t + 4, s : s + 4].tobytes()
            for b in (0, 1) for n in (0, 1) for t in (0, 4) for s in (0, 4)
        ]  # fmt: skip
        assert len(set(blocks)) == len(blocks)

    def test_the_share_that_is_kept_and_the_mean_are_right(self):
        weights = np.array(self.weights(200, 100))
        assert abs(np.mean(weights > 0) - 0.6) < 0.01
        assert abs(np.mean(weights.sum(axis=-1)) - 1) < 0.01

    def test_needs_a_seed_and_a_probability(self):
        inputs = _inputs(3, 3)
        for method in ("dense", "blockwise"):
            with pytest.raises(ValueError, match="Received: seed=None"):
                dot_product_attention(*inputs, method=method, dropout=0.1)
            with pytest.raises(ValueError, match=r"Received: dropout=1\.5"):
                dot_product_attention(*inputs, method=method, dropout=1.5, seed=[1, 2])
            with pytest.raises(ValueError, match=r"Received: seed.shape=\(3,\)"):
                dot_product_attention(*inputs, method=method, dropout=0.5, seed=[1, 2, 3])


def _strided(query_block, key_block):
    return (query_block - key_block <= 1) | (key_block % 3 == 2)


def _with_global_tokens(query_block, key_block):
    return (abs(query_block - key_block) <= 1) | (query_block == 0) | (key_block == 0)


def _nothing(query_block, key_block):
    return (query_block < 0) & (key_block < 0)


class TestBlockMask:
    @pytest.mark.parametrize("pattern", [_strided, _with_global_tokens, _nothing])
    @pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (False, 7)])
    @pytest.mark.parametrize("jit_compile", [False, True], ids=["plain", "compiled"])
    def test_equals_dense_attention_with_the_pattern_as_a_mask(
        self, pattern, causal, window, jit_compile
    ):
        inputs = _inputs(14, 14)
        block = np.arange(14) // 2
        mask = pattern(block[:, None], block[None])[None]

        def attend(*inputs):
            return blockwise_attention(
                *inputs, causal=causal, window=window, block_mask=pattern, block_size=2,
                jit_compile=jit_compile,
            )  # fmt: skip

        _assert_equal_to_dense(inputs, mask, attend=attend, causal=causal, window=window)

    def test_hidden_blocks_are_not_computed(self):
        """A NaN in a block that a query block does not see would reach it as 0 x NaN."""
        query, key, value = _inputs(8, 8)
        spoiled = tf.concat([value[:, :4] * np.nan, value[:, 4:]], axis=1)
        own = lambda i, j: i == j  # noqa: E731
        output = blockwise_attention(query, key, spoiled, block_mask=own, block_size=4)
        assert np.all(np.isnan(output[:, :4]))
        assert np.all(np.isfinite(output[:, 4:]))

    def test_needs_booleans_and_the_size_of_a_block(self):
        inputs = _inputs(8, 8)
        with pytest.raises(ValueError, match="Received: block_size=None"):
            blockwise_attention(*inputs, block_mask=_strided)
        with pytest.raises(ValueError, match="Received: block_size=0"):
            blockwise_attention(*inputs, block_size=0)
        with pytest.raises(ValueError, match=r"Received: block_mask\.dtype"):
            blockwise_attention(*inputs, block_mask=lambda i, j: i + j, block_size=4)


@pytest.mark.parametrize(("causal", "window"), [(True, None), (False, 3), (True, 3)])
def test_blocks_that_causal_or_window_hide_are_not_computed(causal, window):
    query, key, value = _inputs(12, 12)
    spoiled = tf.concat([value[:, :8], value[:, 8:] * np.nan], axis=1)
    output = blockwise_attention(query, key, spoiled, None, causal, window, block_size=4)
    assert np.all(np.isfinite(output[:, :4]))
    assert np.all(np.isnan(output[:, 8:]))
    if window is not None:
        spoiled = tf.concat([value[:, :4] * np.nan, value[:, 4:]], axis=1)
        output = blockwise_attention(query, key, spoiled, None, causal, window, block_size=4)
        assert np.all(np.isfinite(output[:, 8:]))


def _largest_tensor(graph) -> int:
    """The most elements that a tensor of a known shape has, in a graph and its functions."""
    functions = [graph, *(f.graph for f in graph._functions.values())]
    sizes = [
        output.shape.num_elements() or 0
        for function in functions
        for operation in function.get_operations()
        for output in operation.outputs
        if output.shape.is_fully_defined()
    ]
    return max(sizes)


@pytest.mark.parametrize("form", ["none", "BS"])
@pytest.mark.parametrize(("causal", "window"), [(False, None), (True, None), (True, 5)])
def test_no_tensor_of_the_passes_has_an_entry_for_each_query_and_key(form, causal, window):
    length, block = 512, 16
    mask = _mask(form, 1, length, length)

    def largest(attention, **options):
        @tf.function
        def run(*inputs):
            def attend(*x):
                return attention(*x, mask, causal=causal, window=window, **options)

            return _with_gradients(attend, list(inputs))

        specs = [tf.TensorSpec([1, length, 2, 4])] * 3
        return _largest_tensor(run.get_concrete_function(*specs).graph)

    assert largest(dot_product_attention, method="dense") >= length**2
    # The inputs in float32, or what tells which blocks are seen.
    assert largest(blockwise_attention, block_size=block, jit_compile=False) <= length * 2 * 4


def test_gradient_survives_a_saved_model(tmp_path):
    module = tf.Module()
    specs = [tf.TensorSpec([2, None, 4, 6]), *[tf.TensorSpec([2, None, 2, 6])] * 2]

    @tf.function(input_signature=specs)
    def attend(query, key, value):
        return blockwise_attention(
            query, key, value, causal=True, block_size=4, dropout=0.2, seed=tf.constant([1, 2])
        )

    module.attend = attend
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(module, str(tmp_path), options=options)
    reloaded = tf.saved_model.load(str(tmp_path)).attend
    inputs = _random((2, 7, 4, 6), (2, 9, 2, 6), (2, 9, 2, 6))
    original = _with_gradients(attend, inputs)
    for result, expected in zip(_with_gradients(reloaded, inputs), original, strict=True):
        np.testing.assert_allclose(result, expected, atol=1e-6)


class TestMethod:
    def test_weights_are_not_returned_blockwise_and_dense_by_auto(self):
        inputs = _inputs(5, 5)
        with pytest.raises(ValueError, match="Received: method='blockwise', return_weights=True"):
            dot_product_attention(*inputs, method="blockwise", return_weights=True)
        _, weights = dot_product_attention(*inputs, return_weights=True)
        assert weights.shape == (2, 4, 5, 5)

    @pytest.mark.parametrize(("change", "message"), [
        ({"mask": np.ones((2, 5), "float32")}, "float mask is refused"),
        ({"window": -1}, "Received: window=-1"),
        ({"mask": np.ones((5, 5), bool)}, "Received: mask.shape"),
        ({"value": np.ones((2, 4, 2, 6), "float32")}, "equally many"),
    ], ids=["float mask", "negative window", "mask shape", "value length"])  # fmt: skip
    def test_bad_arguments_are_refused_as_in_dense_attention(self, change, message):
        query, key, value = _inputs(5, 5)
        arguments = {"query": query, "key": key, "value": value, **change}
        with pytest.raises(ValueError, match=message):
            dot_product_attention(**arguments, method="blockwise")

    def test_auto_is_blockwise_where_blocks_are_skipped_or_memory_is_short(self):
        def chosen(queries, keys, *options, batch=1):
            shapes = (batch, queries, 8, 64), (batch, keys, 8, 64)
            return chooses_blockwise(*map(tf.TensorSpec, shapes), *options)

        assert chosen(1024, 1024, True)
        assert chosen(1024, 1024, False, 128)
        assert chosen(8192, 8192)
        assert chosen(1024, 1024, batch=64)
        assert not chosen(1024, 1024)
        assert not chosen(1024, 1024, False, 1024)
        assert not chosen(64, 64, True)
        assert not chosen(1, 8192, True)
        assert not chosen(None, None, True)
        assert chosen(1024, 1024, True, batch=None)
