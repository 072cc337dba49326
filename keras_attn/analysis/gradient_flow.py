"""How much of the gradient of a loss reaches each step of a sequence."""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from keras_attn.analysis.fonts import token_families


def gradient_norms(loss: Callable, sequences) -> np.ndarray:
    """Norms of the gradient of a loss for every step of its input: `||dL / dx_t||`.

    A recurrent network without gates shrinks or stretches the gradient by a factor a step, so
    that it vanishes or explodes over long sequences (Bengio et al. 1994); a cell whose forget gate
    is open passes it on (Hochreiter and Schmidhuber 1997).

    Args:
        loss: a function from the sequences to a tensor, such as `lambda x: cost(model(x))`; the
            sum of its elements is L.
        sequences: (B, T, ...) floating point.

    Returns:
        (T,): the norm over all features of a step, averaged over the batch.

    Raises:
        ValueError: sequences that are not (B, T, ...) of floats, or a loss that does not depend on
            them.

    Example:

    >>> import numpy as np
    >>> from keras_attn.analysis import gradient_norms
    >>> gradient_norms(lambda x: x[:, 0] + 2 * x[:, 2], np.ones((1, 3, 1))).tolist()
    [1.0, 0.0, 2.0]

    References:
        - [Bengio et al., 1994](https://doi.org/10.1109/72.279181)
        - [Hochreiter and Schmidhuber, 1997](https://doi.org/10.1162/neco.1997.9.8.1735)
    """
    sequences = tf.convert_to_tensor(sequences)
    if not sequences.dtype.is_floating or sequences.shape.rank < 2:
        raise ValueError(
            "Gradients are taken for sequences of floats, (batch, time, ...). Received: sequences "
            f"of dtype {sequences.dtype.name} and shape {tuple(sequences.shape)}"
        )

    @tf.function(autograph=False)
    def gradient_of(sequences):
        with tf.GradientTape() as tape:
            tape.watch(sequences)
            total = tf.reduce_sum(loss(sequences))
        return tape.gradient(total, sequences)

    gradient = gradient_of.get_concrete_function(sequences)(sequences)
    if gradient is None:
        raise ValueError(f"The loss must depend on the sequences. Received: loss={loss}")
    gradient = gradient.numpy().astype("float64")  # (B, T, ...)
    gradient = gradient.reshape(*gradient.shape[:2], -1)
    return np.linalg.norm(gradient, axis=-1).mean(axis=0)


def plot_gradient_flow(norms: Mapping[str, np.ndarray], title: str | None = None):
    """Plot gradient norms over the steps of a sequence, on a logarithmic axis.

    Args:
        norms: (T,) by the name of what was measured, as `gradient_norms` returns them.
        title: of the figure.

    Returns:
        A `matplotlib.figure.Figure`; write it with `save_figure`. No window is opened.

    Raises:
        ValueError: no norms, or norms that are not (T,).

    Example:

    >>> import numpy as np
    >>> from keras_attn.analysis import plot_gradient_flow
    >>> figure = plot_gradient_flow({"a cell that forgets": 0.5 ** np.arange(20.0)})
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_yscale()
    ('step $t$', 'log')
    """
    # Only plots need matplotlib, which is no dependency of the package itself.
    from matplotlib.figure import Figure

    norms = {name: np.asarray(values) for name, values in norms.items()}
    if not norms or any(values.ndim != 1 for values in norms.values()):
        shapes = {name: values.shape for name, values in norms.items()}
        raise ValueError(f"Each curve must have the shape (T,). Received: norms of shapes {shapes}")
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axes = figure.add_subplot()
    for name, values in norms.items():
        # A logarithmic axis has no zero: leave a gap there.
        axes.plot(np.arange(1, len(values) + 1), np.where(values > 0, values, np.nan), label=name)
    axes.set_yscale("log")
    axes.set_xlabel("step $t$")
    axes.set_ylabel(r"$\Vert \partial L / \partial x_t \Vert$")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    # The legend stands beside the curves in the order in which they begin, from the top.
    handles, labels = axes.get_legend_handles_labels()
    order = np.argsort([-values[0] for values in norms.values()], kind="stable")
    axes.legend(
        [handles[n] for n in order],
        [labels[n] for n in order],
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        frameon=False,
        prop={"family": list(token_families())},
    )
    if title:
        axes.set_title(title, loc="left")
    return figure
