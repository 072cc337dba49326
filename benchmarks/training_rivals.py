"""The Transformer of the recipe in other libraries' blocks, each trained by a plain loop.

Each has the sizes, dropouts and norms of ours and is built as `make(settings, batch_spec)`, which
returns `step(batch)`, one update with a batch of the recipe.
"""

import keras
import numpy as np
import tensorflow as tf
from one_device_step import one_device_step

from keras_attn.layers import LengthMask
from keras_attn.training import token_objective

LABEL_SMOOTHING, CLIP_NORM, RATE = 0.1, 1.0, 1e-3


def keras_hub_blocks(settings: dict, batch_spec):
    """KerasHub's encoder and decoder blocks, whose attention is Keras', in a graph."""
    from keras_hub.layers import SinePositionEncoding, TransformerDecoder, TransformerEncoder

    dim = settings["dim"]
    embedding = keras.layers.ReversibleEmbedding(
        settings["target_vocabulary_size"],
        dim,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=dim**-0.5),
    )
    positions, dropout = SinePositionEncoding(), keras.layers.Dropout(settings["dropout"])
    block = {
        "intermediate_dim": settings["intermediate_dim"],
        "num_heads": settings["num_heads"],
        "dropout": settings["dropout"],
        "normalize_first": settings["normalize_first"],
    }
    inputs = {
        "source": keras.Input((None,), dtype="int32", name="source"),
        "source_lengths": keras.Input((), dtype="int32", name="source_lengths"),
        "target": keras.Input((None,), dtype="int32", name="target"),
    }

    def enter(ids):
        embedded = embedding(ids) * dim**0.5
        return dropout(embedded + positions(embedded))

    mask = LengthMask()(inputs["source"], inputs["source_lengths"])
    memory, hidden = enter(inputs["source"]), enter(inputs["target"])
    encoder = [TransformerEncoder(**block) for _ in range(settings["encoder_layers"])]
    decoder = [TransformerDecoder(**block) for _ in range(settings["decoder_layers"])]
    for layer in encoder:
        memory = layer(memory, padding_mask=mask)
    memory = keras.layers.LayerNormalization(epsilon=1e-6)(memory)
    for layer in decoder:
        hidden = layer(hidden, memory, encoder_padding_mask=mask)
    hidden = keras.layers.LayerNormalization(epsilon=1e-6)(hidden)
    model = keras.Model(inputs, embedding(hidden, reverse=True))
    _without_attention_dropout([*encoder, *decoder])
    optimizer = keras.optimizers.Adam(RATE, beta_2=0.98)
    return one_device_step(
        model, optimizer, token_objective(LABEL_SMOOTHING), CLIP_NORM, batch_spec
    )


def _without_attention_dropout(blocks) -> None:
    """KerasHub's one rate is that of the attention weights too, which ours keeps."""
    for block in blocks:
        for layer in block._flatten_layers():
            if isinstance(layer, keras.layers.MultiHeadAttention):
                layer._dropout = layer._dropout_layer.rate = 0.0


def torch_transformer(settings: dict, batch_spec):
    """PyTorch's nn.Transformer, eagerly."""
    import torch
    from torch import nn

    dim = settings["dim"]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(settings["target_vocabulary_size"], dim)
            nn.init.normal_(self.embedding.weight, std=dim**-0.5)
            self.dropout = nn.Dropout(settings["dropout"])
            self.transformer = nn.Transformer(
                dim,
                settings["num_heads"],
                settings["encoder_layers"],
                settings["decoder_layers"],
                settings["intermediate_dim"],
                settings["dropout"],
                norm_first=settings["normalize_first"],
                batch_first=True,
            )
            for layer in self.transformer.modules():
                if isinstance(layer, nn.MultiheadAttention):
                    layer.dropout = 0.0
                if isinstance(layer, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                    layer.dropout.p = 0.0  # between the dense layers

        def enter(self, ids):
            embedded = self.embedding(ids) * dim**0.5
            return self.dropout(embedded + positions[: ids.shape[1]])

        def forward(self, source, hidden, target):
            causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1]) < 0
            outputs = self.transformer(
                self.enter(source),
                self.enter(target),
                tgt_mask=causal,
                src_key_padding_mask=hidden,
                memory_key_padding_mask=hidden,
                tgt_is_causal=True,
            )
            return outputs @ self.embedding.weight.T

    angles = np.arange(512)[:, None] * 10_000.0 ** (-np.arange(0, dim, 2) / dim)
    table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(512, dim)
    positions = torch.from_numpy(table.astype("float32"))
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), RATE, betas=(0.9, 0.98))

    def step(batch):
        inputs, labels, mask = tf.nest.map_structure(lambda x: torch.from_numpy(x.numpy()), batch)
        hidden = torch.arange(inputs["source"].shape[1]) >= inputs["source_lengths"][:, None]
        logits = model(inputs["source"], hidden, inputs["target"])
        labels = torch.where(mask, labels.long(), -100)
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), label_smoothing=LABEL_SMOOTHING
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        return loss.detach(), mask.sum()

    return step
