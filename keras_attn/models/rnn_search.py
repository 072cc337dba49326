"""RNNsearch: the recurrent encoder-decoder that learned to align."""

import keras
from keras import ops

from keras_attn.checks import require_choice, require_rate, require_size
from keras_attn.layers import (
    GRU,
    LSTM,
    AdditiveAttention,
    AttentionRNN,
    GRUCell,
    LengthMask,
    LSTMCell,
    Maxout,
)
from keras_attn.models.precision import Precision
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

CELLS = {"gru": (GRU, GRUCell), "lstm": (LSTM, LSTMCell)}
SIZES = (
    "source_vocabulary_size",
    "target_vocabulary_size",
    "embedding_dim",
    "encoder_units",
    "decoder_units",
    "attention_units",
    "readout_units",
)


@registered
class RNNSearch(TokenModel):
    """Bidirectional GRU encoder, additive attention, attentional GRU decoder, maxout readout.

    Encoder (A.2.1): `h_j = [GRU->(E x)_j; GRU<-(E x)_j]`.
    Decoder (A.2.2), with `s_0 = tanh(W_s h<-_1)`:

    `a_ij = softmax_j(v . tanh(W_a s_{i-1} + U_a h_j))`,  `c_i = sum_j a_ij h_j`  (equations 5, 6)
    `s_i = GRU([E y_{i-1}; c_i], s_{i-1})`
    `t_i = maxout(U_o s_i + V_o E y_{i-1} + C_o c_i)`,  `p(y_i) = softmax(W_o t_i)`  (equation 4)

    The output layer reads s_i, as equation 4 has it (the appendix prints s_{i-1}). The weights of
    the GRUs are those of `keras_attn.layers.GRU`, whose update gate keeps the old state where the
    paper's keeps the new one, which only renames `z` and `1 - z`.

    Args:
        source_vocabulary_size: number of source ids.
        target_vocabulary_size: number of target ids.
        embedding_dim: width of both embeddings (620 in the paper).
        encoder_units: units of each direction of the encoder (1000).
        decoder_units: units of the decoder (1000).
        attention_units: width of the alignment model (1000).
        readout_units: width of the maxout readout (500).
        cell: "gru" as in the paper, or "lstm", whose first cell state is 0.
        tie_embeddings: whether the output layer's weights are the target embedding (Press and Wolf
            2017); `readout_units` must equal `embedding_dim`.
        share_embeddings: whether source and target have one vocabulary and one embedding.
        dropout: share of the embedded inputs and of the readout dropped in training.
        input_feeding: whether the decoder also reads t_{i-1} (Luong et al. 2015), 0 at first:
            `s_i = GRU([E y_{i-1}; t_{i-1}; c_i], s_{i-1})`.
        scheduled_sampling: the share of target tokens that training at first replaces by the
            model's own draws, in [0, 1] (Bengio et al. 2015); None for teacher forcing alone. It is
            the variable `sampling_rate`, to be assigned to while training.
        name: of the model.
        trainable: whether its weights are trained.
        dtype: dtype policy of all layers, that of `keras.config.set_dtype_policy` by default.

    The logits are float32 whatever the dtype policy. `quantize` takes a trained model to int8 or
    int4; saved, it comes back as it was.

    Call arguments, a dict:
        source: (B, S) int32 ids; S >= 1.
        source_lengths: (B,) int32; what lies beyond them is never read.
        target: (B, T) int32 ids that the decoder is given: the start token, then the target
            without its last token.

    Returns:
        logits (B, T, target_vocabulary_size), float32.

    Raises:
        ValueError: a size that is no positive integer, a rate outside of its bounds, an unknown
            cell, or sizes that must be equal for tied or shared embeddings and are not.

    Example:
        >>> import keras
        >>> from keras_attn.models import RNNSearch
        >>> model = RNNSearch(20, 10, embedding_dim=8, encoder_units=8, decoder_units=8,
        ...                   attention_units=8, readout_units=8)
        >>> model({"source": keras.ops.ones((2, 5), "int32"),
        ...        "source_lengths": keras.ops.array([5, 3]),
        ...        "target": keras.ops.ones((2, 4), "int32")}).shape.as_list()
        [2, 4, 10]

    Reference:
        Bahdanau, Cho and Bengio 2014, "Neural Machine Translation by Jointly Learning to Align and
        Translate", https://arxiv.org/abs/1409.0473
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 620,
        encoder_units: int = 1000,
        decoder_units: int = 1000,
        attention_units: int = 1000,
        readout_units: int = 500,
        cell: str = "gru",
        tie_embeddings: bool = False,
        share_embeddings: bool = False,
        dropout: float = 0.0,
        name: str | None = None,
        trainable: bool = True,
        *,
        input_feeding: bool = False,
        scheduled_sampling: float | None = None,
        dtype=None,
    ):
        self.settings = settings_of(RNNSearch.__init__, locals())
        _check(self.settings)
        self.precision = Precision(dtype)
        policy, of_layer = self.precision.policy, self.precision.of
        layers = keras.layers
        recurrent_layer, recurrent_cell = CELLS[cell]
        self.target_embedding = target_embedding(
            target_vocabulary_size, embedding_dim, self.precision
        )
        self.source_embedding = (
            self.target_embedding
            if share_embeddings
            else source_embedding(source_vocabulary_size, embedding_dim, self.precision)
        )
        self.source_mask = LengthMask(dtype=policy, name="source_mask")
        self.encoder = layers.Bidirectional(
            recurrent_layer(encoder_units, return_sequences=True, dtype=policy),
            dtype=policy,
            name="encoder",
        )
        self.first_state = layers.Dense(
            int(decoder_units), "tanh", dtype=of_layer("first_state"), name="first_state"
        )
        self.decoder = AttentionRNN(
            recurrent_cell(decoder_units, dtype=policy),
            AdditiveAttention(attention_units, dtype=policy),
            dtype=policy,
            name="decoder",
        )
        self.readout = layers.Dense(
            2 * int(readout_units), dtype=of_layer("readout"), name="readout"
        )
        self.maxout = Maxout(2, dtype=policy, name="maxout")
        self.dropout = layers.Dropout(dropout, dtype=policy, name="dropout")
        self.output_projection = (
            None if tie_embeddings else output_projection(target_vocabulary_size, self.precision)
        )
        self.step_by_step = None
        if input_feeding or scheduled_sampling is not None:
            self.step_by_step = self._make_step_by_step(policy)

        inputs = {**source_inputs(), **target_input()}
        outputs = self.logits(self.features(inputs))
        super().__init__(inputs, outputs, name=name, trainable=trainable)
        self.dtype_policy = self.precision.of_model

    def features(self, inputs, training: bool | None = None):
        """The readout t_i, from which the output layer predicts: (B, T, readout_units)."""
        memory = self._annotate(inputs["source"], inputs["source_lengths"], training)
        decode = self.at_once if self.step_by_step is None else self.step_by_step
        return decode(inputs["target"], memory, training=training)

    def at_once(self, target, memory: dict, training=None):
        """The features of all given tokens, which need not wait where none is fed back."""
        embedded = self._embed(self.target_embedding, target, training)
        outputs = self.decoder(
            embedded,
            memory["annotations"],
            memory_mask=memory["mask"],
            initial_state=self._first_states(memory["annotations"]),
            training=training,
        )  # (B, T, decoder_units + 2 encoder_units)
        return self._read_out(outputs, embedded, training)

    def encode(self, inputs) -> dict:
        """What the decoder may look at: annotations (B, S, 2 encoder_units), their keys, the mask.

        `inputs` has the keys `source` and `source_lengths` of a call.
        """
        return self.prepare(self._annotate(inputs["source"], inputs["source_lengths"], False))

    def prepare(self, memory: dict) -> dict:
        """The memory with its keys U_a h_j, which all steps share."""
        keys = self.decoder.cell.attention.project_memory(memory["annotations"], memory["mask"])
        return {**memory, "keys": keys}

    def initial_state(self, memory: dict) -> dict:
        """The decoder's state before the first token."""
        return {"memory": memory, **self.start(memory)}

    def step(self, tokens, state: dict):
        """One token each: tokens (B,) -> logits (B, V), the next state, alignment (B, S)."""
        memory = state["memory"]
        features, alignment, state = self.advance(tokens, state, memory, False)
        return self.logits(features), {"memory": memory, **state}, alignment

    def start(self, memory: dict) -> dict:
        """What changes from step to step, before the first token."""
        states = self._first_states(memory["annotations"])
        if not self.settings["input_feeding"]:
            return {"decoder": states}
        batch, units = ops.shape(states[0])[0], self.settings["readout_units"]
        return {"decoder": states, "fed": ops.zeros((batch, units), states[0].dtype)}

    def advance(self, tokens, state: dict, memory: dict, training):
        """One step: tokens (B,) -> features (B, readout_units), alignment (B, S), what changed."""
        embedded = self._embed(self.target_embedding, tokens, training)
        fed = [state["fed"]] if self.settings["input_feeding"] else []
        output, alignment, states = self.decoder.cell(
            ops.concatenate([embedded, *fed], axis=-1),
            state["decoder"],
            memory["annotations"],
            memory_mask=memory["mask"],
            keys=memory["keys"],
            training=training,
        )  # [s_i; c_i], a_i
        features = self._read_out(output, embedded, training)
        return features, alignment, {"decoder": states, **({"fed": features} if fed else {})}

    def logits(self, features):
        """W_o t_i, float32."""
        return token_logits(features, self.target_embedding, self.output_projection)

    @property
    def sampling_rate(self):
        """The variable of scheduled sampling, or None without it."""
        return None if self.step_by_step is None else self.step_by_step.rate

    def _make_step_by_step(self, policy) -> StepByStep:
        sizes = self.settings
        words, memory = sizes["embedding_dim"], 2 * sizes["encoder_units"]
        fed = sizes["readout_units"] if sizes["input_feeding"] else 0
        parts = built(
            (self.target_embedding, (None, None)),
            (self.first_state, (None, sizes["encoder_units"])),
            (self.decoder, (None, None, words + fed), (None, None, memory)),
            (self.readout, (None, None, sizes["decoder_units"] + memory + words)),
            (self.output_projection, (None, None, sizes["readout_units"])),
        )
        return StepByStep(
            self,
            [*parts, self.maxout, self.dropout],
            sizes["readout_units"],
            sizes["scheduled_sampling"],
            sizes["input_feeding"],
            dtype=policy,
            name="step_by_step",
        )

    def _embed(self, embedding, ids, training):
        """E y, with dropout in training."""
        return self.dropout(embedding(ids), training=training)

    def _annotate(self, source, source_lengths, training) -> dict:
        """h_j = [h->_j; h<-_j], (B, S, 2 encoder_units), and which of them exist, (B, S)."""
        mask = self.source_mask(source, source_lengths)
        embedded = self._embed(self.source_embedding, source, training)
        annotations = self.encoder(embedded, mask=mask, training=training)
        return {"annotations": annotations, "mask": mask}

    def _first_states(self, annotations) -> list:
        """The decoder's states before the first token: s_0 = tanh(W_s h<-_1), the others 0."""
        hidden = self.first_state(annotations[:, 0, -self.settings["encoder_units"] :])
        others = len(keras.tree.flatten(self.decoder.cell.state_size)) - 1
        return [hidden, *(ops.zeros_like(hidden) for _ in range(others))]

    def _read_out(self, outputs, embedded, training):
        """t_i = maxout(U_o s_i + V_o E y_{i-1} + C_o c_i), of [s_i; c_i] and E y_{i-1}."""
        together = ops.concatenate([outputs, embedded], axis=-1)
        return self.dropout(self.maxout(self.readout(together)), training=training)

    @property
    def output_table(self):
        """The output layer's float weights W_o, (target_vocabulary_size, readout_units)."""
        return table_of_output(self.target_embedding, self.output_projection)

    def get_config(self):
        return config_of(self)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)


def _check(settings: dict) -> None:
    for name in SIZES:
        settings[name] = require_size(name, settings[name])
    settings["dropout"] = require_rate("dropout", settings["dropout"])
    require_choice("cell", settings["cell"], tuple(CELLS))
    require_shared_vocabulary(settings)
    embedding_dim, readout_units = settings["embedding_dim"], settings["readout_units"]
    if settings["tie_embeddings"] and embedding_dim != readout_units:
        raise ValueError(
            "Tied embeddings need a readout as wide as the embedding. "
            f"Received: embedding_dim={embedding_dim}, readout_units={readout_units}"
        )
