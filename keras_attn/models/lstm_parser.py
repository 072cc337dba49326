"""Grammar as a foreign language: LSTMs with attention that write the tree of a sentence."""

import keras
from keras import ops

from keras_attn.checks import require_rate, require_size
from keras_attn.layers import LengthMask, LuongAttention
from keras_attn.models.precision import Precision
from keras_attn.models.recurrent_parts import RecurrentParts
from keras_attn.models.settings import config_of, settings_of
from keras_attn.models.token_model import TokenModel
from keras_attn.models.vocabulary_parts import (
    output_projection,
    source_embedding,
    source_inputs,
    table_of_output,
    target_embedding,
    target_input,
    token_logits,
)
from keras_attn.ops import sinusoid
from keras_attn.saved import registered

SIZES = (
    "source_vocabulary_size",
    "target_vocabulary_size",
    "embedding_dim",
    "units",
    "encoder_layers",
    "decoder_layers",
    "attention_units",
)
_POSITION_DIM, _LONGEST_WAVE, _SHARPNESS = 32, 100.0, 2.0


@registered
class LSTMParser(TokenModel):
    """An LSTM reads a sentence, another writes its tree and looks at the words meanwhile.

    Encoder, with `x^0 = E x`, the first layer in both directions; the last one's outputs are the
    annotations h:

    `x^1_j = [LSTM->(x^0)_j; LSTM<-(x^0)_j]`,  `x^i = LSTM(x^{i-1})`

    Decoder, after Vinyals et al.: the attention is asked by the state that has read the last token.
    With n_t, how many words the tokens before step t stand for, and the sinusoids p of positions:

    `s_t = LSTM(E y_{t-1}, s_{t-1})`
    `a_tj = softmax_j((W s_t) . (U h_j) + 4 p(n_t) . p(j))`,  `c_t = sum_j a_tj h_j`
    `o^1_t = LSTM([s_t; c_t])`,  `o^i_t = LSTM(o^{i-1}_t)`,  `p(y_t) = softmax(W_o o^top_t)`

    The second term is ours. It makes the attention begin at the word that comes next, where Vinyals
    et al. learned from millions of trees to look; what else is worth a look is learned. The layer
    below the attention sees no context: all steps of training attend at once.

    Args:
        source_vocabulary_size: number of source ids.
        target_vocabulary_size: number of target ids.
        word_tokens: the target ids that stand for a word of the source.
        embedding_dim: width of both embeddings (512 in the paper).
        units: of every layer (256), in the bidirectional one of each direction.
        encoder_layers: how many, the first is bidirectional (3).
        decoder_layers: how many above the attention (2).
        attention_units: width of `W s_t` and `U h_j`.
        reverse_source: whether the source is read from its last token to its first; the annotations
            keep the order of the source.
        dropout: share dropped in training of the embedded words, of contexts and of what a layer
            hands upwards; not of what the tokens before say, by which brackets are closed.
        name: of the model.
        trainable: whether its weights are trained.
        dtype: dtype policy of all layers, that of `keras.config.set_dtype_policy` by default.

    The logits are float32 whatever the dtype policy.

    Call arguments, a dict:
        source: (B, S) int32 ids; S >= 1.
        source_lengths: (B,) int32; what lies beyond them is never read.
        target: (B, T) int32 ids that the decoder is given: the start token, then the target
            without its last token.

    Returns:
        logits (B, T, target_vocabulary_size), float32.

    Raises:
        ValueError: a size that is no positive integer, a rate outside of its bounds, or no word
            token, or one that is none of the vocabulary.

    Example:
        >>> import keras
        >>> from keras_attn.models import LSTMParser
        >>> model = LSTMParser(20, 10, word_tokens=[4], embedding_dim=8, units=8, attention_units=8)
        >>> tuple(model({"source": keras.ops.ones((2, 5), "int32"),
        ...              "source_lengths": keras.ops.array([5, 3]),
        ...              "target": keras.ops.ones((2, 4), "int32")}).shape)
        (2, 4, 10)

    Reference:
        Vinyals et al. 2015, "Grammar as a Foreign Language", https://arxiv.org/abs/1412.7449
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        word_tokens,
        embedding_dim: int = 512,
        units: int = 256,
        encoder_layers: int = 3,
        decoder_layers: int = 2,
        attention_units: int = 256,
        reverse_source: bool = False,
        dropout: float = 0.0,
        name: str | None = None,
        trainable: bool = True,
        *,
        dtype=None,
    ):
        self.settings = settings_of(LSTMParser.__init__, locals())
        _check(self.settings)
        self.precision = Precision(dtype)
        policy = self.precision.policy
        recurrent = RecurrentParts("lstm", None, None, policy)
        self.source_embedding = source_embedding(
            source_vocabulary_size, embedding_dim, self.precision
        )
        self.target_embedding = target_embedding(
            target_vocabulary_size, embedding_dim, self.precision
        )
        self.output_projection = output_projection(target_vocabulary_size, self.precision)
        self.source_mask = LengthMask(dtype=policy, name="source_mask")
        self.encoder = [
            keras.layers.Bidirectional(recurrent.layer(units), dtype=policy, name="encoder_1"),
            *(recurrent.layer(units, f"encoder_{n}") for n in range(2, encoder_layers + 1)),
        ]
        self.tracker = recurrent.layer(units, "tracker")
        self.attention = NextWordAttention(attention_units, dtype=policy, name="attention")
        self.decoder = [
            recurrent.layer(units, f"decoder_{n}") for n in range(1, decoder_layers + 1)
        ]
        self.dropout = keras.layers.Dropout(dropout, dtype=policy, name="dropout")

        inputs = {**source_inputs(), **target_input()}
        outputs = self.logits(self.features(inputs))
        super().__init__(inputs, outputs, name=name, trainable=trainable)
        self.dtype_policy = self.precision.of_model

    @property
    def output_table(self):
        """The output layer's float weights, (target_vocabulary_size, units)."""
        return table_of_output(self.target_embedding, self.output_projection)

    def features(self, inputs, training: bool | None = None):
        """The top layer's outputs o^top_t, from which the output layer predicts: (B, T, units)."""
        memory = self._annotate(inputs, training)
        target = inputs["target"]
        written = ops.cumsum(self._words_of(target), axis=1)  # (B, T)

        def run(layer, x):
            return layer(x, training=training)

        return self._decode(target, written, memory, run, training)[0]

    def encode(self, inputs) -> dict:
        """What the decoder may look at: annotations (B, S, m), their keys and the mask (B, S).

        `inputs` has the keys `source` and `source_lengths` of a call.
        """
        memory = self._annotate(inputs, False)
        keys = self.attention.project_memory(memory["annotations"])
        return {**memory, "keys": keys}

    def initial_state(self, memory: dict) -> dict:
        """The decoder's state before the first token, of which no word is written."""
        batch = ops.shape(memory["annotations"])[0]
        layers = [self.tracker, *self.decoder]
        return {
            "memory": memory,
            "layers": [layer.cell.get_initial_state(batch) for layer in layers],
            "written": ops.zeros((batch,), "int32"),
        }

    def step(self, tokens, state: dict):
        """One token each: tokens (B,) -> logits (B, V), the next state, alignment (B, S)."""
        before, after = iter(state["layers"]), []
        written = state["written"] + self._words_of(tokens)  # (B,)

        def run(layer, x):
            output, states = layer.cell(x[:, 0], next(before), training=False)
            after.append(states)
            return output[:, None]

        features, alignment = self._decode(
            tokens[:, None], written[:, None], state["memory"], run, False
        )
        state = {"memory": state["memory"], "layers": after, "written": written}
        return self.logits(features[:, 0]), state, alignment[:, 0]

    def logits(self, features):
        """Features (..., units) to logits (..., V), float32."""
        return token_logits(features, self.target_embedding, self.output_projection)

    def get_config(self):
        return config_of(self)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)

    def _annotate(self, inputs, training) -> dict:
        """The annotations (B, S, m) and the mask (B, S)."""
        mask = self.source_mask(inputs["source"], inputs["source_lengths"])
        read = self._turned(mask)
        x = self.source_embedding(self._turned(inputs["source"]))
        for layer in self.encoder:
            x = layer(self.dropout(x, training=training), mask=read, training=training)
        return {"annotations": self._turned(x), "mask": mask}

    def _turned(self, positions):
        """Values (B, S, ...) in the order of reading, or back in that of the source."""
        return ops.flip(positions, axis=1) if self.settings["reverse_source"] else positions

    def _words_of(self, tokens):
        """1 for each token that stands for a word, else 0."""
        ids = ops.array(self.settings["word_tokens"], "int32")
        return ops.cast(ops.any(ops.equal(tokens[..., None], ids), axis=-1), "int32")

    def _decode(self, tokens, written, memory: dict, run, training):
        """Features (B, T, units) and alignments (B, T, S) of tokens (B, T), written words (B, T).

        Each layer is run by `run(layer, inputs)`.
        """
        state = run(self.tracker, self.target_embedding(tokens))
        context, alignment = self.attention(
            state, memory["annotations"], written, memory["mask"], keys=memory.get("keys")
        )
        x = ops.concatenate([state, self.dropout(context, training=training)], axis=-1)
        for layer in self.decoder:
            x = self.dropout(run(layer, x), training=training)
        return x, alignment


