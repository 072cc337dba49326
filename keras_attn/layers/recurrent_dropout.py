"""Dropout of the inputs and states of a recurrent cell: one mask for all steps of a sequence.

The masks are those of Keras' cells, drawn in Keras' order, so that equal seeds give equal results:
one for all blocks of the kernel, or one for each block if `recurrent_dropout` is used.
"""

from keras import ops

from keras_attn.ops.recurrent import project, project_blocks


def drop_inputs(cell, inputs, training) -> list:
    """The inputs (B, [T,] D) with dropout: one tensor, or one for each block of the kernel."""
    if not training or not cell.dropout:
        return [inputs]
    moment = ops.zeros((ops.shape(inputs)[0], inputs.shape[-1]), dtype=inputs.dtype)
    masks = cell.get_dropout_mask(moment)
    masks = masks if isinstance(masks, list) else [masks]
    if len(inputs.shape) == 3:
        masks = [ops.expand_dims(mask, 1) for mask in masks]  # (B, 1, D)
    return [inputs * mask for mask in masks]


def project_dropped(cell, inputs, bias, training):
    """Project the inputs of a cell (B, [T,] D) with its kernel, after dropout."""
    dropped = drop_inputs(cell, inputs, training)
    if len(dropped) == 1:
        return project(dropped[0], cell.kernel, bias)
    return project_blocks(dropped, cell.kernel, bias)


def recurrent_masks(cell, hidden, training) -> list | None:
    """Factors (B, units) of the hidden state for each block of the recurrent kernel, or None."""
    if not training or not cell.recurrent_dropout:
        return None
    return cell.get_recurrent_dropout_mask(hidden)
