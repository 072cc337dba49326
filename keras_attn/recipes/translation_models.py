"""The models of the translation recipes, and how each is built from its settings."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import keras

from keras_attn.models import GNMT, RNNEncoderDecoder, RNNSearch, Transformer
from keras_attn.recipes.translation_settings import MODELS
from keras_attn.training import warmed_up_then_inverse_square_root, warmed_up_then_linear

SCHEDULES = {
    "linear": warmed_up_then_linear,
    "inverse_square_root": warmed_up_then_inverse_square_root,
}


@dataclass(frozen=True)
class Architecture:
    """A model over one joint vocabulary, embeddings shared and tied.

    Args:
        build: `build(vocabulary_size, options) -> model`, untrained.
        defaults: of the options.
    """

    build: Callable[[int, dict], keras.Model]
    defaults: dict


def _rnn_search(vocabulary_size: int, options: dict) -> keras.Model:
    return RNNSearch(
        vocabulary_size,
        vocabulary_size,
        embedding_dim=options["embedding_dim"],
        encoder_units=options["encoder_units"],
        decoder_units=options["decoder_units"],
        attention_units=options["decoder_units"],
        readout_units=options["embedding_dim"],
        tie_embeddings=True,
        share_embeddings=True,
        dropout=options["dropout"],
    )


def _rnn_encoder_decoder(vocabulary_size: int, options: dict) -> keras.Model:
    return RNNEncoderDecoder(
        vocabulary_size,
        vocabulary_size,
        embedding_dim=options["embedding_dim"],
        units=options["units"],
        num_layers=options["num_layers"],
        context=options["context"],
        reverse_source=options["reverse_source"],
        cell=options["cell"],
        variant=options["variant"],
        peepholes=options["peepholes"],
        readout_units=options["embedding_dim"],
        tie_embeddings=True,
        share_embeddings=True,
        dropout=options["dropout"],
    )


def _gnmt(vocabulary_size: int, options: dict) -> keras.Model:
    return GNMT(
        vocabulary_size,
        vocabulary_size,
        embedding_dim=options["units"],
        units=options["units"],
        encoder_layers=options["encoder_layers"],
        decoder_layers=options["decoder_layers"],
        attention_units=options["units"],
        cell=options["cell"],
        variant=options["variant"],
        peepholes=options["peepholes"],
        residual=options["residual"],
        tie_embeddings=True,
        share_embeddings=True,
        dropout=options["dropout"],
    )


def _transformer(vocabulary_size: int, options: dict) -> keras.Model:
    return Transformer(
        vocabulary_size,
        vocabulary_size,
        dim=options["dim"],
        num_heads=options["num_heads"],
        intermediate_dim=options["intermediate_dim"],
        encoder_layers=options["encoder_layers"],
        decoder_layers=options["decoder_layers"],
        num_key_value_heads=options["num_key_value_heads"],
        positions=options["positions"],
        normalize_first=options["normalize_first"],
        dropout=options["dropout"],
        max_length=options["max_tokens"],
    )


_BUILDERS = {
    "rnnsearch": _rnn_search,
    "transformer": _transformer,
    "gnmt": _gnmt,
    "rnn-encoder-decoder": _rnn_encoder_decoder,
}

ARCHITECTURES = {
    name: Architecture(_BUILDERS[name], asdict(settings())) for name, settings in MODELS.items()
}
