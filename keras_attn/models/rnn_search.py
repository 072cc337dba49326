"""RNNsearch: the recurrent encoder-decoder that learned to align."""

import keras
from keras import ops

from keras_attn.layers import (
    GRU,
    AdditiveAttention,
    AttentionRNN,
    GRUCell,
    LengthMask,
    Maxout,
)


class RNNSearch(keras.Model):
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
        dropout: share of the embedded inputs and of the readout dropped in training.

    Call arguments, a dict:
        source: (B, S) int32 ids; S >= 1.
        source_lengths: (B,) int32; what lies beyond them is never read.
        target: (B, T) int32 ids that the decoder is given: the start token, then the target
            without its last token.

    Returns:
        logits (B, T, target_vocabulary_size), float32.

    Example:
        >>> model = RNNSearch(20, 10, embedding_dim=8, encoder_units=8, decoder_units=8,
        ...                   attention_units=8, readout_units=8)
        >>> model({"source": keras.ops.ones((2, 5), "int32"),
        ...        "source_lengths": keras.ops.array([5, 3]),
        ...        "target": keras.ops.ones((2, 4), "int32")}).shape
        (2, 4, 10)

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
        dropout: float = 0.0,
        **kwargs,
    ):
        self.settings = {
            "source_vocabulary_size": source_vocabulary_size,
            "target_vocabulary_size": target_vocabulary_size,
            "embedding_dim": embedding_dim,
            "encoder_units": encoder_units,
            "decoder_units": decoder_units,
            "attention_units": attention_units,
            "readout_units": readout_units,
            "dropout": dropout,
        }
        layers = keras.layers
        self.source_embedding = layers.Embedding(
            source_vocabulary_size, embedding_dim, name="source_embedding"
        )
        self.source_mask = LengthMask(name="source_mask")
        self.encoder = layers.Bidirectional(
            GRU(encoder_units, return_sequences=True), name="encoder"
        )
        self.first_state = layers.Dense(decoder_units, "tanh", name="first_state")
        self.target_embedding = layers.Embedding(
            target_vocabulary_size, embedding_dim, name="target_embedding"
        )
        self.decoder = AttentionRNN(
            GRUCell(decoder_units), AdditiveAttention(attention_units), name="decoder"
        )
        self.readout = layers.Dense(2 * readout_units, name="readout")
        self.maxout = Maxout(2, name="maxout")
        self.dropout = layers.Dropout(dropout, name="dropout")
        self.output_projection = layers.Dense(
            target_vocabulary_size, dtype="float32", name="output_projection"
        )

        inputs = {
            "source": keras.Input((None,), dtype="int32", name="source"),
            "source_lengths": keras.Input((), dtype="int32", name="source_lengths"),
            "target": keras.Input((None,), dtype="int32", name="target"),
        }
        super().__init__(inputs, self.output_projection(self.features(inputs)), **kwargs)

    def features(self, inputs, training: bool | None = None):
        """The readout t_i, from which the output layer predicts: (B, T, readout_units)."""
        annotations, mask = self._annotate(inputs["source"], inputs["source_lengths"], training)
        embedded = self._embed(self.target_embedding, inputs["target"], training)
        outputs = self.decoder(
            embedded,
            annotations,
            memory_mask=mask,
            initial_state=[self._first_state(annotations)],
            training=training,
        )  # (B, T, decoder_units + 2 encoder_units)
        return self._read_out(outputs, embedded, training)

    def encode(self, inputs) -> dict:
        """What the decoder may look at: annotations (B, S, 2 encoder_units), their keys, the mask.

        `inputs` has the keys `source` and `source_lengths` of a call.
        """
        annotations, mask = self._annotate(inputs["source"], inputs["source_lengths"], False)
        keys = self.decoder.cell.attention.project_memory(annotations, mask)
        return {"annotations": annotations, "keys": keys, "mask": mask}

    def initial_state(self, memory: dict) -> dict:
        """The decoder's state before the first token."""
        return {"memory": memory, "hidden": self._first_state(memory["annotations"])}

    def step(self, tokens, state: dict):
        """One token each: tokens (B,) -> logits (B, V), the next state, alignment (B, S)."""
        memory = state["memory"]
        embedded = self.target_embedding(tokens)
        output, alignment, (hidden,) = self.decoder.cell(
            embedded,
            [state["hidden"]],
            memory["annotations"],
            memory_mask=memory["mask"],
            keys=memory["keys"],
            training=False,
        )
        logits = self.output_projection(self._read_out(output, embedded, False))
        return logits, {"memory": memory, "hidden": hidden}, alignment

    def get_config(self):
        return {**self.settings, "name": self.name, "dtype": self.dtype_policy.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)

    def _annotate(self, source, source_lengths, training):
        mask = self.source_mask(source, source_lengths)  # (B, S)
        embedded = self._embed(self.source_embedding, source, training)
        return self.encoder(embedded, mask=mask, training=training), mask

    def _embed(self, embedding, ids, training):
        return self.dropout(embedding(ids), training=training)

    def _first_state(self, annotations):
        backward_units = self.settings["encoder_units"]
        return self.first_state(annotations[:, 0, -backward_units:])  # the backward state at j = 1

    def _read_out(self, outputs, embedded, training):
        together = ops.concatenate([outputs, embedded], axis=-1)
        return self.dropout(self.maxout(self.readout(together)), training=training)
