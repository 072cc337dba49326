"""Gradients over time: what vanishes, what explodes, what a gate lets through or hides."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn.analysis import gradient_norms, plot_gradient_flow
from keras_attn.layers import GRU, LSTM, LSTMCell

INPUTS = np.random.default_rng(0).standard_normal((3, 60, 4)).astype("float32")


def _plain_rnn(radius, activation):
    """A plain RNN whose recurrent kernel is `radius` times a rotation."""
    layer = keras.layers.SimpleRNN(8, activation=activation)
    layer.build(INPUTS.shape)
    kernel, recurrent_kernel, bias = layer.get_weights()
    layer.set_weights([kernel, radius * recurrent_kernel, bias])
    return layer


@pytest.mark.parametrize("radius", [0.8, 1.25])
def test_a_linear_rnn_scales_the_gradient_by_its_radius_each_step(radius):
    norms = gradient_norms(_plain_rnn(radius, "linear"), INPUTS)
    assert norms.shape == (60,)
    # Each x_t adds the same row of the kernel, turned and scaled once a step that follows.
    turned = norms[:-20] / norms[20:]
    assert np.all(turned < 0.05) if radius < 1 else np.all(turned > 20)


def test_a_plain_rnn_vanishes_or_explodes_with_its_spectral_radius():
    vanishing = gradient_norms(_plain_rnn(0.7, "tanh"), INPUTS)
    assert vanishing[0] < 1e-8 * vanishing[-1]
    exploding = gradient_norms(_plain_rnn(1.4, "tanh"), 1e-12 * INPUTS)  # where tanh is linear
    assert exploding[0] > 1e6 * exploding[-1]


def _with_bias(layer, units, block, value):
    layer.build(INPUTS.shape)
    *kernels, bias = layer.get_weights()
    bias[block * units : (block + 1) * units] = value
    layer.set_weights([*kernels, bias])
    return layer


def test_an_open_forget_gate_carries_the_gradient_and_a_closed_one_does_not():
    carried = gradient_norms(_with_bias(LSTM(8), 8, 1, 20), INPUTS)
    assert carried[:10].mean() > 0.2 * carried[-10:].mean()
    assert carried[:10].mean() < 5 * carried[-10:].mean()
    lost = gradient_norms(_with_bias(LSTM(8), 8, 1, -2), INPUTS)
    assert lost[0] < 1e-8 * lost[-1]


def test_an_update_gate_that_keeps_the_state_carries_the_gradient():
    carried = gradient_norms(_with_bias(GRU(8), 8, 0, 6), INPUTS)
    assert carried[:10].mean() > 0.2 * carried[-10:].mean()
    lost = gradient_norms(_with_bias(GRU(8), 8, 0, -2), INPUTS)
    assert lost[0] < 1e-6 * lost[-1]


@pytest.mark.parametrize("peepholes", [None, "diagonal", "full"])
def test_a_closed_output_gate_hides_the_cell_from_the_gates_without_peepholes(peepholes):
    """The FGR cell with G = 0 is the plain one and shows its gates as the third state."""
    cell = LSTMCell(3, variant="FGR", peepholes=peepholes, peephole_initializer="ones")
    cell.build((1, 2))
    cell.gate_recurrent_kernel.assign(tf.zeros([9, 9]))

    def gates_see_cell(output_bias, output_peepholes):
        cell.bias.assign(tf.tensor_scatter_nd_update(cell.bias.value, [[9], [10], [11]],
                                                     [output_bias] * 3))  # fmt: skip
        x, (h, c, gates) = tf.ones([1, 2]), cell.get_initial_state(1)
        with tf.GradientTape() as tape:
            tape.watch(c)
            _, states = cell(x, [h, c, gates])
            _, (_, _, gates) = cell(x, states)
            input_and_forget = tf.reduce_sum(gates[:, :6])
        return np.any(tape.gradient(input_and_forget, c, unconnected_gradients="zero"))

    closed = -1000.0
    assert gates_see_cell(0.0, peepholes)
    assert gates_see_cell(closed, peepholes) == (peepholes is not None)


def test_gradients_stop_at_masked_steps():
    layer = LSTM(8)
    mask = np.ones((3, 60), bool)
    mask[:, 10:20] = False
    norms = gradient_norms(lambda x: layer(x, mask=mask), INPUTS)
    assert not norms[10:20].any()
    assert norms[:10].all()


def test_norms_average_examples_and_join_features():
    x = np.zeros((2, 3, 2, 2), "float32")
    factors = np.arange(24, dtype="float32").reshape(x.shape)
    expected = np.sqrt((factors**2).sum((2, 3))).mean(0)
    np.testing.assert_allclose(gradient_norms(lambda x: x * factors, x), expected)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="Received: sequences of dtype int"):
        gradient_norms(lambda x: x, np.ones((2, 3), int))
    with pytest.raises(ValueError, match=r"Received: sequences of .* shape \(3,\)"):
        gradient_norms(lambda x: x, np.ones(3))
    with pytest.raises(ValueError, match="Received: loss="):
        gradient_norms(lambda x: tf.ones(3), np.ones((2, 3)))
    for norms in ({}, {"a": np.ones((2, 3))}):
        with pytest.raises(ValueError, match="Received: norms of shapes"):
            plot_gradient_flow(norms)


def test_the_plot_shows_every_curve_on_a_logarithmic_axis(tmp_path):
    figure = plot_gradient_flow({"low": np.array([1e-9, 0, 1e-3]), "high": np.ones(3)}, "Title")
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["high", "low"]
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [1, 2, 3])
    assert np.isnan(axes.lines[0].get_ydata()[1])
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_gradients_are_measured_where_matplotlib_is_missing_and_plots_open_no_window():
    code = (
        "import sys\n"
        "sys.modules['matplotlib'] = None\n"
        "import keras_attn.analysis as analysis, numpy as np\n"
        "assert analysis.gradient_norms(lambda x: x, np.ones((1, 2))).tolist() == [1, 1]\n"
        "del sys.modules['matplotlib']\n"
        "analysis.plot_gradient_flow({'x': [1.0]})\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
