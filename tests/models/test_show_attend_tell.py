"""Show, Attend and Tell: what it is made of, where it looks, and what its attention learns from."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.decoding import beam_search, greedy_search
from keras_attn.models import ShowAttendTell
from keras_attn.protocols import SequenceModel
from keras_attn.text import END, START
from keras_attn.training import caption_objective

WIDTHS = {"embedding_dim": 5, "decoder_units": 6, "attention_units": 7}
SIZES = {"vocabulary_size": 9, "image_shape": (8, 8, 1), "filters": (3, 4), **WIDTHS}
GENERATOR = np.random.default_rng(3)
IMAGES = GENERATOR.uniform(size=(3, 8, 8, 1)).astype(np.float32)
LABELS = np.array([[4, 5, END], [6, END, 0], [7, 8, END]], np.int32)
TARGET = np.array([[START, 4, 5], [START, 6, END], [START, 7, 8]], np.int32)
MASK = LABELS > 0
INPUTS = {"images": IMAGES, "target": TARGET}
ATTENTIONS = ("soft", "hard")


@pytest.fixture(scope="module", params=ATTENTIONS)
def model(request):
    return _model(request.param)


def _model(attention="soft", **options):
    keras.utils.set_random_seed(5)
    model = ShowAttendTell(attention=attention, seed=2, **{**SIZES, **options})
    for weight in model.decoder.trainable_variables:  # weights that look somewhere
        weight.assign(weight + np.random.default_rng(1).normal(scale=0.7, size=weight.shape))
    return model


def _weights(model) -> dict:
    return {variable.path: variable.value for variable in model.trainable_variables}


def test_it_has_the_weights_of_the_paper_and_no_other(model):
    v, e, n, a, d, places = 9, 5, 6, 7, 4, 4
    encoder = (9 * 1 * 3 + 3) + (9 * 3 * 4 + 4) + places * d
    initial = 2 * (d * n + n)
    attention = n * a + d * a + a
    lstm = 4 * n * (e + d + n + 1)
    words = v * e + (n * e + e) + d * e + e * v  # E, L_h, L_z, L_o
    gate = n + 1 if model.settings["attention"] == "soft" else 0
    found = sum(int(np.prod(w.shape)) for w in model.trainable_variables)
    assert found == encoder + initial + attention + lstm + words + gate


def test_a_step_is_that_of_the_equations(model):
    """h_0 to p(y_1), written out from the weights alone."""
    w = {path: value.numpy() for path, value in _weights(model).items()}
    places = model.annotations.encoder(IMAGES).numpy().reshape(3, 4, 4)
    mean = places.mean(1)
    h = np.tanh(mean @ w["first_hidden/kernel"] + w["first_hidden/bias"])
    c = np.tanh(mean @ w["first_memory/kernel"] + w["first_memory/bias"])
    scores = np.tanh(
        (h @ w["attention/query_kernel"])[:, None] + places @ w["attention/key_kernel"]
    )
    scores = scores @ w["attention/score_vector"]
    alpha = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    if model.settings["attention"] == "soft":
        beta = _sigmoid(h @ w["gate/kernel"] + w["gate/bias"])
        z = beta * np.einsum("bl,bld->bd", alpha, places)
    else:
        z = places[range(3), alpha.argmax(-1)]
    word = w["target_embedding/embeddings"][TARGET[:, 0]]
    gates = np.concatenate([word, z], -1) @ w["cell/kernel"] + h @ w["cell/recurrent_kernel"]
    i, f, g, o = np.split(gates + w["cell/bias"], 4, axis=-1)
    h = _sigmoid(o) * np.tanh(_sigmoid(f) * c + _sigmoid(i) * np.tanh(g))
    readout = word + h @ w["from_hidden/kernel"] + w["from_hidden/bias"] + z @ w[
        "from_context/kernel"]  # fmt: skip
    told = model.tell(INPUTS)
    np.testing.assert_allclose(told["attention"][:, 0], alpha, rtol=1e-4, atol=1e-6)
    expected = readout @ w["output_projection/kernel"]
    np.testing.assert_allclose(told["logits"][:, 0], expected, rtol=1e-4, atol=1e-5)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_steps_say_what_a_call_says_and_a_beam_of_one_is_greedy(model):
    assert isinstance(model, SequenceModel)
    told = model.tell(INPUTS)
    memory = model.encode({"images": IMAGES})
    state = model.initial_state(memory)
    for time in range(3):
        logits, state, attention = model.step(TARGET[:, time], state)
        np.testing.assert_allclose(logits, told["logits"][:, time], atol=1e-5)
        np.testing.assert_allclose(attention, told["attention"][:, time], atol=1e-6)
    state, ends = model.initial_state(memory), {"start_id": START, "end_id": END, "max_length": 5}
    greedy = greedy_search(model.step, state, 3, **ends)
    wide = beam_search(model.step, state, 3, beam_width=3, **ends)
    assert greedy.attention.shape == (3, 1, 5, 4)
    assert (wide.log_probabilities[:, 0] >= greedy.log_probabilities[:, 0] - 1e-5).numpy().all()


def test_it_comes_back_from_its_file_with_its_own_network_or_another(model, tmp_path):
    encoder = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(3, 4, strides=4)])
    encoder.trainable = False
    attention = model.settings["attention"]
    for each in (model, _model(attention, encoder=encoder, dtype="mixed_bfloat16", dropout=0.5)):
        each.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
        plain, kept = again.get_config(), each.get_config()
        assert (plain.pop("encoder") is None) == (kept.pop("encoder") is None)
        assert plain == kept
        assert len(again.trainable_variables) == len(each.trainable_variables)
        assert again.grid == (2, 2)
        np.testing.assert_array_equal(again(INPUTS), each(INPUTS))
        assert again(INPUTS).dtype == tf.float32


def test_graph_and_compiled_graph_say_the_same_and_no_image_is_no_caption(model):
    expected = model(INPUTS)
    for jit_compile in (False, True):
        call = tf.function(lambda inputs: model.tell(inputs), jit_compile=jit_compile)
        np.testing.assert_allclose(call(INPUTS)["logits"], expected, atol=1e-5)
    nothing = {"images": IMAGES[:0], "target": TARGET[:0]}
    assert model(nothing).shape == (0, 3, 9)
    one = {"images": IMAGES, "target": TARGET[:, :1]}
    np.testing.assert_allclose(model(one), expected[:, :1], atol=1e-6)


def test_hard_attention_draws_by_its_weights_and_a_share_reads_the_mixture():
    model = _model("hard", mixture_share=0.25)
    many = {"images": np.repeat(IMAGES[:1], 4000, 0), "target": np.repeat(TARGET[:1], 4000, 0)}
    told = model.tell(many, training=True)
    shares = np.bincount(told["places"][:, 0], minlength=4) / 4000
    np.testing.assert_allclose(shares, told["attention"][0, 0], atol=0.03)
    assert abs(np.mean(told["is_mixture"]) - 0.25) < 0.03
    np.testing.assert_array_equal(told["is_mixture"][:, 0], told["is_mixture"][:, 2])
    # At rest nothing is drawn.
    np.testing.assert_array_equal(model(many)[0], model(many)[-1])


def _everywhere(model, steps: int):
    """Every way to look at the places of the first image: log p(s) and log p(y | s), (4^T,)."""
    places = np.array(list(itertools.product(range(4), repeat=steps)), np.int32)
    inputs = {
        "images": np.repeat(IMAGES[:1], len(places), 0),
        "target": np.repeat(TARGET[:1, :steps], len(places), 0),
    }
    told = model.tell(inputs, places=places)
    words = tf.nn.sparse_softmax_cross_entropy_with_logits(
        np.repeat(LABELS[:1, :steps], len(places), 0), told["logits"]
    )
    return inputs, places, tf.reduce_sum(told["log_probabilities"], 1), -tf.reduce_sum(words, 1)


def test_the_bound_lies_below_the_log_likelihood():
    _, _, of_places, of_words = _everywhere(_model("hard"), steps=3)
    np.testing.assert_allclose(tf.reduce_sum(tf.exp(of_places)), 1.0, rtol=1e-5)
    likelihood = tf.reduce_logsumexp(of_places + of_words)
    bound = tf.reduce_sum(tf.exp(of_places) * of_words)
    assert bound < likelihood - 1e-3


class _Given:
    """A model whose draws are given: what the objective makes of each of them."""

    def __init__(self, model, places, straight_through=False):
        self._model, self._places, self._leaks = model, places, straight_through
        self.decoder = model.decoder

    def tell(self, inputs, training):
        told = self._model.tell(inputs, places=self._places)
        if self._leaks:  # the sample's own gradient reaches its log-probability
            told["log_probabilities"] = told["log_probabilities"] - tf.stop_gradient(
                told["log_probabilities"]
            ) + tf.reduce_sum(told["attention"] ** 2, -1)  # fmt: skip
        return told


def _gradients(model, places_of=_Given, **weights):
    """Of the bound by enumeration, and what the surrogate of every draw has on average."""
    variables = [v.value for v in model.trainable_variables]
    model.decoder.reading.expected_reward.assign(-1.3)  # any baseline
    with tf.GradientTape() as tape:
        inputs, places, of_places, of_words = _everywhere(model, steps=2)
        bound = -tf.reduce_sum(tf.exp(of_places) * of_words)
    exact = tape.gradient(bound, variables)
    total = [tf.zeros_like(v) for v in variables]
    objective = caption_objective(entropy_weight=0.0, **weights)
    for row, share in enumerate(tf.exp(of_places).numpy()):
        one = {name: value[row : row + 1] for name, value in inputs.items()}
        batch = one, LABELS[:1, :2], np.ones((1, 2), bool)
        model.decoder.reading.expected_reward.assign(-1.3)
        with tf.GradientTape() as tape:
            loss, _ = objective(places_of(model, places[row : row + 1]), batch)
        found = [
            None if g is None else tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)
        ]
        total = [t if g is None else t + share * g for t, g in zip(total, found, strict=True)]
    paths = [variable.path for variable in model.trainable_variables]
    return [
        (path, tf.convert_to_tensor(e).numpy(), tf.convert_to_tensor(t).numpy())
        for path, e, t in zip(paths, exact, total, strict=True)
        if e is not None
    ]


def _differing(gradients) -> set:
    return {path for path, e, t in gradients if not np.allclose(e, t, rtol=1e-3, atol=1e-5)}


def test_the_surrogate_has_the_gradient_of_the_bound_and_broken_twins_have_not():
    model = _model("hard")
    gradients = _gradients(model)
    assert _differing(gradients) == set()
    assert any("attention" in path and np.abs(exact).max() > 1e-3 for path, exact, _ in gradients)
    without = _differing(_gradients(model, policy_weight=0.0))
    assert any("query_kernel" in path for path in without), "nothing teaches where to look"
    leaking = _gradients(model, lambda model, places: _Given(model, places, True))
    assert any("query_kernel" in path for path in _differing(leaking)), "the sample is a constant"


def test_the_loss_of_a_draw_is_that_of_its_words_whatever_else_it_teaches():
    model = _model("hard")
    places = np.zeros((3, 3), np.int32)
    words = tf.nn.sparse_softmax_cross_entropy_with_logits(
        LABELS, model.tell(INPUTS, places=places)["logits"]
    )
    total, _ = caption_objective(entropy_weight=3.0)(_Given(model, places), (INPUTS, LABELS, MASK))
    np.testing.assert_allclose(total, np.sum(words * MASK), rtol=1e-5)


def test_the_expected_reward_moves_towards_that_of_a_word():
    model = _model("hard", mixture_share=0.0)
    caption_objective()(model, (INPUTS, LABELS, MASK))
    first = float(model.decoder.reading.expected_reward.value)
    assert 0.1 * np.log(1 / 9) * 4 < first < 0
    caption_objective()(model, (INPUTS, LABELS, MASK), training=False)
    assert float(model.decoder.reading.expected_reward.value) == first


def test_what_is_behind_the_end_of_a_caption_teaches_nothing(model):
    spoiled = np.where(MASK, LABELS, 3), np.where([[1, 1, 1], [1, 1, 0], [1, 1, 1]], TARGET, 8)
    found = []
    for labels, target in ((LABELS, TARGET), spoiled):
        keras.utils.set_random_seed(1)
        twin = type(model).from_config(model.get_config())
        twin.set_weights(model.get_weights())
        with tf.GradientTape() as tape:
            total, count = caption_objective()(
                twin, ({"images": IMAGES, "target": target}, labels, MASK)
            )
        variables = [v.value for v in twin.decoder.trainable_variables]
        found.append([float(total), float(count), *tape.gradient(total, variables)])
    assert found[0][1] == 8
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_penalty_asks_soft_attention_to_look_everywhere_once():
    model = _model("soft")
    batch = INPUTS, LABELS, MASK
    plain, _ = caption_objective(coverage_weight=0.0)(model, batch)
    with_penalty, _ = caption_objective(coverage_weight=2.0)(model, batch)
    attention = model.tell(INPUTS)["attention"].numpy() * MASK[..., None]
    penalty = ((1 - attention.sum(1)) ** 2).sum()
    np.testing.assert_allclose(with_penalty - plain, 2 * penalty, rtol=1e-4)
    np.testing.assert_allclose(
        caption_objective(coverage_weight=2.0)(model, batch, training=False)[0], plain, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"attention": "both"}, "`attention` must be one of"),
        ({"vocabulary_size": 0}, "`vocabulary_size` must be a positive integer"),
        ({"filters": (3, 0)}, "`filters` must be a positive integer"),
        ({"filters": (3,) * 4}, "halved 4 times has 16 pixels"),
        ({"image_shape": (8, 8)}, "a height, a width and channels"),
        ({"first_state": "zero"}, "`first_state` must be one of"),
        ({"mixture_share": 1.5}, "`mixture_share` is a share"),
        ({"dropout": 1.0}, "`dropout` is the fraction"),
        ({"encoder": keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten()])},
         "grid of features"),
    ],
)  # fmt: skip
def test_what_makes_no_captioner_is_said_in_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=rf"{sentence}.*Received: "):
        ShowAttendTell(**{**SIZES, **options})


def test_a_learned_first_state_knows_nothing_of_the_image_before_it_looks():
    model = _model("hard", first_state="learned")
    states = model.initial_state(model.encode({"images": IMAGES}))["decoder"]
    for state in states:
        np.testing.assert_array_equal(state, np.broadcast_to(state[0], (3, 6)))
    assert np.abs(states[0]).max() > 0
    shape = [variable.shape for variable in model.decoder.begin.trainable_variables]
    assert shape == [(6,), (6,)]


def test_soft_attention_is_not_told_where_to_look():
    with pytest.raises(ValueError, match=r"attention='hard'.*Received: places of shape \(3, 3\)"):
        _model("soft").tell(INPUTS, places=np.zeros((3, 3), np.int32))
