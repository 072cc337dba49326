"""One step of the gated recurrent cells, and the projection of their inputs.

The projection does not depend on the state, so it is done for a whole sequence at once; the step
takes one moment of what it returns. All functions are pure.
"""

from keras import ops


def project(inputs, kernel, bias=None):
    """Project the inputs into the blocks of a cell, all moments at once: `x W + b`.

    Args:
        inputs: (..., D), one moment (B, D) or a sequence (B, T, D).
        kernel: (D, blocks * units).
        bias: (blocks * units,) or None.

    Returns:
        (..., blocks * units).
    """
    projected = ops.matmul(inputs, kernel)
    return projected if bias is None else projected + bias


def project_blocks(block_inputs, kernel, bias=None):
    """`project` with inputs of its own for each block, as dropout masks by block make them.

    Args:
        block_inputs: list of (..., D), one for each block of the kernel.
        kernel: (D, blocks * units).
        bias: (blocks * units,) or None.

    Returns:
        (..., blocks * units).
    """
    kernels = ops.split(kernel, len(block_inputs), axis=-1)
    pairs = zip(block_inputs, kernels, strict=True)
    projected = ops.concatenate([ops.matmul(x, block) for x, block in pairs], axis=-1)
    return projected if bias is None else projected + bias


def gru_step(
    projected,
    hidden,
    recurrent_kernel,
    *,
    activation=ops.tanh,
    recurrent_activation=ops.sigmoid,
    dropout_masks=None,
):
    """One step of the gated recurrent unit, the reset gate before the product (Cho et al. 2014).

        z = sigmoid(x_z + h U_z)
        r = sigmoid(x_r + h U_r)
        h' = z * h + (1 - z) * tanh(x_h + (r * h) U_h)

    Args:
        projected: (B, 3 * units), the blocks x_z, x_r, x_h, biases included.
        hidden: (B, units), the h of the step before.
        recurrent_kernel: (units, 3 * units), the blocks U_z, U_r, U_h.
        activation: of the candidate.
        recurrent_activation: of the gates.
        dropout_masks: None, or three of (B, units), factors of h in the three products.

    Returns:
        (B, units), the new h.

    Reference:
        [Cho et al., 2014](https://arxiv.org/abs/1406.1078v3), equations 5 to 8.
    """
    units = hidden.shape[-1]
    x_z, x_r, x_h = ops.split(projected, 3, axis=-1)  # (B, units) each
    gate_masks, candidate_mask = None, 1
    if dropout_masks is not None:
        *gate_masks, candidate_mask = dropout_masks
    h_z, h_r = _recurrent_blocks(hidden, recurrent_kernel[:, : 2 * units], 2, gate_masks)
    z = recurrent_activation(x_z + h_z)
    r = recurrent_activation(x_r + h_r)
    reset_hidden = r * hidden * candidate_mask
    candidate = activation(x_h + ops.matmul(reset_hidden, recurrent_kernel[:, 2 * units :]))
    return z * hidden + (1 - z) * candidate


def gru_step_reset_after(
    projected,
    hidden,
    recurrent_kernel,
    recurrent_bias=None,
    *,
    activation=ops.tanh,
    recurrent_activation=ops.sigmoid,
    dropout_masks=None,
):
    """One step of the gated recurrent unit, the reset gate after the product, as cuDNN has it.

        z = sigmoid(x_z + h U_z + b_z)
        r = sigmoid(x_r + h U_r + b_r)
        h' = z * h + (1 - z) * tanh(x_h + r * (h U_h + b_h))

    Args:
        projected: (B, 3 * units), the blocks x_z, x_r, x_h, their own biases included.
        hidden: (B, units), the h of the step before.
        recurrent_kernel: (units, 3 * units), the blocks U_z, U_r, U_h.
        recurrent_bias: (3 * units,), the blocks b_z, b_r, b_h, or None.
        activation: of the candidate.
        recurrent_activation: of the gates.
        dropout_masks: None, or three of (B, units), factors of h in the three products.

    Returns:
        (B, units), the new h.

    Reference:
        [Cho et al., 2014, version 1](https://arxiv.org/abs/1406.1078v1).
    """
    x_z, x_r, x_h = ops.split(projected, 3, axis=-1)  # (B, units) each
    h_z, h_r, h_h = _recurrent_blocks(hidden, recurrent_kernel, 3, dropout_masks, recurrent_bias)
    z = recurrent_activation(x_z + h_z)
    r = recurrent_activation(x_r + h_r)
    candidate = activation(x_h + r * h_h)
    return z * hidden + (1 - z) * candidate


def _recurrent_blocks(hidden, recurrent_kernel, blocks: int, dropout_masks=None, bias=None):
    """The products of h with every block of the kernel: a list of (B, units)."""
    if dropout_masks is None:
        products = project(hidden, recurrent_kernel, bias)
    else:
        masked = [hidden * mask for mask in dropout_masks]
        products = project_blocks(masked, recurrent_kernel, bias)
    return ops.split(products, blocks, axis=-1)
