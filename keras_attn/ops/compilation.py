"""What XLA compiles: when the recurrent scans are, and whether it is at work."""

import tensorflow as tf

LARGEST_UNITS = 256


def require_jit_compile(jit_compile):
    """Return `jit_compile`, or raise `ValueError` if it is not `"auto"`, `True` or `False`."""
    if jit_compile == "auto" or isinstance(jit_compile, bool):
        return jit_compile
    raise ValueError(
        f"`jit_compile` must be 'auto', True or False. Received: jit_compile={jit_compile!r}"
    )


def compiles(jit_compile, inputs, units: int) -> bool:
    """Whether XLA compiles a scan over inputs (B, T, D).

    `"auto"` compiles where it pays on a CPU. XLA fuses what the steps compute element by element,
    which takes a third or more off small networks, the more the smaller the batch; its matrix
    products are no faster, so that from 512 units on nothing was gained and the forward pass lost
    a tenth. Compiling takes seconds for each new shape. Therefore it needs

    - a graph with known sizes: eagerly, or with an unknown size, every new length of a sequence
      would be compiled anew; the scan is then run without XLA,
    - something to do: XLA does not take loops without steps,
    - float32, what was measured, and no GPU, where it was not.
    """
    if require_jit_compile(jit_compile) != "auto":
        return jit_compile
    return (
        not tf.executing_eagerly()
        and inputs.shape.is_fully_defined()
        and inputs.shape.num_elements() > 0
        and inputs.dtype == tf.float32
        and units <= LARGEST_UNITS
        and not tf.config.list_physical_devices("GPU")
    )


def compiled_by_xla() -> bool:
    """Whether XLA traces this."""
    return tf.__internal__.get_enclosing_xla_context() is not None
