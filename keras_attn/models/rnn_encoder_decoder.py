"""The encoder-decoder without attention: a sentence as one vector."""

import keras
from keras import ops

from keras_attn.checks import require_choice, require_rate, require_size
from keras_attn.layers import LengthMask, Maxout
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
    "num_layers",
    "readout_units",
)
CONTEXTS = ("every_step", "initial_state")


@registered
class RNNEncoderDecoder(TokenModel):
    """A recurrent encoder, whose last state is all that a recurrent decoder learns of a source.

    Encoder, N layers over the source, `h^0_j = E x_j`: `h^n_j = GRU(h^{n-1}_j, h^n_{j-1})`. Then

    context="every_step" (Cho et al. 2014): every step and the output read the vector c,

    `c = tanh(V h^N_S)`,  `s^n_0 = tanh(V_n c)`
    `s^1_t = GRU([E y_{t-1}; c], s^1_{t-1})`,  `s^n_t = GRU([s^{n-1}_t; c], s^n_{t-1})`
    `o_t = maxout(O_s s^N_t + O_y E y_{t-1} + O_c c)`,  `p(y_t) = softmax(W_o o_t)`

    context="initial_state" (Sutskever et al. 2014): the states of the encoder are the first ones of
    the decoder, layer by layer, and nothing else is handed over,

    `s^n_0 = h^n_S`,  `s^1_t = LSTM(E y_{t-1}, s^1_{t-1})`,  `s^n_t = LSTM(s^{n-1}_t, s^n_{t-1})`
    `p(y_t) = softmax(W_o s^N_t)`

    An LSTM's cell state is handed over with the state in the second form, and begins at 0 in the
    first. Cho's decoder lets the reset gate act on c too; that of `layers.GRU` acts on the state.

    Args:
        source_vocabulary_size: number of source ids.
        target_vocabulary_size: number of target ids.
        embedding_dim: width of both embeddings (Cho 100, Sutskever 1000).
        units: of every layer of both sides, and of c (1000).
        num_layers: of each side (Cho 1, Sutskever 4).
        context: "every_step" or "initial_state".
        reverse_source: whether the source is read from its last token to its first (Sutskever).
        cell: "gru" (Cho) or "lstm" (Sutskever).
        variant, peepholes: of the LSTM, see `layers.LSTMCell`.
        readout_units: width of the maxout of the first form (500); the second has none.
        tie_embeddings: whether the output layer's weights are the target embedding; the width of
            what it reads, `readout_units` or `units`, must equal `embedding_dim`.
        share_embeddings: whether source and target have one vocabulary and one embedding.
        dropout: share dropped in training of the embedded inputs, of what goes from layer to layer
            and of what the output layer reads.
        scheduled_sampling: the share of target tokens that training at first replaces by the
            model's own draws, in [0, 1] (Bengio et al. 2015); None for teacher forcing alone. It is
            the variable `sampling_rate`, to be assigned to while training.
        name: of the model.
        trainable: whether its weights are trained.
        dtype: dtype policy of all layers, that of `keras.config.set_dtype_policy` by default.

    The logits are float32 whatever the dtype policy. There is no attention: a step returns None in
    the place of an alignment.

    Call arguments, a dict:
        source: (B, S) int32 ids; S >= 1.
        source_lengths: (B,) int32; what lies beyond them is never read.
        target: (B, T) int32 ids that the decoder is given: the start token, then the target
            without its last token.

    Returns:
        logits (B, T, target_vocabulary_size), float32.

    Raises:
        ValueError: a size that is no positive integer, a rate outside of its bounds, an unknown
            context, cell or form of it, or sizes that must be equal for tied or shared embeddings
            and are not.

    Example:
        >>> import keras
        >>> from keras_attn.models import RNNEncoderDecoder
        >>> model = RNNEncoderDecoder(20, 10, embedding_dim=8, units=8, readout_units=8)
        >>> tuple(model({"source": keras.ops.ones((2, 5), "int32"),
        ...              "source_lengths": keras.ops.array([5, 3]),
        ...              "target": keras.ops.ones((2, 4), "int32")}).shape)
        (2, 4, 10)

    References:
        - Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder for
          Statistical Machine Translation", https://arxiv.org/abs/1406.1078
        - Sutskever, Vinyals and Le 2014, "Sequence to Sequence Learning with Neural Networks",
          https://arxiv.org/abs/1409.3215
    """

    aligns = False

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        embedding_dim: int = 620,
        units: int = 1000,
        num_layers: int = 1,
        context: str = "every_step",
        reverse_source: bool = False,
        cell: str = "gru",
        variant: str | None = None,
        peepholes: str | None = None,
        readout_units: int = 500,
        tie_embeddings: bool = False,
        share_embeddings: bool = False,
        dropout: float = 0.0,
        scheduled_sampling: float | None = None,
        name: str | None = None,
        trainable: bool = True,
        *,
        dtype=None,
    ):
        self.settings = settings_of(RNNEncoderDecoder.__init__, locals())
        _check(self.settings)
        self.precision = Precision(dtype)
        policy = self.precision.policy
        recurrent = RecurrentParts(cell, variant, peepholes, policy)
        numbers = range(1, num_layers + 1)
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
        self.encoder = [recurrent.layer(units, f"encoder_{n}", return_state=True) for n in numbers]
        self.bridge = {"every_step": EveryStep, "initial_state": InitialState}[context](
            self.settings, self.precision, recurrent.required_states
        )
        self.decoder = [recurrent.layer(units, f"decoder_{n}") for n in numbers]
        self.dropout = keras.layers.Dropout(dropout, dtype=policy, name="dropout")
        self.step_by_step = None
        if scheduled_sampling is not None:
            self.step_by_step = self._make_step_by_step(policy)

        inputs = {**source_inputs(), **target_input()}
        outputs = self.logits(self.features(inputs))
        super().__init__(inputs, outputs, name=name, trainable=trainable)
        self.dtype_policy = self.precision.of_model

    def _make_step_by_step(self, policy) -> StepByStep:
        words, units = self.settings["embedding_dim"], self.settings["units"]
        widths = [words] + [units] * (len(self.decoder) - 1)
        layers = zip(self.decoder, widths, strict=True)
        parts = built(
            (self.target_embedding, (None, None)),
            *self.bridge.parts_of_decoder(),
            *((layer, (None, None, width + self.bridge.beside)) for layer, width in layers),
            (self.output_projection, (None, None, self.bridge.features)),
        )
        return StepByStep(
            self,
            [*parts, self.dropout],
            self.bridge.features,
            self.settings["scheduled_sampling"],
            feeds=False,
            dtype=policy,
            name="step_by_step",
        )

    @property
    def sampling_rate(self):
        """The variable of scheduled sampling, or None without it."""
        return None if self.step_by_step is None else self.step_by_step.rate

    @property
    def output_table(self):
        """The output layer's float weights, (target_vocabulary_size, d)."""
        return table_of_output(self.target_embedding, self.output_projection)

    def features(self, inputs, training: bool | None = None):
        """What the output layer reads, o_t or s^N_t: (B, T, d)."""
        memory = self._summarise(inputs, training)
        decode = self.at_once if self.step_by_step is None else self.step_by_step
        return decode(inputs["target"], memory, training=training)

    def at_once(self, target, memory: dict, training=None):
        """The features of all given tokens."""
        states = self.bridge.first_states(memory)

        def run(number, layer, x):
            return layer(x, initial_state=states[number], training=training)

        return self._decode(target, memory, run, training)

    def encode(self, inputs) -> dict:
        """What the decoder learns of the source: c (B, units), or the states of all layers.

        `inputs` has the keys `source` and `source_lengths` of a call.
        """
        return self._summarise(inputs, False)

    def prepare(self, memory: dict) -> dict:
        """The memory, of which nothing is left to compute."""
        return memory

    def initial_state(self, memory: dict) -> dict:
        """The decoder's state before the first token."""
        return {"memory": memory, "decoder": self.start(memory)}

    def step(self, tokens, state: dict):
        """One token each: tokens (B,) -> logits (B, V), the next state, None for no alignment."""
        memory = state["memory"]
        features, _, decoder = self.advance(tokens, state["decoder"], memory, False)
        return self.logits(features), {"memory": memory, "decoder": decoder}, None

    def start(self, memory: dict) -> list:
        """The states of all layers before the first token, a list each."""
        states = []
        for layer, given in zip(self.decoder, self.bridge.first_states(memory), strict=True):
            at_rest = layer.cell.get_initial_state(ops.shape(given[0])[0])
            states.append([*given, *at_rest[len(given) :]])
        return states

    def advance(self, tokens, state: list, memory: dict, training):
        """One step: tokens (B,) -> features (B, d), None for no alignment, the next states."""
        after = []

        def run(number, layer, x):
            output, states = layer.cell(x, state[number], training=training)
            after.append(states)
            return output

        return self._decode(tokens, memory, run, training), None, after

    def logits(self, features):
        """Features (..., d) to logits (..., V), float32."""
        return token_logits(features, self.target_embedding, self.output_projection)

    def get_config(self):
        return config_of(self)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)

    def _summarise(self, inputs, training) -> dict:
        source = inputs["source"]
        mask = self.source_mask(source, inputs["source_lengths"])  # (B, S)
        if self.settings["reverse_source"]:
            source, mask = ops.flip(source, axis=1), ops.flip(mask, axis=1)
        x, last = self.source_embedding(source), []
        for layer in self.encoder:
            dropped = self.dropout(x, training=training)
            x, *states = layer(dropped, mask=mask, training=training)
            last.append(states)
        return self.bridge.memory(last)

    def _decode(self, tokens, memory: dict, run, training):
        """All layers over tokens (B,) or (B, T), each run by `run(number, layer, inputs)`."""
        embedded = self.dropout(self.target_embedding(tokens), training=training)
        x = embedded
        for number, layer in enumerate(self.decoder):
            x = run(number, layer, self.bridge.inputs(x, memory))
            x = self.dropout(x, training=training)
        features = self.bridge.read_out(x, embedded, memory)
        return features if features is x else self.dropout(features, training=training)


