import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding import greedy_search
from keras_attn.models import Transformer
from keras_attn.training import (
    fit,
    projected_token_objective,
    token_objective,
    warmed_up_then_inverse_square_root,
)

BATCH, SOURCE, TARGET, VOCABULARY = 3, 6, 5, 12
START, END = 1, 2

OPTIONS = {
    "paper": {},
    "pre-norm, grouped": {"normalize_first": True, "num_key_value_heads": 1},
    "rotary, untied": {
        "positions": "rotary",
        "tie_embeddings": False,
        "share_embeddings": False,
        "source_vocabulary_size": 15,
    },
}


def _model(**options):
    keras.utils.set_random_seed(1)
    sizes = {
        "source_vocabulary_size": VOCABULARY, "target_vocabulary_size": VOCABULARY, "dim": 8,
        "num_heads": 2, "intermediate_dim": 12, "encoder_layers": 2, "decoder_layers": 2,
        "max_length": 7, "dropout": 0.4,
    }  # fmt: skip
    return Transformer(**{**sizes, **options})


@pytest.fixture(scope="module", params=OPTIONS)
def option(request):
    return request.param


@pytest.fixture(scope="module")
def model(option):
    return _model(**OPTIONS[option])


def _inputs(seed=0, batch=BATCH):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, SOURCE + 1, batch)
    lengths[0] = SOURCE
    return {
        "source": generator.integers(3, VOCABULARY, (batch, SOURCE)).astype("int32"),
        "source_lengths": lengths.astype("int32"),
        "target": generator.integers(3, VOCABULARY, (batch, TARGET)).astype("int32"),
    }


@pytest.fixture(scope="module")
def inputs():
    return _inputs()


def test_stepping_with_a_cache_equals_teacher_forcing(model):
    inputs = _inputs(seed=3, batch=50)
    logits = model(inputs)
    state = model.initial_state(model.encode(inputs))
    for t in range(TARGET):
        step_logits, state, alignment = model.step(inputs["target"][:, t], state)
        np.testing.assert_allclose(step_logits, logits[:, t], atol=1e-5)
        np.testing.assert_allclose(tf.reduce_sum(alignment, -1), 1, atol=1e-5)
        beyond = np.arange(SOURCE) >= inputs["source_lengths"][:, None]
        np.testing.assert_array_equal(alignment.numpy()[beyond], 0)


def test_what_lies_beyond_the_source_lengths_is_never_read(model, inputs):
    spoilt = inputs["source"].copy()
    spoilt[np.arange(SOURCE) >= inputs["source_lengths"][:, None]] = 0
    longer = np.pad(spoilt, [(0, 0), (0, 4)])
    expected = model(inputs)
    for source in (spoilt, longer):
        np.testing.assert_allclose(model({**inputs, "source": source}), expected, atol=1e-5)


def test_an_example_alone_gets_what_it_gets_in_a_batch(model, inputs):
    together = model(inputs)
    for row in range(BATCH):
        alone = {name: value[row : row + 1] for name, value in inputs.items()}
        alone["source"] = alone["source"][:, : int(inputs["source_lengths"][row])]
        np.testing.assert_allclose(model(alone)[0], together[row], atol=1e-5)


def test_a_later_target_token_changes_no_earlier_prediction(model, inputs):
    changed = inputs["target"].copy()
    changed[:, 3] = (changed[:, 3] + 1) % VOCABULARY
    before, after = model(inputs), model({**inputs, "target": changed})
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert np.abs(before[:, 3:] - after[:, 3:]).min(axis=(1, 2)).max() > 0


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_order_of_the_tokens_matters(model, inputs, side):
    swapped = inputs[side].copy()
    swapped[0, :3] = swapped[0, :3][::-1]
    assert not np.array_equal(swapped, inputs[side])
    assert np.abs(model({**inputs, side: swapped})[0, -1] - model(inputs)[0, -1]).max() > 1e-4


def test_dropout_acts_in_training_only(model, inputs):
    np.testing.assert_array_equal(model(inputs), model(inputs, training=False))
    assert np.abs(model(inputs, training=True) - model(inputs)).max() > 1e-3


def test_saving_keeps_every_output(model, inputs, tmp_path):
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(reloaded(inputs), model(inputs))


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_graph_and_xla_equal_eager(model, inputs, jit_compile):
    run = tf.function(lambda inputs: model(inputs), jit_compile=jit_compile)
    np.testing.assert_allclose(run(inputs), model(inputs), atol=1e-5)


