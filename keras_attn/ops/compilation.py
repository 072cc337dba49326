"""What XLA compiles: which loops are, and whether it is at work."""

import functools
from collections.abc import Callable

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
    """Whether XLA compiles a recurrent scan over inputs (B, T, D).

    `"auto"` compiles where it pays on a CPU. XLA fuses what the steps compute element by element,
    which takes a third or more off small networks, the more the smaller the batch; its matrix
    products are no faster, so that from 512 units on nothing was gained and the forward pass lost
    a tenth. Beside that, see `_may_pay`.
    """
    if require_jit_compile(jit_compile) != "auto":
        return jit_compile
    return units <= LARGEST_UNITS and _may_pay([inputs])


def compiles_blocks(jit_compile, blocks) -> bool:
    """Whether XLA compiles the loops of blockwise attention over a nest of tensors or None.

    `"auto"` compiles wherever it may pay: fusing what lies between the products takes a fifth off
    the forward pass, and nothing off the backward pass, whose time are the products.
    """
    if require_jit_compile(jit_compile) != "auto":
        return jit_compile
    return _may_pay([x for x in tf.nest.flatten(blocks) if x is not None])


def in_one_pass(function: Callable, *nests, setting: tuple = ()):
    """Call `function(*setting, *nests)`, which computes element by element, by XLA if it may pay.

    One operation after another writes each result to memory and reads it again, which is much of
    their time. XLA takes each element to its end. What sums them is better left out: XLA computes
    the elements anew for each of the sums.

    Args:
        function: of module level, for it is compiled once for each shape.
        nests: of tensors, None for what is left out; the first tensor is of floats.
        setting: what it is told beside tensors; hashable.
    """
    if _may_pay([x for x in tf.nest.flatten(nests) if x is not None]):
        return compiled(function, *setting)(*nests)
    return function(*setting, *nests)


@functools.cache
def compiled(function: Callable, *setting) -> Callable:
    """A function that XLA compiles, once for each new shape of its further arguments."""
    return tf.function(functools.partial(function, *setting), jit_compile=True, autograph=False)


def _may_pay(tensors) -> bool:
    """Whether compiling can pay on a CPU. It takes seconds for each new shape, so it needs

    - a graph with known sizes: eagerly, or with an unknown size, every new length of a sequence
      would be compiled anew; the loop is then run without XLA,
    - something to do: XLA does not take loops without steps,
    - float32, what was measured, and no GPU, where it was not.
    """
    return (
        not tf.executing_eagerly()
        and all(x.shape.is_fully_defined() and x.shape.num_elements() > 0 for x in tensors)
        and tensors[0].dtype == tf.float32
        and not tf.config.list_physical_devices("GPU")
    )


def compiled_by_xla() -> bool:
    """Whether XLA traces this."""
    return tf.__internal__.get_enclosing_xla_context() is not None
