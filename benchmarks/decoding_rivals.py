"""The libraries that our searches are timed against, each a function of source ids.

Each is built for a size and a number of threads and returns `run(source (B, S), length)`, which
decodes exactly `length` tokens from random weights, with a cache of keys and values. A library is
imported when it is built, in a process that imports no other.
"""

import tempfile
from pathlib import Path

import numpy as np

START, END = 1, 2


def limit_tensorflow(threads: int) -> None:
    """So many threads for TensorFlow, before it computes anything."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def keras_hub_bart(size, threads):
    """KerasHub's BART, `generate` as it is compiled by default, greedily."""
    limit_tensorflow(threads)
    from keras_hub.models import BartBackbone, BartSeq2SeqLM

    backbone = BartBackbone(
        vocabulary_size=size.vocabulary,
        num_layers=size.layers,
        num_heads=size.heads,
        hidden_dim=size.dim,
        intermediate_dim=size.intermediate,
        max_sequence_length=1024,
    )
    model = BartSeq2SeqLM(backbone=backbone, preprocessor=None)
    model.compile(sampler="greedy")

    def run(source, length):
        batch_size = len(source)
        tokens = np.zeros((batch_size, length + 1), "int32")
        tokens[:, 0] = START
        given = np.zeros((batch_size, length + 1), bool)
        given[:, 0] = True
        inputs = {
            "encoder_token_ids": source,
            "encoder_padding_mask": np.ones_like(source, dtype=bool),
            "decoder_token_ids": tokens,
            "decoder_padding_mask": given,
        }
        return model.generate(inputs, stop_token_ids=None)

    return run


def torch_loop(size, threads):
    """PyTorch, eagerly, greedily, one token at a time, with preallocated caches."""
    import torch
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention

    torch.set_num_threads(threads)
    heads, width = size.heads, size.dim // size.heads

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query = nn.Linear(size.dim, size.dim)
            self.key_value = nn.Linear(size.dim, 2 * size.dim)
            self.output = nn.Linear(size.dim, size.dim)

        def split(self, x):  # (B, T, k dim) -> k times (B, N, T, d)
            parts = x.view(*x.shape[:2], -1, heads, width).permute(2, 0, 3, 1, 4)
            return parts.unbind(0)

        def attend(self, x, key, value):
            (query,) = self.split(self.query(x))
            found = scaled_dot_product_attention(query, key, value)  # (B, N, T, d)
            return self.output(found.transpose(1, 2).flatten(2))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.own, self.memory = Attention(), Attention()
            self.norms = nn.ModuleList(nn.LayerNorm(size.dim) for _ in range(3))
            self.hidden = nn.Linear(size.dim, size.intermediate)
            self.output = nn.Linear(size.intermediate, size.dim)

        def forward(self, x, cache, position, projected):
            key, value = self.own.split(self.own.key_value(x))
            cache[0][:, :, position : position + 1] = key
            cache[1][:, :, position : position + 1] = value
            seen = [part[:, :, : position + 1] for part in cache]
            x = self.norms[0](x + self.own.attend(x, *seen))
            x = self.norms[1](x + self.memory.attend(x, *projected))
            return self.norms[2](x + self.output(torch.relu(self.hidden(x))))

    embedding = nn.Embedding(size.vocabulary, size.dim)
    layer = nn.TransformerEncoderLayer(size.dim, heads, size.intermediate, 0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, size.layers, enable_nested_tensor=False).eval()
    blocks = nn.ModuleList(Block() for _ in range(size.layers))
    positions = torch.randn(1024, size.dim)

    @torch.inference_mode()
    def run(source, length):
        source = torch.from_numpy(source).long()
        memory = encoder(embedding(source) + positions[: source.shape[1]])
        projected = [block.memory.split(block.memory.key_value(memory)) for block in blocks]
        shape = (len(source), heads, length, width)
        caches = [(torch.zeros(shape), torch.zeros(shape)) for _ in blocks]
        tokens = torch.full((len(source),), START)
        found = []
        for position in range(length):
            x = (embedding(tokens) + positions[position])[:, None]
            for block, cache, memory_cache in zip(blocks, caches, projected, strict=True):
                x = block(x, cache, position, memory_cache)
            logits = x[:, 0] @ embedding.weight.T
            logits[:, END] = -torch.inf
            tokens = logits.argmax(-1)
            found.append(tokens)
        return torch.stack(found, 1).numpy()

    return run


def ctranslate2_float32(size, threads, beam_width=1):
    """CTranslate2 with float32 weights, a random Transformer written in its own format."""
    import ctranslate2

    directory = tempfile.TemporaryDirectory()
    words = ["<unk>", "<s>", "</s>", *(f"w{index}" for index in range(3, size.vocabulary))]
    spec = _random_spec(ctranslate2, size)
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    path = Path(directory.name) / "model"
    path.mkdir()
    spec.validate()
    spec.optimize(quantization="float32")
    spec.save(str(path))
    translator = ctranslate2.Translator(str(path), compute_type="float32", intra_threads=threads)

    def run(source, length):
        _ = directory  # the model lies there
        batch = [[words[token] for token in row] for row in source.tolist()]
        return translator.translate_batch(
            batch,
            beam_size=beam_width,
            min_decoding_length=length,
            max_decoding_length=length,
            max_batch_size=0,
        )

    return run


def _random_spec(ctranslate2, size):
    rng = np.random.default_rng(0)

    def random(*shape):
        return (rng.normal(size=shape) / shape[-1] ** 0.5).astype("float32")

    def fill_linear(linear, outputs, inputs):
        linear.weight, linear.bias = random(outputs, inputs), np.zeros(outputs, "float32")

    def fill_norm(norm):
        norm.gamma, norm.beta = np.ones(size.dim, "float32"), np.zeros(size.dim, "float32")

    def fill_feed_forward(part):
        fill_norm(part.layer_norm)
        fill_linear(part.linear_0, size.intermediate, size.dim)
        fill_linear(part.linear_1, size.dim, size.intermediate)

    def fill_attention(part, *widths):
        fill_norm(part.layer_norm)
        for linear, width in zip(part.linear, widths, strict=True):
            fill_linear(linear, width * size.dim, size.dim)

    spec = ctranslate2.specs.TransformerSpec.from_config(size.layers, size.heads, pre_norm=False)
    table = random(size.vocabulary, size.dim)
    for part in spec.encoder.embeddings:
        part.weight = table
    spec.decoder.embeddings.weight = table
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = random(1024, size.dim)
    for layer in spec.encoder.layer:
        fill_attention(layer.self_attention, 3, 1)
        fill_feed_forward(layer.ffn)
    for layer in spec.decoder.layer:
        fill_attention(layer.self_attention, 3, 1)
        fill_attention(layer.attention, 1, 2, 1)
        fill_feed_forward(layer.ffn)
    spec.decoder.projection.weight = table
    return spec
