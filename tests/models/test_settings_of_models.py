"""A model is made again from its config, whatever it was made with."""

import inspect

import keras
import pytest

from keras_attn.models import GNMT, RNNEncoderDecoder, RNNSearch, Transformer
from keras_attn.models.settings import settings_of

SMALL = {
    GNMT: {
        "embedding_dim": 4, "units": 3, "encoder_layers": 2, "decoder_layers": 3,
        "attention_units": 2, "variant": "CIFG", "residual": False, "scheduled_sampling": 0.25,
    },
    RNNEncoderDecoder: {
        "embedding_dim": 4, "units": 3, "context": "initial_state", "reverse_source": True,
        "cell": "lstm", "peepholes": "full", "num_layers": 2,
    },
    RNNSearch: {
        "embedding_dim": 4, "encoder_units": 3, "decoder_units": 5, "attention_units": 2,
        "readout_units": 4, "cell": "lstm", "tie_embeddings": True, "dropout": 0.25,
    },
    Transformer: {
        "dim": 4, "num_heads": 2, "intermediate_dim": 3, "encoder_layers": 1, "decoder_layers": 1,
        "num_key_value_heads": 1, "positions": "rotary", "normalize_first": True,
        "attention_dropout": 0.25, "share_embeddings": False, "max_length": 9,
    },
}  # fmt: skip
OF_KERAS = {"name": "small", "trainable": False, "dtype": "mixed_bfloat16"}
# The order in which the weights lie in the files of models.
LAYERS = {
    GNMT: "target_embedding source_embedding output_projection encoder_1 encoder_2 decoder_1 "
    "decoder_2 decoder_3 step_by_step",
    RNNEncoderDecoder: "target_embedding source_embedding output_projection encoder_1 encoder_2 "
    "decoder_1 decoder_2",
    RNNSearch: "target_embedding source_embedding encoder first_state decoder readout",
    Transformer: "target_embedding source_embedding encoder_0 decoder_0 encoder_norm decoder_norm",
}


@pytest.fixture(scope="module", params=SMALL, ids=lambda model_class: model_class.__name__)
def model(request):
    return request.param(7, 6, **SMALL[request.param], **OF_KERAS)


def test_the_config_has_every_argument_with_its_value(model):
    config = model.get_config()
    defaults = inspect.signature(type(model).__init__).parameters
    assert config.keys() == defaults.keys() - {"self"}
    given = {"source_vocabulary_size": 7, "target_vocabulary_size": 6, **SMALL[type(model)]}
    for name in defaults.keys() - {"self", "dtype"}:
        assert config[name] == {**given, **OF_KERAS}.get(name, defaults[name].default)
    assert config["dtype"]["config"]["name"] == "mixed_bfloat16"


def test_the_config_makes_the_same_model_again(model):
    again = type(model).from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert [w.shape for w in again.weights] == [w.shape for w in model.weights]
    assert not again.trainable_weights


def test_the_layers_of_saved_models_keep_their_order_and_names(model):
    owners = dict.fromkeys(weight.path.split("/")[0] for weight in model.weights)
    assert " ".join(owners) == LAYERS[type(model)]


def test_what_keras_keeps_itself_is_no_setting():
    def constructor(self, dim, *, dropout=0.1, name=None, trainable=True, dtype=None):
        unused = dim
        return settings_of(constructor, locals())

    assert constructor(None, 4, name="small") == {"dim": 4, "dropout": 0.1}


def test_old_names_of_the_parts_are_those_of_checkpoints(model):
    parts = {"target_embedding", "source_embedding", "output_projection", "dropout"}
    assert parts <= vars(model).keys()
    tied = SMALL[type(model)].get("tie_embeddings", type(model) is Transformer)
    assert (model.output_projection is None) == tied
    assert isinstance(model.target_embedding, keras.layers.ReversibleEmbedding)
