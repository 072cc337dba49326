"""The Transformer: an encoder-decoder of attention alone."""

import keras
from keras import ops

from keras_attn.checks import require_choice, require_rate, require_size
from keras_attn.layers import (
    LengthMask,
    SinusoidalEmbedding,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)
from keras_attn.layers.fast_parts import Dropout, LayerNormalization
from keras_attn.models.precision import Precision
from keras_attn.models.settings import config_of, settings_of
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

POSITIONS = ("sinusoidal", "rotary")
SIZES = (
    "source_vocabulary_size",
    "target_vocabulary_size",
    "dim",
    "num_heads",
    "intermediate_dim",
    "encoder_layers",
    "decoder_layers",
    "max_length",
)

# Table 3 of the paper.
PRESETS = {
    "base": {"dim": 512, "num_heads": 8, "intermediate_dim": 2048, "dropout": 0.1},
    "big": {"dim": 1024, "num_heads": 16, "intermediate_dim": 4096, "dropout": 0.3},
}


@registered
class EnterTransformer(keras.layers.Layer):
    """Scaled embeddings, with positions added or not: `sqrt(d) e_t [+ p_t]` (sections 3.4, 3.5).

    Args:
        add_positions: whether sinusoidal positions are added.

    Call arguments:
        embedded: (B, T, d).
        start_index: position of the first token.
    """

    def __init__(self, add_positions: bool, **kwargs):
        super().__init__(**kwargs)
        self.add_positions = add_positions
        self._positions = SinusoidalEmbedding(dtype=self.dtype_policy) if add_positions else None

    def call(self, embedded, start_index=0):
        embedded = embedded * embedded.shape[-1] ** 0.5
        if self._positions is None:
            return embedded
        return embedded + self._positions(embedded, start_index=start_index)

    def compute_output_shape(self, embedded_shape):
        return embedded_shape

    def get_config(self):
        return {**super().get_config(), "add_positions": self.add_positions}