def test_the_output_table_makes_the_logits_of_the_features(model, inputs):
    logits = tf.matmul(model.features(inputs), model.output_table, transpose_b=True)
    np.testing.assert_allclose(logits, model(inputs), atol=1e-5)


def test_the_fast_objective_equals_the_plain_one(model, inputs):
    evaluated = _WithoutDropout(model)
    mask = np.arange(TARGET) < np.array([5, 2, 3])[:, None]
    batch = inputs, inputs["target"][:, ::-1], mask
    results = []
    for objective in (token_objective(0.1), projected_token_objective(0.1)):
        with tf.GradientTape() as tape:
            total, count = objective(evaluated, batch)
        variables = [variable.value for variable in model.trainable_variables]
        results.append((total, count, *tape.gradient(total, variables)))
    for got, want in zip(*results, strict=True):
        got, want = tf.convert_to_tensor(got), tf.convert_to_tensor(want)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


class _WithoutDropout:
    def __init__(self, model):
        self.model = model

    def __call__(self, inputs, training):
        return self.model(inputs, training=False)

    @property
    def output_table(self):
        return self.model.output_table

    def features(self, inputs, training):
        return self.model.features(inputs, training=False)


def test_greedy_search_is_repeated_argmax_of_teacher_forcing(model, inputs):
    found = greedy_search(
        model.step, model.initial_state(model.encode(inputs)), BATCH, START, END, TARGET
    )
    tokens = np.full((BATCH, TARGET), START, "int32")
    for t in range(TARGET):
        best = np.argmax(model({**inputs, "target": tokens})[:, t], axis=-1)
        if t + 1 < TARGET:
            tokens[:, t + 1] = best
        running = t < found.lengths[:, 0].numpy()
        np.testing.assert_array_equal(found.tokens[:, 0, t].numpy()[running], best[running])


def test_the_maps_are_distributions_over_what_may_be_seen(model, inputs):
    maps = model.attention_maps(inputs)
    real = np.arange(SOURCE) < inputs["source_lengths"][:, None]
    visible = {
        "encoder": np.broadcast_to(real[:, None], (BATCH, SOURCE, SOURCE)),
        "decoder": np.broadcast_to(np.tri(TARGET, dtype=bool), (BATCH, TARGET, TARGET)),
        "memory": np.broadcast_to(real[:, None], (BATCH, TARGET, SOURCE)),
    }
    for name, seen in visible.items():
        assert len(maps[name]) == 2
        for weights in maps[name]:
            assert weights.shape == (BATCH, 2, *seen.shape[1:])
            hidden = np.broadcast_to(~seen[:, None], weights.shape)
            np.testing.assert_array_equal(weights.numpy()[hidden], 0)
            sums = np.where(
                real[:, None] if name == "encoder" else True, weights.numpy().sum(-1), 1
            )
            np.testing.assert_allclose(sums, 1, atol=1e-5)
    state = model.initial_state(model.encode(inputs))
    _, _, alignment = model.step(inputs["target"][:, 0], state)
    np.testing.assert_allclose(maps["memory"][-1][:, :, 0].numpy().mean(1), alignment, atol=1e-5)


@pytest.mark.parametrize(("batch", "source", "target"), [(0, 3, 2), (2, 1, 1), (0, 1, 1)])
def test_sizes_of_zero_and_one_keep_their_shapes(batch, source, target):
    inputs = {
        "source": tf.zeros([batch, source], tf.int32),
        "source_lengths": tf.ones([batch], tf.int32),
        "target": tf.zeros([batch, target], tf.int32),
    }
    assert tf.function(_model())(inputs).shape == (batch, target, VOCABULARY)


def test_bfloat16_is_near_float32_and_gives_float32_logits(inputs):
    model = _model()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        low = Transformer(**model.settings)
    finally:
        keras.config.set_dtype_policy("float32")
    low.set_weights(model.get_weights())
    logits = low(inputs)
    assert logits.dtype == tf.float32
    np.testing.assert_allclose(logits, model(inputs), atol=0.1)


