"""What models of token ids share: their inputs, embeddings and output table.

A model makes the parts that it has: an encoder-decoder all of them, a language model no source.
They are attributes of the model under the names of its files and checkpoints.
"""

import keras
from keras import ops

from keras_attn.models.precision import Precision, require_float


def source_inputs() -> dict:
    """The symbolic inputs of a side that is read: ids (B, S), and how many of them exist (B,)."""
    return {
        "source": keras.Input((None,), dtype="int32", name="source"),
        "source_lengths": keras.Input((), dtype="int32", name="source_lengths"),
    }


def target_input() -> dict:
    """The symbolic input of a side that is written: the ids that a decoder is given, (B, T)."""
    return {"target": keras.Input((None,), dtype="int32", name="target")}


def target_embedding(
    vocabulary_size: int, dim: int, precision: Precision, initializer="uniform"
) -> keras.layers.ReversibleEmbedding:
    """The vectors of the target ids, `E_y`, which can make logits too, `E h`.

    Args:
        vocabulary_size: number of ids.
        dim: width of the vectors.
        precision: of the model.
        initializer: of the vectors.
    """
    return keras.layers.ReversibleEmbedding(
        vocabulary_size,
        dim,
        tie_weights=True,
        embeddings_initializer=initializer,
        reverse_dtype="float32",
        name="target_embedding",
        **precision.of_tied_embedding("target_embedding"),
    )


def source_embedding(
    vocabulary_size: int, dim: int, precision: Precision, initializer="uniform"
) -> keras.layers.Embedding:
    """The vectors of the source ids, where they are not those of the target ids.

    Args:
        vocabulary_size: number of ids.
        dim: width of the vectors.
        precision: of the model.
        initializer: of the vectors.
    """
    return keras.layers.Embedding(
        vocabulary_size,
        dim,
        embeddings_initializer=initializer,
        dtype=precision.of("source_embedding"),
        name="source_embedding",
    )


def output_projection(vocabulary_size: int, precision: Precision) -> keras.layers.Dense:
    """The output layer `W h` of a model whose embedding makes no logits; float32 by default."""
    return keras.layers.Dense(
        vocabulary_size,
        use_bias=False,
        dtype=precision.of("output_projection", "float32"),
        name="output_projection",
    )


def token_logits(features, embedding, projection=None):
    """The logits of features h (..., d), float32: `W h` of the projection, else `E h`.

    Args:
        features: what the decoder made of each token.
        embedding: of the target.
        projection: the output layer, or None if it is the embedding.
    """
    if projection is None:
        # Quantised it leaves them in the dtype of the features.
        return ops.cast(embedding(features, reverse=True), "float32")
    return projection(features)


def table_of_output(embedding, projection=None):
    """The float weights (V, d) with which `token_logits` makes logits of features.

    Raises:
        ValueError: if they are quantised.
    """
    require_float(projection or embedding)
    return embedding.embeddings if projection is None else ops.transpose(projection.kernel)


def require_shared_vocabulary(settings: dict) -> None:
    """Raise `ValueError` if embeddings are shared by two vocabularies of different sizes."""
    source, target = settings["source_vocabulary_size"], settings["target_vocabulary_size"]
    if settings["share_embeddings"] and source != target:
        raise ValueError(
            "Shared embeddings need one vocabulary for both sides. Received: "
            f"source_vocabulary_size={source}, target_vocabulary_size={target}"
        )
