"""GNMT: deep LSTMs with residual connections, and attention from the bottom of the decoder."""

import keras
from keras import ops

from keras_attn.checks import require_rate, require_size
from keras_attn.layers import AdditiveAttention, AttentionRNN, LengthMask
from keras_attn.models.precision import Precision
from keras_attn.models.recurrent_parts import RecurrentParts
from keras_attn.models.settings import config_of, settings_of
from keras_attn.models.step_by_step import StepByStep, built
from keras_attn.models.token_model import TokenModel
from keras_attn.models.vocabulary_parts import (
    output_projection,
    require_shared_vocabulary,
    source_embedding,
    source_inputs,
    table_of_output,
    target_embedding,
    target_input,
    token_logits,
)
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


@registered
class GNMT(TokenModel):
    """Google's translation system: stacked LSTMs, residual from the third layer on, attention.

    Encoder, with `x^0 = E x`; its last layer's outputs are the annotations h:

    `x^1_j = [LSTM->(x^0)_j; LSTM<-(x^0)_j]`,  `x^2 = LSTM(x^1)`,
    `x^i = LSTM(x^{i-1}) + x^{i-1}` for i > 2  (equation 6)

    Decoder, with `s^i` the outputs of its layers; all its states begin at 0:

    `a_tj = softmax_j(v . tanh(W_a s^1_{t-1} + U_a h_j))`,  `c_t = sum_j a_tj h_j`  (equation 4)
    `s^1_t = LSTM([E y_{t-1}; c_t], s^1_{t-1})`,  `s^2_t = LSTM([s^1_t; c_t])`,
    `s^i_t = LSTM([s^{i-1}_t; c_t]) + s^{i-1}_t` for i > 2
    `p(y_t) = softmax(W_o s^top_t)`

    The context is made from what the bottom layer wrote at the step before, and every layer reads
    it. Dropout is that of Zaremba et al. 2014: what goes up into a layer or the output is dropped.

    Args:
        source_vocabulary_size: number of source ids.
        target_vocabulary_size: number of target ids.
        embedding_dim: width of both embeddings (1024 in the paper).
        units: of every layer, in the bidirectional one of each direction (1024).
        encoder_layers: how many, the first is bidirectional (8).
        decoder_layers: how many (8).
        attention_units: width of the attention's hidden layer (1024).
        cell: "lstm" as in the paper, or "gru".
        variant, peepholes: of the LSTM, see `layers.LSTMCell`.
        residual: whether there are residual connections.
        tie_embeddings: whether the output layer's weights are the target embedding; `units` must
            equal `embedding_dim`.
        share_embeddings: whether source and target have one vocabulary and one embedding.
        dropout: share of a layer's inputs dropped in training (0.2 to 0.3).
        input_feeding: whether the bottom layer also reads `s^top_{t-1}` (Luong et al. 2015).
        scheduled_sampling: the share of target tokens that training at first replaces by the
            model's own draws, in [0, 1] (Bengio et al. 2015); None for teacher forcing alone. It is
            the variable `sampling_rate`, to be assigned to while training.
        name: of the model.
        trainable: whether its weights are trained.
        dtype: dtype policy of all layers, that of `keras.config.set_dtype_policy` by default.

    The logits are float32 whatever the dtype policy. The paper's length and coverage penalties are
    those of `decoding.beam_search`.

    Call arguments, a dict:
        source: (B, S) int32 ids; S >= 1.
        source_lengths: (B,) int32; what lies beyond them is never read.
        target: (B, T) int32 ids that the decoder is given: the start token, then the target
            without its last token.

    Returns:
        logits (B, T, target_vocabulary_size), float32.

    Raises:
        ValueError: a size that is no positive integer, a rate outside of its bounds, an unknown
            cell or form of it, or sizes that must be equal for tied or shared embeddings and are
            not.

    Example:
        >>> import keras
        >>> from keras_attn.models import GNMT
        >>> model = GNMT(20, 10, embedding_dim=8, units=8, encoder_layers=3, decoder_layers=3,
        ...              attention_units=8)
        >>> tuple(model({"source": keras.ops.ones((2, 5), "int32"),
        ...              "source_lengths": keras.ops.array([5, 3]),
        ...              "target": keras.ops.ones((2, 4), "int32")}).shape)
        (2, 4, 10)

    Reference:
        Wu et al. 2016, "Google's Neural Machine Translation System", section 3,
        https://arxiv.org/abs/1609.08144
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 1024,
        units: int = 1024,
        encoder_layers: int = 8,
        decoder_layers: int = 8,
        attention_units: int = 1024,
        cell: str = "lstm",
        variant: str | None = None,
        peepholes: str | None = None,
        residual: bool = True,
        tie_embeddings: bool = False,
        share_embeddings: bool = False,
        dropout: float = 0.0,
        input_feeding: bool = False,
        scheduled_sampling: float | None = None,
        name: str | None = None,
        trainable: bool = True,
        *,
        dtype=None,
    ):
        self.settings = settings_of(GNMT.__init__, locals())
        _check(self.settings)
        self.precision = Precision(dtype)
        policy = self.precision.policy
        recurrent = RecurrentParts(cell, variant, peepholes, policy)
        self.target_embedding = target_embedding(
            target_vocabulary_size, embedding_dim, self.precision
        )
        self.source_embedding = (
            self.target_embedding
            if share_embeddings
            else source_embedding(source_vocabulary_size, embedding_dim, self.precision)
        )
        self.output_projection = (
            None if tie_embeddings else output_projection(target_vocabulary_size, self.precision)
        )
        self.source_mask = LengthMask(dtype=policy, name="source_mask")
        self.encoder = [
            keras.layers.Bidirectional(recurrent.layer(units), dtype=policy, name="encoder_1"),
            *(recurrent.layer(units, f"encoder_{n}") for n in range(2, encoder_layers + 1)),
        ]
        self.bottom = AttentionRNN(
            recurrent.cell(units),
            AdditiveAttention(attention_units, dtype=policy),
            dtype=policy,
            name="decoder_1",
        )
        self.upper = [recurrent.layer(units, f"decoder_{n}") for n in range(2, decoder_layers + 1)]
        self.dropout = keras.layers.Dropout(dropout, dtype=policy, name="dropout")
        self.step_by_step = None
        if input_feeding or scheduled_sampling is not None:
            self.step_by_step = self._make_step_by_step(policy)

        inputs = {**source_inputs(), **target_input()}
        outputs = self.logits(self.features(inputs))
        super().__init__(inputs, outputs, name=name, trainable=trainable)
        self.dtype_policy = self.precision.of_model

    def _make_step_by_step(self, policy) -> StepByStep:
        units = self.settings["units"]
        memory = units * (2 if len(self.encoder) == 1 else 1)
        fed = units if self.settings["input_feeding"] else 0
        parts = built(
            (self.target_embedding, (None, None)),
            (self.bottom, (None, None, self.settings["embedding_dim"] + fed), (None, None, memory)),
            *((layer, (None, None, units + memory)) for layer in self.upper),
            (self.output_projection, (None, None, units)),
        )
        return StepByStep(
            self,
            [*parts, self.dropout],
            units,
            self.settings["scheduled_sampling"],
            self.settings["input_feeding"],
            dtype=policy,
            name="step_by_step",
        )

    @property
    def sampling_rate(self):
        """The variable of scheduled sampling, or None without it."""
        return None if self.step_by_step is None else self.step_by_step.rate

    @property
    def output_table(self):
        """The output layer's float weights, (target_vocabulary_size, units)."""
        return table_of_output(self.target_embedding, self.output_projection)

    def features(self, inputs, training: bool | None = None):
        """The top layer's outputs s^top_t, from which the output layer predicts: (B, T, units)."""
        memory = self._annotate(inputs, training)
        decode = self.at_once if self.step_by_step is None else self.step_by_step
        return decode(inputs["target"], memory, training=training)

    def at_once(self, target, memory: dict, training=None):
        """The features of all given tokens; without input feeding they need not wait."""
        outputs = self.bottom(
            self.dropout(self.target_embedding(target), training=training),
            memory["annotations"],
            memory_mask=memory["mask"],
            training=training,
        )  # (B, T, units + m)
        return self._climb(outputs, lambda layer, x: layer(x, training=training), training)

    def encode(self, inputs) -> dict:
        """What the decoder may look at: annotations (B, S, m), their keys, the mask.

        `inputs` has the keys `source` and `source_lengths` of a call; m is `units`, of an encoder
        of one layer twice that.
        """
        return self.prepare(self._annotate(inputs, False))

    def prepare(self, memory: dict) -> dict:
        """The memory with its keys, which all steps share."""
        keys = self.bottom.cell.attention.project_memory(memory["annotations"], memory["mask"])
        return {**memory, "keys": keys}

    def initial_state(self, memory: dict) -> dict:
        """The decoder's state before the first token."""
        return {"memory": memory, "decoder": self.start(memory)}

    def step(self, tokens, state: dict):
        """One token each: tokens (B,) -> logits (B, V), the next state, alignment (B, S)."""
        memory = state["memory"]
        features, alignment, decoder = self.advance(tokens, state["decoder"], memory, False)
        return self.logits(features), {"memory": memory, "decoder": decoder}, alignment

    def start(self, memory: dict) -> dict:
        """The states of all layers before the first token."""
        batch = ops.shape(memory["annotations"])[0]
        state = {
            "bottom": self.bottom.cell.get_initial_state(batch),
            "upper": [layer.cell.get_initial_state(batch) for layer in self.upper],
        }
        if self.settings["input_feeding"]:
            units = self.settings["units"]
            state["fed"] = ops.zeros((batch, units), dtype=self.bottom.compute_dtype)
        return state

    def advance(self, tokens, state: dict, memory: dict, training):
        """One step: tokens (B,) -> features (B, units), alignment (B, S), the next states."""
        embedded = self.dropout(self.target_embedding(tokens), training=training)
        if self.settings["input_feeding"]:
            embedded = ops.concatenate([embedded, state["fed"]], axis=-1)
        output, alignment, bottom = self.bottom.cell(
            embedded,
            state["bottom"],
            memory["annotations"],
            memory_mask=memory["mask"],
            keys=memory["keys"],
            training=training,
        )
        before, after = iter(state["upper"]), []

        def run(layer, x):
            output, states = layer.cell(x, next(before), training=training)
            after.append(states)
            return output

        features = self._climb(output, run, training)
        state = {
            "bottom": bottom,
            "upper": after,
            **({"fed": features} if self.settings["input_feeding"] else {}),
        }
        return features, alignment, state

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
        x = self.source_embedding(inputs["source"])
        for number, layer in enumerate(self.encoder, start=1):
            dropped = self.dropout(x, training=training)
            x = self._joined(number, layer(dropped, mask=mask, training=training), x)
        return {"annotations": x, "mask": mask}

    def _climb(self, bottom_and_context, run, training):
        """The layers above the bottom one over `[s^1; c]`, each run by `run(layer, inputs)`."""
        units = self.settings["units"]
        x, context = bottom_and_context[..., :units], bottom_and_context[..., units:]
        for number, layer in enumerate(self.upper, start=2):
            inputs = ops.concatenate([self.dropout(x, training=training), context], axis=-1)
            x = self._joined(number, run(layer, inputs), x)
        return self.dropout(x, training=training)

    def _joined(self, number: int, outputs, below):
        """What layer `number` hands upwards: residual from the third on."""
        return outputs + below if self.settings["residual"] and number > 2 else outputs


def _check(settings: dict) -> None:
    for name in SIZES:
        settings[name] = require_size(name, settings[name])
    settings["dropout"] = require_rate("dropout", settings["dropout"])
    require_shared_vocabulary(settings)
    embedding_dim, units = settings["embedding_dim"], settings["units"]
    if settings["tie_embeddings"] and embedding_dim != units:
        raise ValueError(
            "Tied embeddings need a top layer as wide as the embedding. "
            f"Received: embedding_dim={embedding_dim}, units={units}"
        )