class EveryStep:
    """What Cho et al. hand over: one vector, read by every step and by the output."""

    def __init__(self, settings: dict, precision: Precision, required_states: int):
        dense, units = keras.layers.Dense, settings["units"]
        self._settings = settings
        self._others = required_states - 1  # than the first, which begin at 0
        self.beside = units
        self.features = settings["readout_units"]
        self._summary = dense(units, "tanh", dtype=precision.of("summary"), name="summary")
        names = [f"first_state_{n}" for n in range(1, settings["num_layers"] + 1)]
        self._first = [dense(units, "tanh", dtype=precision.of(name), name=name) for name in names]
        self._readout = dense(2 * self.features, dtype=precision.of("readout"), name="readout")
        self._maxout = Maxout(2, dtype=precision.policy, name="maxout")

    def parts_of_decoder(self) -> list[tuple]:
        """The layers that the steps use, each with the shape of its inputs."""
        units = self._settings["units"]
        return [
            *((layer, (None, units)) for layer in self._first),
            (self._readout, (None, None, 2 * units + self._settings["embedding_dim"])),
        ]

    def memory(self, last_states: list) -> dict:
        return {"summary": self._summary(last_states[-1][0])}

    def first_states(self, memory: dict) -> list:
        states = [layer(memory["summary"]) for layer in self._first]
        return [[state, *[ops.zeros_like(state)] * self._others] for state in states]

    def inputs(self, x, memory: dict):
        return _beside(x, memory["summary"])

    def read_out(self, x, embedded, memory: dict):
        read = ops.concatenate([x, embedded], axis=-1)
        return self._maxout(self._readout(_beside(read, memory["summary"])))


