"""What a call refuses is refused in the same words where shapes alone are known."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import layers

ATTENTIONS = {
    "multi-head": lambda: layers.MultiHeadAttention(2, 3),
    "additive": lambda: layers.AdditiveAttention(3),
    "multiplicative": lambda: layers.LuongAttention(),
}
BLOCKS = {
    "encoder": lambda: layers.TransformerEncoderBlock(2, 4),
    "decoder": lambda: layers.TransformerDecoderBlock(2, 4),
    "feed-forward": lambda: layers.FeedForward(4),
}


NAMES = ("query", "value", "key", "inputs", "features", "memory")


def _refusal(run) -> str:
    with pytest.raises(ValueError, match=r"\. Received: ") as error:
        run()
    # Keras puts the message of an error inside a call in bold, among the arguments of the call.
    text = str(error.value)
    inside = re.search("\x1b\\[1m(.*)\x1b\\[0m", text)
    return inside[1] if inside else text


def _zeros(shape, dtype="float32"):
    return np.zeros([2 if n is None else n for n in shape], dtype)


def _symbol(shape, dtype="float32"):
    return keras.Input(batch_shape=shape, dtype=dtype)


def _check_shapes(make, shapes, built_for=None):
    """A call, a symbolic call and `compute_output_shape` refuse the shapes in one sentence."""

    def layer():
        made = make()
        if built_for is not None:
            made(*(_zeros(shape) for shape in built_for))
        return made

    expected = _refusal(lambda: layer()(*map(_zeros, shapes)))
    assert expected.count("Received: ") == 1
    assert expected.split("Received: ")[1].split(".")[0].split("=")[0] in NAMES
    assert _refusal(lambda: layer()(*map(_symbol, shapes))) == expected
    assert _refusal(lambda: layer().compute_output_shape(*shapes)) == expected


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("shapes", [
    [(2, 3, 6), (2, 4, 6), (2, 5, 6)],
    [(2, 3, 6), (3, 4, 6)],
    [(2, 3, 6), (2, 4, 6), (3, 4, 6)],
    [(3, 6), (4, 6)],
    [(2, 3, 6), (4, 6)],
    [(2, 3, 6), (2, 4, 6), (4, 6)],
])  # fmt: skip
def test_attention_refuses_inputs_that_do_not_go_together(name, shapes):
    _check_shapes(ATTENTIONS[name], shapes)


def test_attention_over_some_axes_refuses_what_does_not_go_together():
    make = lambda **options: lambda: layers.MultiHeadAttention(2, 3, **options)  # noqa: E731
    grid = (2, 3, 4, 6)
    _check_shapes(make(attention_axes=(2,)), [grid, (2, 5, 4, 6)])
    _check_shapes(make(attention_axes=(2,)), [grid, grid, (2, 3, 5, 6)])
    _check_shapes(make(), [grid, grid, (2, 4, 3, 6)])
    _check_shapes(make(), [grid, (3, 3, 4, 6)])
    for shape in ((2, 3, 6), grid):
        with pytest.raises(ValueError, match=r"Received: attention_axes=\(3,\)"):
            make(attention_axes=(3,))().compute_output_shape(shape, shape)


def test_the_dot_score_refuses_sizes_that_differ():
    make = lambda: layers.LuongAttention("dot")  # noqa: E731
    expected = "Received: query_shape=(2, 3, 6), key_shape=(2, 4, 5)"
    for run in (
        lambda: make()(_zeros((2, 3, 6)), _zeros((2, 4, 5))),
        lambda: make()(_symbol((2, 3, 6)), _symbol((2, 4, 5))),
        lambda: make().compute_output_shape((2, 3, 6), (2, 4, 5)),
    ):
        assert expected in _refusal(run)


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_built_attention_refuses_other_features(name, place):
    shapes = [(2, 3, 6), (2, 4, 6), (2, 4, 6)]
    built_for = list(shapes)
    shapes[place] = (*shapes[place][:2], 5)
    if place == 1 and name != "multi-head":
        return  # the values are not projected there
    _check_shapes(ATTENTIONS[name], shapes, built_for)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_refuse_inputs_without_axes_or_of_other_features(name):
    memory = [(2, 4, 5)] if name == "decoder" else []
    wrong = [(6,)] if name == "feed-forward" else [(3, 6), (2, 3, 4, 6)]
    for shape in wrong:
        _check_shapes(BLOCKS[name], [shape, *memory])
    _check_shapes(BLOCKS[name], [(2, 3, 8), *memory], [(2, 3, 6), *memory])
    if name != "feed-forward":
        _check_shapes(BLOCKS[name], [(2, 3, 7), *memory])


def test_a_decoder_block_refuses_a_memory_that_does_not_fit():
    for memory in ((3, 4, 5), (4, 5)):
        _check_memory([(2, 3, 6), memory])
    _check_memory([(2, 3, 6), (2, 4, 7)], [(2, 3, 6), (2, 4, 5)])


def _check_memory(shapes, built_for=None):
    def block():
        made = BLOCKS["decoder"]()
        if built_for is not None:
            made(*map(_zeros, built_for))
        return made

    expected = _refusal(lambda: block()(*map(_zeros, shapes)))
    assert "memory.shape=" in expected
    assert _refusal(lambda: block()(*map(_symbol, shapes))) == expected
    assert _refusal(lambda: block().compute_output_shape(*shapes)) == expected


SEQUENCES = {"query": (2, 3, 6), "value": (2, 4, 6)}


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("masks", [
    {"query_mask": (2, 4)}, {"value_mask": (2, 3)}, {"key_mask": (3, 4)}, {"key_mask": (4,)},
    {"attention_mask": (3, 3)}, {"attention_mask": (2, 4, 3)}, {"attention_mask": (3, 3, 4)},
])  # fmt: skip
def test_symbolic_masks_that_do_not_fit_are_refused_like_real_ones(name, masks):
    layer = ATTENTIONS[name]()
    messages = [
        _refusal(lambda make=make: layer(
            **{name: make(shape) for name, shape in SEQUENCES.items()},
            **{name: make(shape, "bool") for name, shape in masks.items()},
        ))
        for make in (_zeros, _symbol)
    ]  # fmt: skip
    assert messages[0] == messages[1]
    assert next(iter(masks)) in messages[0].split("Received: ")[1]


@pytest.mark.parametrize("name", ["encoder", "decoder"])
@pytest.mark.parametrize("mask", [{"mask": (2, 4)}, {"mask": (3, 3)}, {"mask": (2, 1, 3)},
                                  {"attention_mask": (2, 2)}, {"memory_mask": (2, 3)}],
                         ids=str)  # fmt: skip
def test_symbolic_masks_of_blocks_that_do_not_fit_are_refused_like_real_ones(name, mask):
    if name == "encoder" and "memory_mask" in mask:
        return
    shapes = [(2, 3, 6), (2, 4, 6)] if name == "decoder" else [(2, 3, 6)]
    block = BLOCKS[name]()
    messages = [
        _refusal(lambda make=make: block(
            *map(make, shapes), **{name: make(shape, "bool") for name, shape in mask.items()}
        ))
        for make in (_zeros, _symbol)
    ]  # fmt: skip
    assert messages[0] == messages[1]


@pytest.mark.parametrize("wrong", [
    {"value": (2, 2, 6)}, {"query": (3, 3, 6), "value": (3, 3, 6)}, {"value_mask": (3, 4)},
    {"query_mask": (2, 4)}, {"attention_mask": (2, 5)}, {"cache": (2, 2, 6, 3, 3)},
])  # fmt: skip
def test_a_cached_call_refuses_what_does_not_go_with_its_cache(wrong):
    layer = layers.MultiHeadAttention(2, 3)
    layer(_zeros((2, 3, 6)), _zeros((2, 3, 6)))
    shapes = {"query": (2, 3, 6), "value": (2, 3, 6), "cache": (2, 2, 6, 2, 3)} | wrong
    messages = [
        _refusal(lambda make=make: layer(
            **{n: make(s, "bool" if "mask" in n else "float32") for n, s in shapes.items()},
            cache_position=0,
        ))
        for make in (_zeros, _symbol)
    ]  # fmt: skip
    assert messages[0] == messages[1]


def test_a_projected_memory_of_another_layer_is_refused():
    block = layers.TransformerDecoderBlock(2, 4)
    tokens, memory = _zeros((2, 3, 6)), _zeros((2, 4, 6))
    block(tokens, memory)
    for shape in ((2, 2, 4, 3, 3), (2, 4, 6), (3, 2, 4, 2, 3)):
        messages = [
            _refusal(lambda m=make, s=shape: block(m((2, 3, 6)), memory_cache=m(s)))
            for make in (_zeros, _symbol)
        ]
        assert messages[0] == messages[1]
    with pytest.raises(ValueError, match=r"6 features. Received: memory.shape=\(2, 4, 5\)"):
        block.project_memory(_zeros((2, 4, 5)))


def test_a_mask_over_axes_that_does_not_fit_is_refused_before_anything_is_computed():
    layer = layers.MultiHeadAttention(2, 3, attention_axes=(2,))
    for make in (_zeros, _symbol):
        with pytest.raises(ValueError, match=r"Received: attention_mask.shape=\(4, 3\)"):
            layer(make((2, 3, 4, 6)), make((2, 3, 4, 6)), attention_mask=make((4, 3), "bool"))


def test_shapes_that_are_not_known_yet_are_let_through():
    for make in ATTENTIONS.values():
        outputs = make()(_symbol((None, None, 6)), _symbol((None, None, 6)))
        assert tuple(outputs.shape) == (None, None, 6)
    run = tf.function(
        layers.MultiHeadAttention(2, 3), input_signature=[tf.TensorSpec((None, None, 6))] * 2
    )
    assert tuple(run(tf.zeros((2, 3, 6)), tf.zeros((2, 4, 6))).shape) == (2, 3, 6)


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (1, 3, 4), (2, 1, 3, 4)])
def test_symbolic_masks_that_fit_make_the_model_of_the_call(name, shape):
    if name != "multi-head" and len(shape) == 4:
        return
    rng = np.random.default_rng(3)
    layer = ATTENTIONS[name]()
    query, value = (rng.standard_normal(shape).astype("float32") for shape in SEQUENCES.values())
    mask = rng.random(shape) < 0.6
    inputs = [_symbol(x.shape, str(x.dtype)) for x in (query, value, mask)]
    model = keras.Model(inputs, layer(*inputs[:2], attention_mask=inputs[2]))
    expected = layer(query, value, attention_mask=mask)
    np.testing.assert_allclose(model([query, value, mask]), expected, atol=1e-6)