@registered
class NextWordAttention(keras.layers.Layer):
    """An attention that begins at the word which comes next.

    `a_tj = softmax_j((W s_t) . (U h_j) + 4 p(n_t) . p(j))`,  `c_t = sum_j a_tj h_j`

    Args:
        units: of both products.

    Call arguments:
        states: (B, T, units of the decoder), s.
        annotations: (B, S, m), h.
        written: (B, T) integers, n: how many words come before the next one.
        mask: (B, S) boolean, True = attend.
        keys: (B, S, units + 32), `project_memory(annotations)`; given once by a loop, or None to
            project here.

    Returns:
        Contexts (B, T, m) and weights (B, T, S).
    """

    def __init__(self, units: int, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.query = keras.layers.Dense(
            units, use_bias=False, dtype=self.dtype_policy, name="query"
        )
        self.key = keras.layers.Dense(units, use_bias=False, dtype=self.dtype_policy, name="key")
        self.scored = LuongAttention("dot", dtype=self.dtype_policy, name="scored")

    def build(self, states_shape, annotations_shape, *shapes, **others):
        self.query.build(states_shape)
        if not self.key.built:
            self.key.build(annotations_shape)

    def project_memory(self, annotations):
        """The keys of the annotations (B, S, m): (B, S, units + 32)."""
        keys = self.key(annotations)
        places = ops.cumsum(ops.ones_like(keys[..., 0], dtype="int32"), axis=1) - 1  # (B, S)
        return ops.concatenate([keys, self._encoded(places)], axis=-1)

    def call(self, states, annotations, written, mask, keys=None):
        keys = self.project_memory(annotations) if keys is None else keys
        query = ops.concatenate([self.query(states), self._encoded(written)], axis=-1)
        return self.scored(
            query, annotations, keys, value_mask=mask, key_mask=mask, return_attention_scores=True
        )

    def compute_output_shape(self, states_shape, annotations_shape, *shapes, **others):
        batch, steps = states_shape[:2]
        return (batch, steps, annotations_shape[-1]), (batch, steps, annotations_shape[1])

    def get_config(self):
        return {**super().get_config(), "units": self.units}

    def _encoded(self, positions):
        encoded = _SHARPNESS * sinusoid(positions, _POSITION_DIM, max_wavelength=_LONGEST_WAVE)
        return ops.cast(encoded, self.compute_dtype)


def _check(settings: dict) -> None:
    for name in SIZES:
        settings[name] = require_size(name, settings[name])
    settings["dropout"] = require_rate("dropout", settings["dropout"])
    settings["word_tokens"] = [int(token) for token in settings["word_tokens"]]
    size = settings["target_vocabulary_size"]
    if not settings["word_tokens"] or not all(0 <= t < size for t in settings["word_tokens"]):
        raise ValueError(
            f"word_tokens must be ids below target_vocabulary_size={size}, one at least. "
            f"Received: word_tokens={settings['word_tokens']}"
        )
