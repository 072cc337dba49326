"""A decoder that is run token by token in training, because a step reads what the last one made."""

import keras
from keras import ops

from keras_attn.checks import require_share
from keras_attn.ops.drawing import drawn_index
from keras_attn.ops.scan import scan


class StepByStep(keras.layers.Layer):
    """The features of all target tokens, made one after another by the steps of a decoder.

    Two options of a decoder need that. With input feeding a step reads the features from which the
    step before predicted (Luong et al. 2015). With scheduled sampling the token that a step is
    given in training is, by chance, one that the model draws from its own prediction of it
    (Bengio et al. 2015): with `p = softmax(logits_{t-1})` and independent coins,

    `y~_t ~ p with probability rate, else y_t`

    The first token is always the given one, no gradient flows through a draw, and all draws come
    from the seeds of Keras and the number of calls. `rate` is a variable, which may change while
    the model trains.

    Args:
        decoder: has `prepare(memory) -> memory`, what all steps share; `start(memory) -> state`,
            `advance(tokens, state, memory, training) -> (features, alignment, state)` and
            `logits(features)`; and with `at_once(target, memory, training)` makes the features of
            all given tokens where no step needs the last one.
        parts: the layers that it uses, built; their weights become those of this layer.
        features: width of the features.
        rate: share of the tokens that are drawn at first, in [0, 1]; None for no sampling.
        feeds: whether a step reads the features of the one before.

    Call arguments:
        target: (B, T) ids.
        memory: nest of what the decoder may look at.
        training: whether tokens are drawn, and dropout is on.

    Returns:
        features (B, T, features).

    Raises:
        ValueError: a rate outside of [0, 1].

    References:
        - Luong, Pham and Manning 2015, "Effective Approaches to Attention-based Neural Machine
          Translation", section 3.3, https://arxiv.org/abs/1508.04025
        - Bengio et al. 2015, "Scheduled Sampling for Sequence Prediction with Recurrent Neural
          Networks", https://arxiv.org/abs/1506.03099
    """

    def __init__(self, decoder, parts, features: int, rate: float | None, feeds: bool, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.parts = list(parts)
        self.features = features
        self.feeds = feeds
        # In a function, for Keras would take the model for a part of its own layer.
        self._decoder = lambda: decoder
        self.rate = self.seed_generator = None
        if rate is not None:
            self.rate = self.add_weight(
                name="sampling_rate",
                shape=(),
                initializer=keras.initializers.Constant(require_share("scheduled_sampling", rate)),
                trainable=False,
                dtype="float32",
                autocast=False,
            )
            self.seed_generator = keras.random.SeedGenerator()
        self.built = True

    def call(self, target, memory, training=None):
        if training and self.rate is not None:
            return self._sampled(target, memory)
        if self.feeds:
            return self._given(target, memory, training)
        return self._decoder().at_once(target, memory, training)

    def _given(self, target, memory, training):
        """Every step is given the true token."""
        decoder = self._decoder()
        memory = decoder.prepare(memory)

        def step(tokens, state):
            features, _, state = decoder.advance(tokens, state, memory, training)
            return features, state

        features, _ = scan(step, target, decoder.start(memory))
        return features

    def _sampled(self, target, memory):
        """Every step is given the true token or one drawn from the step before."""
        decoder = self._decoder()
        memory = decoder.prepare(memory)
        shape = ops.shape(target)
        uniform = keras.random.uniform((2, *shape), dtype="float32", seed=self.seed_generator)
        draws = uniform[0] < self.rate  # (B, T)
        quantiles = uniform[1]  # (B, T)

        def step(inputs, carried):
            given, draw, quantile = inputs
            state, drawn, is_first = carried
            tokens = ops.where(ops.logical_and(draw, ops.logical_not(is_first)), drawn, given)
            features, _, state = decoder.advance(tokens, state, memory, True)
            drawn = ops.cast(_drawn(decoder.logits(features), quantile), given.dtype)
            return features, (state, drawn, ops.zeros_like(is_first))

        first = decoder.start(memory), ops.zeros_like(target[:, 0]), ops.ones(shape[:1], "bool")
        features, _ = scan(step, (target, draws, quantiles), first)
        return features

    def compute_output_spec(self, target, memory, training=None):
        return keras.KerasTensor((*target.shape, self.features), dtype=self.compute_dtype)


def built(*parts) -> list:
    """Layers built for the shapes that follow them, for calls that only a loop will make.

    Where there is no layer but None, there is none in the list.
    """
    layers = []
    for layer, *shapes in parts:
        if layer is not None:
            layer.build(*shapes)
            layers.append(layer)
    return layers


def _drawn(logits, quantile):
    """The token at which the distribution passes a quantile: (B, V), (B,) -> (B,)."""
    return drawn_index(ops.softmax(logits, axis=-1), quantile)
