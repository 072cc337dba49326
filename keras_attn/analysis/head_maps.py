"""The attention maps of a model that reads and writes text, sentence by sentence."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_attn.data.sequence_pairs import ended, model_batch
from keras_attn.protocols import SupportsAttentionMaps, Tokenizer
from keras_attn.text import START

ATTENTIONS = ("encoder", "decoder", "memory")


def sentence_maps(
    text_model, sources: Sequence[str], targets: Sequence[str] | None = None
) -> dict[str, list[list[tuple[list[str], list[str], np.ndarray]]]]:
    """The weights of all heads while a model reads sources and writes targets.

    Args:
        text_model: a `keras_attn.serving.TextModel` whose model is a
            `keras_attn.protocols.SupportsAttentionMaps`, such as `keras_attn.models.Transformer`.
        sources: the texts to read.
        targets: the texts that the decoder is given; by default the model's own answers.

    Returns:
        For each of `ATTENTIONS` and each of its blocks a list with
        `(query_tokens, key_tokens, weights (N, T, S))` for every sentence, without padding.

    Raises:
        ValueError: if the model has no maps of heads.
    """
    if not isinstance(text_model.model, SupportsAttentionMaps):
        raise ValueError(
            "Maps of heads need a model with attention_maps, such as Transformer. "
            f"Received: text_model.model={type(text_model.model).__name__}"
        )
    source_tokenizer, target_tokenizer = text_model.source_tokenizer, text_model.target_tokenizer
    source_ids = source_tokenizer.tokenize(tf.constant(sources))
    target_ids = (
        _answers(text_model, source_ids)
        if targets is None
        else target_tokenizer.tokenize(tf.constant(targets))
    )
    inputs, _, mask = model_batch(
        ended(source_ids[:, : text_model.max_source_length - 1]),
        ended(target_ids[:, : text_model.max_length - 1]),
    )
    tokens = {
        "source": _spelled(source_tokenizer, inputs["source"], inputs["source_lengths"]),
        "target": _spelled(
            target_tokenizer, inputs["target"], tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        ),
    }
    sides = {"encoder": ("source",) * 2, "decoder": ("target",) * 2, "memory": ("target", "source")}
    maps = text_model.model.attention_maps(inputs)
    return {
        name: [_cut(weights.numpy(), *(tokens[side] for side in sides[name])) for weights in blocks]
        for name, blocks in maps.items()
    }


def _answers(text_model, source_ids: tf.RaggedTensor) -> tf.RaggedTensor:
    lengths = tf.cast(source_ids.row_lengths(), tf.int32)
    found = text_model.translate_tokens(source_ids.to_tensor(), lengths)
    return tf.RaggedTensor.from_tensor(found["ids"], found["lengths"])


def _spelled(tokenizer: Tokenizer, ids: tf.Tensor, lengths: tf.Tensor) -> list[list[str]]:
    """The tokens of each row, without padding."""
    pieces = tf.where(ids == START, "<s>", tokenizer.pieces(ids)).numpy()
    return [
        [piece.decode() for piece in row[:length]]
        for row, length in zip(pieces, lengths.numpy(), strict=True)
    ]


def _cut(weights: np.ndarray, queries: list[list[str]], keys: list[list[str]]) -> list[tuple]:
    """The weights (B, N, T, S) of each sentence with its tokens."""
    return [
        (query, key, each[:, : len(query), : len(key)])
        for query, key, each in zip(queries, keys, weights, strict=True)
    ]
