"""RAM: a network that classifies an image from a few glimpses of it."""

import keras
import tensorflow as tf
from keras import ops

from keras_attn.checks import require_choice, require_size
from keras_attn.layers import GlimpseSensor, LocationSampler, LSTMCell
from keras_attn.saved import registered

CORES = ("lstm", "rnn")
POLICIES = ("learned", "random")


@registered
class RecurrentAttention(keras.Model):
    """Classification by glimpses, each placed by what the ones before have shown.

    With the patches `rho(x, l)` of `layers.GlimpseSensor`:

    `g_t = relu(W relu(W_p rho(x, l_{t-1})) + V relu(W_l l_{t-1}))`  (the glimpse network)
    `h_t = core(g_t, h_{t-1})`
    `m_t = tanh(W_m h_t)`, `l_t ~ N(m_t, stddev)`  (the location network)
    `b_t = w_b h_t + c`  (what reward is to be expected)
    `logits = W_a h_T`

    The location and baseline networks read `h_t` as a constant: they learn from the reward alone,
    and the rest from the class alone. The first location is drawn around the middle of the image.
    In training and for `training=True` locations are drawn, otherwise they are their middles.

    Args:
        num_classes: of the classification.
        num_glimpses: T, at least 1.
        glimpse_size: pixels along a side of a patch.
        image_shape: (height, width) or (height, width, channels).
        scales: patches of a glimpse, each twice as wide.
        units: of the core (256 in the paper).
        glimpse_units: of each hidden layer of the glimpse network (128).
        core: "lstm", or "rnn" as the paper has it for single digits: `relu(W h + U g)`.
        stddev: of a location.
        policy: "learned", or "random", the control: locations are uniform over the image, always.
        seed: of the locations.
        name: of the model.
        trainable: whether its weights are trained.
        dtype: dtype policy of its layers.

    Call arguments:
        images: (B, height, width[, channels]), floats.

    Returns:
        A dict: `logits` (B, num_classes), `locations` (B, T, 2), where it looked,
        `log_probabilities` (B, T - 1) of the locations that were chosen, those behind the first,
        and `baselines` (B, T - 1), all float32.

    Raises:
        ValueError: a size that is no positive integer, or an unknown core or policy.

    Example:
        >>> import keras
        >>> from keras_attn.models import RecurrentAttention
        >>> model = RecurrentAttention(10, num_glimpses=4, glimpse_size=8, image_shape=(28, 28))
        >>> outputs = model(keras.ops.zeros((2, 28, 28)))
        >>> tuple(outputs["logits"].shape), tuple(outputs["locations"].shape)
        ((2, 10), (2, 4, 2))

    Reference:
        Mnih, Heess, Graves, Kavukcuoglu 2014, "Recurrent models of visual attention",
        https://arxiv.org/abs/1406.6247
    """

    def __init__(
        self,
        num_classes: int,
        num_glimpses: int,
        glimpse_size: int,
        image_shape: tuple[int, ...],
        scales: int = 1,
        units: int = 256,
        glimpse_units: int = 128,
        core: str = "lstm",
        stddev: float = 0.15,
        policy: str = "learned",
        seed: int | None = None,
        name: str | None = None,
        trainable: bool = True,
        dtype=None,
    ):
        settings = {
            "num_classes": num_classes,
            "num_glimpses": num_glimpses,
            "glimpse_size": glimpse_size,
            "scales": scales,
            "units": units,
            "glimpse_units": glimpse_units,
        }
        settings = {key: require_size(key, value) for key, value in settings.items()}
        require_choice("core", core, CORES)
        require_choice("policy", policy, POLICIES)
        layers = _Layers(settings, core, stddev, policy, seed, dtype)
        images = keras.Input(tuple(image_shape), name="images", dtype="float32")
        super().__init__(images, layers.look(images), name=name, trainable=trainable)
        self.num_glimpses = settings["num_glimpses"]
        self._config = {
            **settings,
            "image_shape": list(image_shape),
            "core": core,
            "stddev": stddev,
            "policy": policy,
            "seed": seed,
            "dtype": keras.dtype_policies.serialize(layers.classify.dtype_policy),
        }

    def probabilities(self, images, samples: int = 1):
        """Class probabilities (B, num_classes), float32.

        Args:
            images: as for a call.
            samples: of the locations, over which probabilities are averaged; with 1 the model looks
                at the middles and draws nothing.
        """
        require_size("samples", samples)
        if samples == 1:
            return ops.softmax(self(images, training=False)["logits"])
        repeated = ops.repeat(images, samples, axis=0)  # (B samples, ...)
        logits = self(repeated, training=True)["logits"]
        shape = (-1, samples, logits.shape[-1])
        return ops.mean(ops.reshape(ops.softmax(logits), shape), axis=1)

    def get_config(self):
        return {"name": self.name, "trainable": self.trainable, **self._config}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        if isinstance(config.get("dtype"), dict):
            config["dtype"] = keras.dtype_policies.deserialize(config["dtype"])
        return cls(**config)


