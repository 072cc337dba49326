"""Shared by all tests: quiet TensorFlow, reproducible weights, one small trained model."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
# Compiled functions run once or twice here: XLA had better compile them fast than make them fast.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true"
)

import gc

import keras
import pytest
from tensorflow.python.framework import ops as tensorflow_registry


@pytest.fixture(autouse=True)
def _seeded():
    keras.utils.set_random_seed(20261129)


@pytest.fixture(autouse=True, scope="module")
def _graphs_of_a_file_are_let_go():
    """TensorFlow registers every gradient that a graph was given, and with it the graph, for ever.

    What a file of tests added is taken out again, so that the memory of a worker does not grow.
    """
    registered = tensorflow_registry.gradient_registry._registry
    before = set(registered)
    yield
    for name in set(registered) - before:
        if name.startswith("CustomGradient-"):
            del registered[name]
    gc.collect()


@pytest.fixture(scope="session")
def dates_run(tmp_path_factory):
    """The run directory of a small trained `dates` model; tests only read it."""
    from road import train_small_dates

    return train_small_dates(tmp_path_factory.mktemp("dates") / "run")


@pytest.fixture(scope="session")
def dates_text_model(dates_run):
    from road import load_text_model

    return load_text_model(dates_run)


@pytest.fixture(scope="session")
def dates_base_path(dates_text_model, tmp_path_factory):
    """The base path of the small `dates` model, exported once as version 1."""
    from keras_attn.serving import export

    base_path = tmp_path_factory.mktemp("models") / "dates"
    export(dates_text_model, base_path)
    return base_path


LONG = ("test_survival.py", "test_equality.py", "test_translation.py", "test_cli.py")


def pytest_collection_modifyitems(items):
    """The longest files come first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.path.name not in LONG)
