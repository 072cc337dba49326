"""The embeddings of a model's two sides, and the output layer that may share their weights."""

import keras
from keras import ops

from keras_attn.models.precision import Precision, require_float


class TokenTables:
    """Ids to vectors on both sides, and vectors to float32 logits on the target's.

    Args:
        settings: of the model: the vocabulary sizes, `embedding_dim`, `tie_embeddings` (the output
            layer's weights are the target embedding) and `share_embeddings` (one embedding).
        precision: of the model.
    """

    def __init__(self, settings: dict, precision: Precision):
        layers = keras.layers
        self.target = layers.ReversibleEmbedding(
            settings["target_vocabulary_size"],
            settings["embedding_dim"],
            tie_weights=True,
            reverse_dtype="float32",
            name="target_embedding",
            **precision.of_tied_embedding("target_embedding"),
        )
        self.source = self.target
        if not settings["share_embeddings"]:
            self.source = layers.Embedding(
                settings["source_vocabulary_size"],
                settings["embedding_dim"],
                dtype=precision.of("source_embedding"),
                name="source_embedding",
            )
        self.projection = None
        if not settings["tie_embeddings"]:
            self.projection = layers.Dense(
                settings["target_vocabulary_size"],
                use_bias=False,
                dtype=precision.of("output_projection", "float32"),
                name="output_projection",
            )

    @property
    def of_target(self) -> list:
        """The layers that a decoder uses."""
        return [self.target] if self.projection is None else [self.target, self.projection]

    def build(self, features: int) -> None:
        """Make the weights of the target's side, whose features have that width."""
        self.target.build((None, None))
        if self.projection is not None:
            self.projection.build((None, None, features))

    def logits(self, features):
        """Features (..., d) to logits (..., V), float32."""
        if self.projection is None:
            # Quantised it leaves them in the dtype of the features.
            return ops.cast(self.target(features, reverse=True), "float32")
        return self.projection(features)

    @property
    def output_table(self):
        """The output layer's float weights, (V, d)."""
        require_float(self.projection or self.target)
        if self.projection is None:
            return self.target.embeddings
        return ops.transpose(self.projection.kernel)