class _Layers:
    """The layers of the model, shared by all glimpses, and the graph that they make."""

    def __init__(self, settings, core, stddev, policy, seed, dtype):
        def dense(units, activation, name):
            return keras.layers.Dense(units, activation, dtype=dtype, name=name)

        hidden, units = settings["glimpse_units"], settings["units"]
        self.num_glimpses, self.units = settings["num_glimpses"], units
        self.sensor = GlimpseSensor(settings["glimpse_size"], settings["scales"], dtype=dtype)
        self.what = dense(hidden, "relu", "what")
        self.where = dense(hidden, "relu", "where")
        self.glimpse = dense(2 * hidden, "relu", "glimpse")
        self.core = (
            LSTMCell(units, dtype=dtype, name="core")
            if core == "lstm"
            else keras.layers.SimpleRNNCell(units, "relu", dtype=dtype, name="core")
        )
        self.states = 2 if core == "lstm" else 1
        self.mean = dense(2, "tanh", "mean")
        self.baseline = keras.layers.Dense(1, dtype="float32", name="baseline")
        self.classify = dense(settings["num_classes"], None, "class")
        self.start = LookStart(units, self.states, dtype=dtype, name="start")
        sampler = LocationSampler(stddev, seed, name="sampler")
        self.sampler = sampler if policy == "learned" else UniformLocations(seed, name="sampler")

    def look(self, images) -> dict:
        mean, *states = self.start(images)
        locations, log_probabilities, baselines = [], [], []
        location, _ = self.sampler(mean)
        for step in range(self.num_glimpses):
            locations.append(location)
            hidden, states = self.core(self._glimpse(images, location), states)
            if step < self.num_glimpses - 1:
                constant = ops.stop_gradient(hidden)
                location, log_probability = self.sampler(self.mean(constant))
                log_probabilities.append(log_probability)
                baselines.append(self.baseline(constant)[:, 0])
        return {
            "logits": ops.cast(self.classify(hidden), "float32"),
            "locations": ops.stack(locations, axis=1),  # (B, T, 2)
            "log_probabilities": _stacked(log_probabilities, hidden),  # (B, T - 1)
            "baselines": _stacked(baselines, hidden),  # (B, T - 1)
        }

    def _glimpse(self, images, location):
        patches = self.sensor(images, location)  # (B, scales, size, size[, C])
        flat = keras.layers.Flatten()(patches)
        return self.glimpse(ops.concatenate([self.what(flat), self.where(location)], axis=-1))


def _stacked(values: list, hidden):
    """(B, T - 1); of one glimpse nothing is chosen."""
    return ops.stack(values, axis=1) if values else ops.cast(hidden[:, :0], "float32")


@registered
class LookStart(keras.layers.Layer):
    """Zeros to begin with: the mean of the first location (B, 2) and the states (B, units)."""

    def __init__(self, units: int, states: int, **kwargs):
        super().__init__(**kwargs)
        self.units, self.states = units, states

    def call(self, images):
        batch = ops.shape(images)[0]
        states = [ops.zeros((batch, self.units), self.compute_dtype) for _ in range(self.states)]
        return [ops.zeros((batch, 2), "float32"), *states]

    def compute_output_spec(self, images):
        state = keras.KerasTensor((images.shape[0], self.units), self.compute_dtype)
        mean = keras.KerasTensor((images.shape[0], 2), "float32")
        return [mean, *[state] * self.states]

    def get_config(self):
        return {**super().get_config(), "units": self.units, "states": self.states}


@registered
class UniformLocations(keras.layers.Layer):
    """Locations that are uniform over the image whatever the policy says: the control."""

    def __init__(self, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, means):
        shape = tf.shape(means)
        location = keras.random.uniform(shape, -1, 1, seed=self.seed_generator, dtype="float32")
        return location, tf.zeros(shape[:1])

    def compute_output_spec(self, means):
        return (
            keras.KerasTensor(means.shape, "float32"),
            keras.KerasTensor(means.shape[:1], "float32"),
        )

    def get_config(self):
        return {**super().get_config(), "seed": self.seed}