class InitialState:
    """What Sutskever et al. hand over: the last states of all layers, and nothing else."""

    def __init__(self, settings: dict, precision: Precision, required_states: int):
        del precision, required_states
        self.beside = 0
        self.features = settings["units"]

    def parts_of_decoder(self) -> list[tuple]:
        """None: there is no layer between the two sides."""
        return []

    def memory(self, last_states: list) -> dict:
        return {"states": last_states}

    def first_states(self, memory: dict) -> list:
        return memory["states"]

    def inputs(self, x, memory: dict):
        return x

    def read_out(self, x, embedded, memory: dict):
        return x


def _beside(x, vector):
    """A vector (B, d) beside one step (B, n) or beside each of many (B, T, n)."""
    if len(x.shape) == 3:
        # Keras' broadcast_to takes no unknown length.
        vector = ops.zeros_like(x[..., :1]) + vector[:, None]  # (B, T, d)
    return ops.concatenate([x, vector], axis=-1)


def _check(settings: dict) -> None:
    for name in SIZES:
        settings[name] = require_size(name, settings[name])
    settings["dropout"] = require_rate("dropout", settings["dropout"])
    require_choice("context", settings["context"], CONTEXTS)
    require_shared_vocabulary(settings)
    read = "readout_units" if settings["context"] == "every_step" else "units"
    if settings["tie_embeddings"] and settings["embedding_dim"] != settings[read]:
        raise ValueError(
            f"Tied embeddings need `{read}`, what the output layer reads, to be as wide as the "
            f"embedding. Received: embedding_dim={settings['embedding_dim']}, "
            f"{read}={settings[read]}"
        )
