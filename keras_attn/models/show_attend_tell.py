"""Show, Attend and Tell: captions whose words look at parts of the image."""

import keras

from keras_attn.checks import require_choice, require_rate, require_share, require_size
from keras_attn.models.annotations import Annotations, convolutions
from keras_attn.models.caption_decoder import (
    CaptionDecoder,
    HardReading,
    LearnedStart,
    SoftReading,
    StartFromMean,
    entropy_of_places,
    log_probability_of_places,
    most_probable,
)
from keras_attn.models.precision import Precision
from keras_attn.models.settings import config_of, settings_of
from keras_attn.models.token_model import TokenModel
from keras_attn.models.vocabulary_parts import (
    output_projection,
    table_of_output,
    target_embedding,
    target_input,
    token_logits,
)
from keras_attn.saved import registered

ATTENTIONS = ("soft", "hard")
STARTS = {"mean": StartFromMean, "learned": LearnedStart}
SIZES = ("vocabulary_size", "embedding_dim", "decoder_units", "attention_units")


@registered
class ShowAttendTell(TokenModel):
    """An image as a grid of annotations, and an LSTM that looks at them before each word.

    With the annotations a_1 ... a_L, the places of the grid row by row, and `h_0`, `c_0` two
    networks of their mean:

    `alpha_t = softmax_i(v . tanh(W_a h_{t-1} + U_a a_i))`  (equations 4 and 5)
    `h_t = LSTM([E y_{t-1}; z_t], h_{t-1})`  (equations 1 to 3)
    `p(y_t) = softmax(L_o (E y_{t-1} + L_h h_t + L_z z_t))`  (equation 7)

    Soft attention reads the mixture of all places, `z_t = beta_t sum_i alpha_ti a_i` with the gate
    `beta_t = sigmoid(f(h_{t-1}))`, and is trained by gradient. Hard attention reads one,
    `z_t = a_{s_t}`, `s_t ~ alpha_t`, and is trained on a lower bound of the log-likelihood by
    `training.caption_objective`; without training it reads the most probable place.

    Args:
        vocabulary_size: number of ids.
        image_shape: (height, width, channels) of the images.
        embedding_dim: width of the embedded words and of the readout.
        decoder_units: of the LSTM.
        attention_units: width of the alignment model.
        attention: "soft" or "hard".
        filters: of the own network: for each number a convolution of 3 by 3 with so many filters
            and a maximum of 2 by 2, so that three of them make a grid of an eighth of the image;
            at the end a learned vector for each place is added. Not read with `encoder`.
        encoder: a network from images to a grid (B, h, w, D) that is used instead, such as one of
            `keras.applications` with `include_top=False`. It is a part of the model: set its
            `trainable` to False to keep it as it is.
        dropout: share of the embedded words and of the readout dropped in training.
        mixture_share: of the captions which in the training of hard attention read the mixture of
            all places, as soft attention does without its gate (0.5 in the paper).
        first_state: "mean", h_0 and c_0 as in the paper, or "learned", the same for all images:
            then what the decoder knows of an image it has seen by looking at a part of it.
        seed: of the places that are drawn.
        name: of the model.
        trainable: whether its weights are trained.
        dtype: dtype policy of all layers but those of `encoder`.

    Call arguments, a dict:
        images: (B, height, width, channels), floats, as the encoder takes them.
        target: (B, T) int32 ids that the decoder is given: the start token, then the caption
            without its last token.

    Returns:
        logits (B, T, vocabulary_size), float32.

    Raises:
        ValueError: a size that is no positive integer, a rate or share outside of its bounds, an
            unknown attention or first state, an image too small for its halvings, or an encoder
            that makes no grid.

    Example:
        >>> import keras
        >>> from keras_attn.models import ShowAttendTell
        >>> model = ShowAttendTell(12, (16, 16, 1), embedding_dim=8, decoder_units=8,
        ...                        attention_units=8, filters=(4, 4))
        >>> inputs = {"images": keras.ops.ones((2, 16, 16, 1)),
        ...           "target": keras.ops.ones((2, 3), "int32")}
        >>> told = model.tell(inputs)
        >>> tuple(told["logits"].shape), tuple(told["attention"].shape), model.grid
        ((2, 3, 12), (2, 3, 16), (4, 4))

    Reference:
        Xu et al. 2015, "Show, Attend and Tell: Neural Image Caption Generation with Visual
        Attention", https://arxiv.org/abs/1502.03044
    """

    def __init__(
        self,
        vocabulary_size: int,
        image_shape: tuple[int, int, int],
        embedding_dim: int = 512,
        decoder_units: int = 1000,
        attention_units: int = 512,
        attention: str = "soft",
        filters: tuple[int, ...] = (32, 64, 128),
        encoder: keras.Model | None = None,
        dropout: float = 0.0,
        mixture_share: float = 0.5,
        first_state: str = "mean",
        seed: int | None = None,
        name: str | None = None,
        trainable: bool = True,
        *,
        dtype=None,
    ):
        self.settings = settings_of(ShowAttendTell.__init__, locals())
        _check(self.settings)
        image_shape, filters = self.settings["image_shape"], self.settings["filters"]
        self.precision = Precision(dtype)
        policy, of_layer = self.precision.policy, self.precision.of
        if encoder is None:
            encoder = convolutions(image_shape, filters, self.precision.of_model)
        self.annotations = Annotations(encoder, image_shape, dtype=policy, name="annotations")
        self.grid, self.image_shape = self.annotations.grid, image_shape
        self.target_embedding = target_embedding(vocabulary_size, embedding_dim, self.precision)
        reading = (
            SoftReading(decoder_units, dtype=policy, name="reading")
            if attention == "soft"
            else HardReading(mixture_share, seed, dtype=policy, name="reading")
        )
        self.decoder = CaptionDecoder(
            int(decoder_units),
            attention_units,
            STARTS[first_state](
                int(decoder_units), self.annotations.features, dtype=policy, name="start"
            ),
            reading,
            int(embedding_dim),
            self.annotations.features,
            dtype=policy,
            name="decoder",
        )
        self.from_hidden, self.from_context = (
            keras.layers.Dense(int(embedding_dim), use_bias=bias, dtype=of_layer(part), name=part)
            for part, bias in (("from_hidden", True), ("from_context", False))
        )
        self.dropout = keras.layers.Dropout(dropout, dtype=policy, name="dropout")
        self.output_projection = output_projection(vocabulary_size, self.precision)

        images = keras.Input(image_shape, dtype="float32", name="images")
        inputs = {"images": images, **target_input()}
        super().__init__(inputs, self.logits(self.features(inputs)), name=name, trainable=trainable)
        self.dtype_policy = self.precision.of_model

    def tell(self, inputs, training: bool | None = None, places=None) -> dict:
        """A call of the model, with where it looked.

        Args:
            inputs: as in a call.
            training: whether places are drawn, and dropout is on.
            places: (B, T) integers in [0, L), where hard attention is to look at each step instead.

        Returns:
            A dict: `logits` (B, T, vocabulary_size) and `attention` (B, T, L), the weights alpha,
            both float32. Of hard attention also `places` (B, T), where it looked, `is_mixture`
            (B, T), True where it read the mixture instead, `log_probabilities` (B, T) of the
            places and `entropies` (B, T) of the weights.
        """
        embedded = self._embed(inputs["target"], training)
        read = self._read(inputs, embedded, training, places)
        told = {
            "logits": self.logits(self._read_out(read, embedded, training)),
            "attention": read["attention"],
        }
        if self.settings["attention"] == "soft":
            return told
        return {
            **told,
            "places": read["places"],
            "is_mixture": read["is_mixture"],
            "log_probabilities": log_probability_of_places(read["attention"], read["places"]),
            "entropies": entropy_of_places(read["attention"]),
        }

    def features(self, inputs, training: bool | None = None):
        """`E y_{t-1} + L_h h_t + L_z z_t`, which the output layer reads: (B, T, embedding_dim)."""
        embedded = self._embed(inputs["target"], training)
        read = self._read(inputs, embedded, training, None)
        return self._read_out(read, embedded, training)

    def encode(self, inputs) -> dict:
        """What the decoder may look at: annotations (B, L, D) and their keys.

        `inputs` has the key `images` of a call.
        """
        return self.decoder.prepare(self.annotations(inputs["images"], training=False))

    def initial_state(self, memory: dict) -> dict:
        """The decoder's state before the first token."""
        return {"memory": memory, "decoder": self.decoder.start(memory)}

    def step(self, tokens, state: dict):
        """One token each: tokens (B,) -> logits (B, V), the next state, attention (B, L)."""
        memory = state["memory"]
        embedded = self._embed(tokens, False)
        read, states = self.decoder.advance(
            embedded, state["decoder"], memory, lambda weights: most_probable(weights, None)
        )
        logits = self.logits(self._read_out(read, embedded, False))
        return logits, {"memory": memory, "decoder": states}, read["attention"]

    def logits(self, features):
        """L_o of the features, float32."""
        return token_logits(features, self.target_embedding, self.output_projection)

    @property
    def output_table(self):
        """The output layer's float weights L_o, (vocabulary_size, embedding_dim)."""
        return table_of_output(self.target_embedding, self.output_projection)

    def _embed(self, tokens, training):
        """E y, with dropout in training."""
        return self.dropout(self.target_embedding(tokens), training=training)

    def _read(self, inputs, embedded, training, places) -> dict:
        annotations = self.annotations(inputs["images"], training=training)
        return self.decoder(embedded, annotations, training=training, places=places)

    def _read_out(self, read: dict, embedded, training):
        """E y_{t-1} + L_h h_t + L_z z_t, of all steps or of one."""
        together = embedded + self.from_hidden(read["hidden"]) + self.from_context(read["contexts"])
        return self.dropout(together, training=training)

    def get_config(self):
        config = config_of(self)
        if config["encoder"] is not None:
            config["encoder"] = keras.saving.serialize_keras_object(config["encoder"])
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        saved = config["encoder"]
        if isinstance(saved, dict):
            encoder = keras.saving.deserialize_keras_object(saved, custom_objects=custom_objects)
            if not saved["config"].get("trainable", True):
                encoder.trainable = False  # which a `Sequential` of Keras forgets
            config["encoder"] = encoder
        return cls(**config)


def _check(settings: dict) -> None:
    for name in SIZES:
        settings[name] = require_size(name, settings[name])
    for name in ("image_shape", "filters"):
        settings[name] = tuple(require_size(name, size) for size in settings[name])
    settings["dropout"] = require_rate("dropout", settings["dropout"])
    settings["mixture_share"] = require_share("mixture_share", settings["mixture_share"])
    require_choice("attention", settings["attention"], ATTENTIONS)
    require_choice("first_state", settings["first_state"], tuple(STARTS))
    image_shape, halvings = settings["image_shape"], len(settings["filters"])
    if len(image_shape) != 3:
        raise ValueError(
            "An image has a height, a width and channels. "
            f"Received: image_shape={tuple(image_shape)}"
        )
    if settings["encoder"] is None and min(image_shape[:2]) < 2**halvings:
        raise ValueError(
            f"An image that is halved {halvings} times has {2**halvings} pixels along each side at "
            "least: give fewer filters or larger images. "
            f"Received: image_shape={image_shape}, filters={settings['filters']}"
        )
