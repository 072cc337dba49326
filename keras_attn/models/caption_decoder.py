"""The decoder of Show, Attend and Tell: an LSTM that looks at one place, or at a mixture of them.

How it looks is a reading, one layer for soft and one for hard attention. Both say

- `plan(shape, training, places) -> (moments, choose)`: numbers (B, T) of which each step is given
  its column, and `choose(weights, moment) -> (places (B,), is_mixture (B,))`;
- `read(mixture, weights, values, hidden, choice) -> context (B, D)`.
"""

import keras
from keras import ops

from keras_attn.checks import require_share
from keras_attn.layers import AdditiveAttention, LSTMCell
from keras_attn.ops.drawing import drawn_index
from keras_attn.ops.scan import scan

_LEAST_WEIGHT = 1e-20


class SoftReading(keras.layers.Layer):
    """The mixture of all places, and how much of it the decoder wants (section 4.2).

    `z_t = beta_t sum_i a_ti a_i`, `beta_t = sigmoid(w . h_{t-1} + b)`

    Args:
        units: of the decoder.
    """

    def __init__(self, units: int, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.gate = keras.layers.Dense(1, "sigmoid", dtype=self.dtype_policy, name="gate")
        self.gate.build((None, units))
        self.built = True

    def plan(self, shape, training, places):
        if places is not None:
            raise ValueError(
                "Soft attention reads a mixture of all places, and none can be given: leave "
                "`places` out, or build the model with attention='hard'. "
                f"Received: places of shape {tuple(places.shape)}"
            )
        return ops.zeros(shape, "float32"), most_probable

    def read(self, mixture, weights, values, hidden, choice):
        return self.gate(hidden) * mixture


class HardReading(keras.layers.Layer):
    """One place, drawn from the weights in training, and the most probable one otherwise.

    `s_t ~ Multinoulli(a_t)`, `z_t = a_{s_t}` (section 4.1). In training a share of the captions
    reads the mixture `sum_i a_ti a_i` instead, which makes the gradient less noisy (the paper does
    so with half of the images).

    Args:
        mixture_share: that share.
        seed: of the draws.
    """

    def __init__(self, mixture_share: float, seed: int | None, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.mixture_share = require_share("mixture_share", mixture_share)
        self.seed_generator = keras.random.SeedGenerator(seed)
        # What `training.caption_objective` expects of a token's log-probability: its moving mean.
        self.expected_reward = self.add_weight(
            name="expected_reward",
            shape=(),
            initializer="zeros",
            trainable=False,
            dtype="float32",
            autocast=False,
            aggregation="mean",
        )
        self.built = True

    def plan(self, shape, training, places):
        if places is not None:
            return ops.convert_to_tensor(places, "int32"), given
        if not training:
            return ops.zeros(shape, "float32"), most_probable
        quantiles = keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)
        coins = keras.random.uniform(shape[:1], dtype="float32", seed=self.seed_generator)

        def drawn(weights, quantile):
            return drawn_index(weights, quantile), coins < self.mixture_share

        return quantiles, drawn

    def read(self, mixture, weights, values, hidden, choice):
        places, is_mixture = choice
        at_place = ops.take_along_axis(values, places[:, None, None], axis=1)[:, 0]  # (B, D)
        return ops.where(is_mixture[:, None], mixture, at_place)


def most_probable(weights, moment):
    """The place with the largest weight."""
    places = ops.cast(ops.argmax(weights, axis=-1), "int32")
    return places, ops.zeros_like(places, "bool")


def given(weights, places):
    """The place that somebody asked for."""
    return places, ops.zeros_like(places, "bool")


class StartFromMean(keras.layers.Layer):
    """`h_0 = tanh(W_h mean_i a_i + b_h)`, `c_0 = tanh(W_c mean_i a_i + b_c)` (section 3.1.2).

    The decoder then knows what there is in the image, though not where, before it looks.

    Args:
        units: of the decoder.
        features: D, width of an annotation.
    """

    def __init__(self, units: int, features: int, **kwargs):
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy
        self.first_hidden = keras.layers.Dense(units, "tanh", dtype=policy, name="first_hidden")
        self.first_memory = keras.layers.Dense(units, "tanh", dtype=policy, name="first_memory")
        for layer in (self.first_hidden, self.first_memory):
            layer.build((None, features))
        self.built = True

    def call(self, annotations):
        mean = ops.mean(annotations, axis=1)
        return [self.first_hidden(mean), self.first_memory(mean)]


class LearnedStart(keras.layers.Layer):
    """`h_0` and `c_0` the same for all images: what the decoder knows it has seen by looking.

    Args:
        units: of the decoder.
        features: not read.
    """

    def __init__(self, units: int, features: int, **kwargs):
        super().__init__(**kwargs)
        self.first_hidden, self.first_memory = (
            self.add_weight(name=name, shape=(units,), initializer="glorot_uniform")
            for name in ("first_hidden", "first_memory")
        )
        self.built = True

    def call(self, annotations):
        shape = (ops.shape(annotations)[0], self.first_hidden.shape[0])
        first = self.first_hidden, self.first_memory
        return [ops.broadcast_to(ops.cast(each, self.compute_dtype), shape) for each in first]


class CaptionDecoder(keras.layers.Layer):
    """An LSTM that looks at the places of an image before each word (equations 1 to 6).

    `a_ti = softmax_i(v . tanh(W_a h_{t-1} + U_a a_i))`
    `h_t, c_t = LSTM([E y_{t-1}; z_t], h_{t-1}, c_{t-1})`, z_t as the reading has it

    Args:
        units: of the LSTM.
        attention_units: width of the alignment model.
        start: `StartFromMean` or `LearnedStart`, which makes h_0 and c_0.
        reading: `SoftReading` or `HardReading`.
        embedding_dim: width of the embedded words.
        features: D, width of an annotation.

    Call arguments:
        embedded: (B, T, embedding_dim), the words before.
        annotations: (B, L, D).
        training: whether places are drawn.
        places: (B, T) integers, where hard attention is to look, or None.

    Returns:
        A dict: `hidden` (B, T, units), `contexts` (B, T, D), `attention` (B, T, L), float32,
        `places` (B, T) and `is_mixture` (B, T), True where no place was read but the mixture.
    """

    def __init__(self, units, attention_units, start, reading, embedding_dim, features, **kwargs):
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy
        self.units, self.features = units, features
        self.begin, self.reading = start, reading
        self.attention = AdditiveAttention(attention_units, dtype=policy, name="attention")
        self.attention.build((None, None, units), (None, None, features))
        self.cell = LSTMCell(units, dtype=policy, name="cell")
        self.cell.build((None, embedding_dim + features))
        self.built = True

    def call(self, embedded, annotations, training=None, places=None):
        memory = self.prepare(annotations)
        moments, choose = self.reading.plan(ops.shape(embedded)[:2], training, places)

        def step(inputs, states):
            word, moment = inputs
            return self.advance(
                word, states, memory, lambda weights: choose(weights, moment), training
            )

        outputs, _ = scan(step, (embedded, moments), self.start(memory))
        return outputs

    def prepare(self, annotations) -> dict:
        """What all steps share: the annotations (B, L, D) and their keys U_a a_i."""
        annotations = ops.cast(annotations, self.compute_dtype)
        return {"annotations": annotations, "keys": self.attention.project_memory(annotations)}

    def start(self, memory: dict) -> list:
        """h_0 and c_0, (B, units) each."""
        return self.begin(memory["annotations"])

    def advance(self, embedded, states, memory: dict, choose, training=False):
        """One word: embedded (B, E) -> what the call returns of a step, and the new states."""
        values = memory["annotations"]
        mixture, weights = self.attention.attend(states[0], memory["keys"], values)
        choice = choose(weights)
        context = self.reading.read(mixture, weights, values, states[0], choice)
        inputs = ops.concatenate([ops.cast(embedded, context.dtype), context], axis=-1)
        hidden, states = self.cell(inputs, states, training=training)
        places, is_mixture = choice
        outputs = {
            "hidden": hidden,
            "contexts": context,
            "attention": ops.cast(weights, "float32"),
            "places": places,
            "is_mixture": is_mixture,
        }
        return outputs, states

    def compute_output_spec(self, embedded, annotations, training=None, places=None):
        leading, numbers = tuple(embedded.shape[:2]), annotations.shape[1]
        shapes = {"hidden": (self.units,), "contexts": (self.features,)}
        specs = {
            name: keras.KerasTensor((*leading, *shape), self.compute_dtype)
            for name, shape in shapes.items()
        }
        return {
            **specs,
            "attention": keras.KerasTensor((*leading, numbers), "float32"),
            "places": keras.KerasTensor(leading, "int32"),
            "is_mixture": keras.KerasTensor(leading, "bool"),
        }


def log_probability_of_places(attention, places):
    """Log-probability of each place that was drawn: (B, T, L), (B, T) -> (B, T).

    Where a weight has underflowed to 0 it is that of 1e-20, without a gradient.
    """
    chosen = ops.take_along_axis(attention, places[..., None], axis=-1)[..., 0]
    return ops.log(ops.maximum(chosen, _LEAST_WEIGHT))


def entropy_of_places(attention):
    """`-sum_i a_ti log a_ti`: (B, T, L) -> (B, T)."""
    return -ops.sum(attention * ops.log(ops.maximum(attention, _LEAST_WEIGHT)), axis=-1)
