"""A Transformer encoder-decoder in the shape searches want: encode once, then token by token.

Only what decoding needs; it has random weights and is never trained. The decoder's state holds a
cache of the keys and values of each block, allocated at its full length; what the blocks read of
the source lies under "memory", which a search repeats for its beams once and never reorders.
"""

import keras
from keras import ops

from keras_attn.layers import (
    LengthMask,
    SinusoidalEmbedding,
    TransformerDecoderBlock,
    TransformerEncoderBlock,
)


class DecodingTransformer(keras.Model):
    """Post-norm encoder and decoder blocks, one embedding for both sides and the output layer.

    Args:
        vocabulary_size: of both sides.
        dim: width of the model.
        num_heads: of every attention.
        intermediate_dim: width of the feed-forward networks.
        encoder_layers, decoder_layers: numbers of blocks.
        max_length: the most tokens that can be decoded, the size of the caches.

    Call arguments: a dict of `source` (B, S), `source_lengths` (B,) and `target` (B, T) ids; the
    result is logits (B, T, vocabulary_size).
    """

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        num_heads: int,
        intermediate_dim: int,
        encoder_layers: int,
        decoder_layers: int,
        max_length: int,
        **kwargs,
    ):
        self.dim, self.max_length = dim, max_length
        self.embedding = keras.layers.ReversibleEmbedding(
            vocabulary_size, dim, tie_weights=True, reverse_dtype="float32", name="embedding"
        )
        self.positions = SinusoidalEmbedding(name="positions")
        self.source_mask = LengthMask(name="source_mask")
        self.encoder_blocks = [
            TransformerEncoderBlock(num_heads, intermediate_dim, name=f"encoder_{index}")
            for index in range(encoder_layers)
        ]
        self.decoder_blocks = [
            TransformerDecoderBlock(num_heads, intermediate_dim, name=f"decoder_{index}")
            for index in range(decoder_layers)
        ]
        inputs = {
            "source": keras.Input((None,), dtype="int32", name="source"),
            "source_lengths": keras.Input((), dtype="int32", name="source_lengths"),
            "target": keras.Input((None,), dtype="int32", name="target"),
        }
        annotations, mask = self._annotate(inputs)
        hidden = self._embed(inputs["target"])
        for block in self.decoder_blocks:
            hidden = block(hidden, annotations, memory_mask=mask)
        super().__init__(inputs, self.embedding(hidden, reverse=True), **kwargs)

    def encode(self, inputs) -> dict:
        """The keys and values every decoder block reads, and which of them exist."""
        annotations, mask = self._annotate(inputs)
        projected = [block.project_memory(annotations, mask) for block in self.decoder_blocks]
        return {"projected": projected, "mask": mask}

    def initial_state(self, memory: dict) -> dict:
        """Empty caches, the first position."""
        batch_size = ops.shape(memory["mask"])[0]
        caches = [block.initial_cache(batch_size, self.max_length) for block in self.decoder_blocks]
        return {
            "memory": memory,
            "caches": caches,
            "position": ops.zeros((batch_size,), "int32"),
        }

    def step(self, tokens, state: dict):
        """Tokens (B,) -> logits (B, V), the next state, the last block's attention (B, S)."""
        memory, position = state["memory"], state["position"]
        # All examples are at one position: told as a scalar, it lets the caches change in place.
        shared = ops.max(position, initial=0)
        hidden = self._embed(tokens[:, None], shared)  # (B, 1, dim)
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
        logits = self.embedding(hidden[:, 0], reverse=True)
        state = {"memory": memory, "caches": caches, "position": position + 1}
        return logits, state, ops.mean(weights[:, :, 0], axis=1)

    def _annotate(self, inputs):
        mask = self.source_mask(inputs["source"], inputs["source_lengths"])  # (B, S)
        hidden = self._embed(inputs["source"])
        for block in self.encoder_blocks:
            hidden = block(hidden, mask=mask)
        return hidden, mask

    def _embed(self, ids, start_index=0):
        embedded = self.embedding(ids) * self.dim**0.5
        return embedded + self.positions(embedded, start_index=start_index)
