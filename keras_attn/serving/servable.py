"""One loaded version of a model: its signatures, and calls to them."""

import functools
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_attn.serving.errors import bad_request, from_operation, quote

MODEL_FILE = "saved_model.pb"


@dataclass(frozen=True)
class Signature:
    """How a signature is called.

    Attributes:
        inputs: the data type of every input (`"float32"`, `"string"`, ...).
        defaults: the values of the inputs that a request may leave out.
        function: takes every input by name.
    """

    inputs: Mapping[str, str]
    defaults: Mapping[str, np.ndarray]
    function: object


class Cancellation:
    """Stops the model call it is given to, from any thread, even in the middle of a loop."""

    def __init__(self):
        # TensorFlow has no public name for this; without it a call that never ends would hold a
        # thread for ever.
        from tensorflow.python.eager import cancellation

        self._manager = cancellation.CancellationManager()

    def cancel(self) -> None:
        """Stop the call, or keep it from starting; nothing if it is done."""
        self._manager.start_cancel()

    def bind(self, function) -> Callable:
        """The same function, stopped by `cancel`."""
        return self._manager.get_cancelable_function(function)


class Servable:
    """A SavedModel that is loaded and can be called from several threads at once."""

    def __init__(self, directory: Path):
        """Load the SavedModel of `directory`; any failure is raised as TensorFlow raises it."""
        self.version = int(directory.name)
        self._definitions = _signature_definitions(directory)
        self._model = _load(directory)
        self._signatures = {
            name: _signature(self._definitions[name], function)
            for name, function in self._model.signatures.items()
            if name in self._definitions
        }

    def signature(self, name: str) -> Signature:
        """The signature called `name`.

        Raises:
            RequestError: status 400, if the model has no such signature.
        """
        if name not in self._signatures:
            known = ", ".join(sorted(self._signatures))
            raise bad_request(f"The model has no signature {quote(name)}; it has: {known}.")
        return self._signatures[name]

    def run(
        self,
        signature: Signature,
        arrays: Mapping[str, np.ndarray],
        cancellation: Cancellation,
    ) -> dict[str, np.ndarray]:
        """The outputs of one call; string tensors are arrays of `bytes` objects.

        Inputs that are not in `arrays` get their default value.

        Raises:
            RequestError: if an operation fails, with the HTTP status of its error class.
        """
        import tensorflow as tf

        try:
            inputs = {
                name: tf.constant(array, dtype=signature.inputs[name])
                for name, array in {**signature.defaults, **arrays}.items()
            }
            outputs = cancellation.bind(signature.function)(**inputs)
            return {name: _to_numpy(tensor) for name, tensor in outputs.items()}
        except Exception as error:  # whatever the graph raises is a reply, never a crash
            raise from_operation(error) from error

    def metadata(self, name: str) -> dict:
        """The metadata of this version as TensorFlow Serving prints it, for the model `name`."""
        return {
            "model_spec": {"name": name, "signature_name": "", "version": str(self.version)},
            "metadata": {"signature_def": {"signature_def": self._signature_json}},
        }

    @functools.cached_property
    def _signature_json(self) -> dict:
        from google.protobuf import json_format

        return {
            name: json_format.MessageToDict(
                definition,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name, definition in sorted(self._definitions.items())
        }


def _signature_definitions(directory: Path) -> dict:
    """The signatures that `saved_model.pb` declares for serving."""
    from tensorflow.core.protobuf import saved_model_pb2

    message = saved_model_pb2.SavedModel()
    message.ParseFromString((directory / MODEL_FILE).read_bytes())
    for graph in message.meta_graphs:
        if "serve" in graph.meta_info_def.tags:
            return dict(graph.signature_def)
    raise ValueError("it has no graph with the tag 'serve'")


def _load(directory: Path):
    import tensorflow as tf

    if importlib.util.find_spec("tensorflow_text"):
        import tensorflow_text  # noqa: F401  registers the operations of in-graph tokenisers

    return tf.saved_model.load(str(directory), tags=["serve"])


def _signature(definition, function) -> Signature:
    import tensorflow as tf

    inputs = {
        name: tf.dtypes.as_dtype(info.dtype).name
        for name, info in sorted(definition.inputs.items())
    }
    defaults = {name: tf.make_ndarray(value) for name, value in definition.defaults.items()}
    return Signature(inputs, defaults, function)


def _to_numpy(tensor) -> np.ndarray:
    value = tensor.numpy()
    # A string scalar arrives as plain bytes, which numpy would turn into a fixed-width string.
    return np.array(value, dtype=object) if isinstance(value, bytes) else np.asarray(value)