@pytest.mark.parametrize(("name", "millions"), [("base", 65), ("big", 213)])
def test_the_presets_have_the_papers_sizes(name, millions):
    with keras.StatelessScope(initialize_variables=False):  # nothing is allocated
        model = Transformer.preset(name, 37_000, 37_000)
    d, hidden = model.settings["dim"], model.settings["intermediate_dim"]
    attention, network, norm = 4 * (d * d + d), 2 * d * hidden + hidden + d, 2 * d
    encoder, decoder = attention + network + 2 * norm, 2 * attention + network + 3 * norm
    assert model.count_params() == 37_000 * d + 6 * (encoder + decoder)
    assert abs(model.count_params() / 1e6 - millions) < 0.04 * millions


def test_tied_and_shared_embeddings_are_stored_once():
    shared = _model().count_params()
    assert _model(tie_embeddings=False).count_params() - shared == 8 * VOCABULARY
    assert _model(share_embeddings=False).count_params() - shared == 8 * VOCABULARY


def test_the_schedule_is_the_papers():
    dim, warmup = 512, 4000
    rate = warmed_up_then_inverse_square_root((dim * warmup) ** -0.5, warmup)
    for step in (1, 10, 3999, 4000, 4001, 100_000):
        expected = dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert rate(0.0, step - 1) == pytest.approx(expected)


def test_a_few_seconds_of_training_reverse_new_sequences():
    """Needs positions, both attentions, the causal mask and the caches to be right."""
    model = _model(
        dim=32, num_heads=4, intermediate_dim=64, encoder_layers=1, decoder_layers=1,
        dropout=0.0, normalize_first=True,
    )  # fmt: skip
    digits = np.random.default_rng(1).integers(3, VOCABULARY, (6_000, 5)).astype("int32")
    ends = np.full((len(digits), 1), END, "int32")
    source, labels = np.c_[digits, ends], np.c_[digits[:, ::-1], ends]
    target = np.c_[ends * 0 + START, labels[:, :-1]]

    def batch(rows):
        lengths = tf.fill([tf.shape(rows)[0]], 6)
        inputs = {"source": rows[:, 0], "source_lengths": lengths, "target": rows[:, 1]}
        return inputs, rows[:, 2], tf.ones_like(rows[:, 2], tf.bool)

    rows = np.stack([source, target, labels], axis=1)
    batches = tf.data.Dataset.from_tensor_slices(rows[:-200]).batch(100, True).repeat().map(batch)
    optimizer = keras.optimizers.Adam(5e-3, beta_2=0.98)
    fit(model, batches, 300, optimizer=optimizer, objective=projected_token_objective())
    inputs, expected, _ = batch(tf.constant(rows[-200:]))
    state = model.initial_state(model.encode(inputs))
    found = tf.function(greedy_search)(model.step, state, 200, START, END, 6).tokens[:, 0]
    assert tf.reduce_mean(tf.cast(tf.reduce_all(found == expected, 1), tf.float32)) > 0.9


@pytest.mark.parametrize(
    ("options", "received"),
    [
        ({"positions": "learned"}, "positions='learned'"),
        ({"num_heads": 3}, "dim=8, num_heads=3"),
        ({"source_vocabulary_size": 5}, "source_vocabulary_size=5, target_vocabulary_size=12"),
        ({"decoder_layers": 0}, "decoder_layers=0"),
        ({"encoder_layers": 1.5}, "encoder_layers=1.5"),
        ({"num_heads": 0}, "num_heads=0"),
        ({"dim": "8"}, "dim='8'"),
        ({"max_length": 0}, "max_length=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"attention_dropout": -0.1}, "attention_dropout=-0.1"),
        ({"positions": "rotary", "dim": 6}, "dim=6, num_heads=2"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, received):
    with pytest.raises(ValueError, match=f"Received: {received}"):
        _model(**options)


@pytest.mark.parametrize("name", ["huge", ["base"]])
def test_an_unknown_preset_is_refused(name):
    with pytest.raises(ValueError, match=r"must be one of 'base', 'big'\. Received: name="):
        Transformer.preset(name, 8, 8)


def test_a_misspelt_setting_is_refused():
    with pytest.raises(TypeError, match="droput"):
        _model(droput=0.5)


def test_a_frozen_model_stays_frozen_when_it_is_made_again():
    frozen = _model(trainable=False)
    assert not frozen.trainable_variables
    assert not Transformer.from_config(frozen.get_config()).trainable_variables