@registered
class Transformer(TokenModel):
    """Encoder and decoder blocks of multi-head attention, embeddings shared with the output layer.

    A token enters as `sqrt(d) E_y + p_t`, with dropout on the sum (sections 3.4, 3.5, 5.4); every
    sublayer F is `Norm(x + Dropout(F(x)))` (section 3.1); the logits are `E h` (section 3.4).
    The defaults are the paper's base model. `Transformer.preset` makes both of its models.

    Pre-norm, `x + Dropout(F(Norm(x)))`, trains without a long warm-up and at higher rates; encoder
    and decoder then end in a normalisation of their own. Rotary positions turn the queries and keys
    of every self-attention, and nothing is added to the embeddings.

    Args:
        source_vocabulary_size: number of source ids.
        target_vocabulary_size: number of target ids.
        dim: width d of the model.
        num_heads: heads of every attention.
        intermediate_dim: width of the feed-forward networks.
        encoder_layers: number of encoder blocks.
        decoder_layers: number of decoder blocks.
        num_key_value_heads: heads of the keys and values; `num_heads` if not given.
        positions: "sinusoidal" as in the paper, or "rotary" (Su et al. 2021).
        normalize_first: whether the blocks are pre-norm (Xiong et al. 2020).
        dropout: share of the embedded inputs and of every sublayer's output dropped in training.
        attention_dropout: share of the attention weights dropped in training; none in the paper.
        tie_embeddings: whether the output layer's weights are the target embedding.
        share_embeddings: whether source and target have one vocabulary and one embedding.
        max_length: the most tokens that `step` can write, the size of its caches.
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
        ValueError: a size or number of layers that is no positive integer, a dropout rate outside
            [0, 1), unknown positions, shared embeddings of two vocabularies, heads that do not
            divide the width, rotary positions in heads of an odd width.

    Example:
        >>> import keras
        >>> from keras_attn.models import Transformer
        >>> model = Transformer(20, 20, dim=16, num_heads=2, intermediate_dim=32,
        ...                     encoder_layers=1, decoder_layers=1)
        >>> model({"source": keras.ops.ones((2, 5), "int32"),
        ...        "source_lengths": keras.ops.array([5, 3]),
        ...        "target": keras.ops.ones((2, 4), "int32")}).shape.as_list()
        [2, 4, 20]

    Reference:
        Vaswani et al. 2017, "Attention is all you need", https://arxiv.org/abs/1706.03762
    """

    def __init__(
        self,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        dim: int = 512,
        num_heads: int = 8,
        intermediate_dim: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        num_key_value_heads: int | None = None,
        positions: str = "sinusoidal",
        normalize_first: bool = False,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        tie_embeddings: bool = True,
        share_embeddings: bool = True,
        max_length: int = 256,
        name: str | None = None,
        trainable: bool = True,
        *,
        dtype=None,
    ):
        self.settings = settings_of(Transformer.__init__, locals())
        _check(self.settings)
        self.precision = Precision(dtype)
        policy = self.precision.policy
        self.target_embedding = target_embedding(
            target_vocabulary_size, dim, self.precision, _unit_length(dim)
        )
        self.source_embedding = (
            self.target_embedding
            if share_embeddings
            else source_embedding(source_vocabulary_size, dim, self.precision, _unit_length(dim))
        )
        self.enter = EnterTransformer(positions == "sinusoidal", dtype=policy, name="enter")
        self.source_mask = LengthMask(dtype=policy, name="source_mask")
        self.dropout = Dropout(dropout, dtype=policy, name="dropout")
        block = {
            "num_heads": num_heads,
            "intermediate_dim": intermediate_dim,
            "num_key_value_heads": num_key_value_heads,
            "rotary": True if positions == "rotary" else None,
            "normalize_first": normalize_first,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "dtype": policy,
        }
        self.encoder_blocks = [
            TransformerEncoderBlock(**block, name=f"encoder_{index}")
            for index in range(encoder_layers)
        ]
        self.decoder_blocks = [
            TransformerDecoderBlock(**block, name=f"decoder_{index}")
            for index in range(decoder_layers)
        ]
        self.encoder_norm = self.decoder_norm = None
        if normalize_first:
            self.encoder_norm, self.decoder_norm = (
                LayerNormalization(epsilon=1e-6, dtype=policy, name=f"{side}_norm")
                for side in ("encoder", "decoder")
            )
        self.output_projection = (
            None if tie_embeddings else output_projection(target_vocabulary_size, self.precision)
        )

        inputs = {**source_inputs(), **target_input()}
        outputs = self._predict(self.features(inputs))
        super().__init__(inputs, outputs, name=name, trainable=trainable)
        self.dtype_policy = self.precision.of_model

    @classmethod
    def preset(
        cls, name: str, source_vocabulary_size: int, target_vocabulary_size: int, **changes
    ) -> "Transformer":
        """The paper's "base" or "big" model, untrained.

        With its shared vocabulary of about 37,000 they have 63.1 and 214.2 million parameters; the
        paper says 65 and 213 million.

        Args:
            name: of the model.
            source_vocabulary_size, target_vocabulary_size: as above.
            changes: settings that differ from the paper's.

        Raises:
            ValueError: if there is no model of that name.
        """
        require_choice("name", name, tuple(PRESETS))
        return cls(source_vocabulary_size, target_vocabulary_size, **{**PRESETS[name], **changes})

    def features(self, inputs, training: bool | None = None):
        """What the decoder makes of every target token, which the output layer reads: (B, T, d)."""
        annotations, mask = self._annotate(inputs, training)
        hidden = self._embed(self.target_embedding, inputs["target"], training=training)
        for block in self.decoder_blocks:
            hidden = block(hidden, annotations, memory_mask=mask, training=training)
        return _normalized(self.decoder_norm, hidden)

    def encode(self, inputs) -> dict:
        """The keys and values that every decoder block reads, (B, 2, S, Nkv, d / N), and the mask.

        `inputs` has the keys `source` and `source_lengths` of a call.
        """
        annotations, mask = self._annotate(inputs, False)
        projected = [block.project_memory(annotations, mask) for block in self.decoder_blocks]
        return {"projected": projected, "mask": mask}

    @property
    def max_length(self) -> int:
        """The most tokens that `step` can write, the size of its caches."""
        return self.settings["max_length"]

    def initial_state(self, memory: dict) -> dict:
        """Empty caches of `max_length` tokens, and the first position."""
        batch_size = ops.shape(memory["mask"])[0]
        caches = [block.initial_cache(batch_size, self.max_length) for block in self.decoder_blocks]
        return {
            "memory": memory,
            "caches": caches,
            "position": ops.zeros((batch_size,), "int32"),
        }

    def step(self, tokens, state: dict):
        """One token each: tokens (B,) -> logits (B, V), the next state, alignment (B, S).

        The alignment is the mean over the heads of the last block.
        """
        memory, position = state["memory"], state["position"]
        # All examples are at one position: told as a scalar, it lets the caches change in place.
        shared = ops.max(position, initial=0)
        hidden = self._embed(self.target_embedding, tokens[:, None], shared)  # (B, 1, d)
        caches = []
        for block, cache, projected in zip(
            self.decoder_blocks, state["caches"], memory["projected"], strict=True
        ):
            hidden, _, weights, cache = block(
                hidden,
                memory_cache=projected,
                memory_mask=memory["mask"],
                cache=cache,
                cache_position=shared,
                return_attention_scores=True,
            )
            caches.append(cache)
        logits = self._predict(_normalized(self.decoder_norm, hidden)[:, 0])
        state = {"memory": memory, "caches": caches, "position": position + 1}
        return logits, state, ops.mean(weights[:, :, 0], axis=1)

    def _embed(self, embedding, ids, start_index=0, training=False):
        """sqrt(d) E_y + p_t, with dropout in training (sections 3.4, 3.5 and 5.4)."""
        embedded = self.enter(embedding(ids), start_index=start_index)
        return self.dropout(embedded, training=training)

    def _annotate(self, inputs, training):
        """The encoder's outputs (B, S, d), and which of them exist (B, S)."""
        mask = self.source_mask(inputs["source"], inputs["source_lengths"])
        hidden = self._embed(self.source_embedding, inputs["source"], training=training)
        for block in self.encoder_blocks:
            hidden = block(hidden, mask=mask, training=training)
        return _normalized(self.encoder_norm, hidden), mask

    def _predict(self, features):
        """E h (section 3.4), or W h where the output layer has weights of its own."""
        return token_logits(features, self.target_embedding, self.output_projection)

    @property
    def output_table(self):
        """The output layer's float weights, (target_vocabulary_size, d)."""
        return table_of_output(self.target_embedding, self.output_projection)

    def attention_maps(self, inputs) -> dict:
        """The weights of all heads for a batch, the target given as in a call.

        Returns:
            A dict of lists, a tensor for every block: `encoder` (B, N, S, S), `decoder`
            (B, N, T, T) and `memory` (B, N, T, S), what the decoder reads of the source.
        """
        maps = {"encoder": [], "decoder": [], "memory": []}
        mask = self.source_mask(inputs["source"], inputs["source_lengths"])
        hidden = self._embed(self.source_embedding, inputs["source"])
        for block in self.encoder_blocks:
            hidden, weights = block(hidden, mask=mask, return_attention_scores=True)
            maps["encoder"].append(weights)
        annotations = _normalized(self.encoder_norm, hidden)
        hidden = self._embed(self.target_embedding, inputs["target"])
        for block in self.decoder_blocks:
            hidden, weights, memory_weights = block(
                hidden, annotations, memory_mask=mask, return_attention_scores=True
            )
            maps["decoder"].append(weights)
            maps["memory"].append(memory_weights)
        return maps

    def get_config(self):
        return config_of(self)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)


def _unit_length(dim: int):
    """Rows of length 1: scaled embeddings and the logits of a normalised h have the variance 1."""
    return keras.initializers.RandomNormal(stddev=dim**-0.5)


def _normalized(norm, hidden):
    return hidden if norm is None else norm(hidden)


def _check(settings: dict) -> None:
    for name in SIZES:
        settings[name] = require_size(name, settings[name])
    for name in ("dropout", "attention_dropout"):
        settings[name] = require_rate(name, settings[name])
    require_choice("positions", settings["positions"], POSITIONS)
    require_shared_vocabulary(settings)
    dim, num_heads = settings["dim"], settings["num_heads"]
    if dim % num_heads:
        raise ValueError(
            "The width of the model is shared out among the heads, whose number must divide it. "
            f"Received: dim={dim}, num_heads={num_heads}"
        )
    if settings["positions"] == "rotary" and dim // num_heads % 2:
        raise ValueError(
            "Rotary positions turn pairs of features, so that every head needs an even number of "
            f"them, dim / num_heads. Received: dim={dim}, num_heads={num_heads}"
        )
