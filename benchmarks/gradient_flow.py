"""How far back the gradient reaches, for untrained recurrent networks.

The claim: a plain RNN loses or blows up the gradient with its spectral radius, gated cells lose it
too at their usual initialisation, and a gate held open keeps it.

    python benchmarks/gradient_flow.py --output gradient_flow.png

prints a table, writes the plot to `--output` and the numbers to benchmarks/results.
"""

import argparse
from pathlib import Path

import keras
import numpy as np
from report import write_result

from keras_attn.analysis import gradient_norms, plot_gradient_flow
from keras_attn.layers import GRU, LSTM, PeepholeLSTM

FEATURES = 16


def plain_rnn(units, radius):
    """A tanh RNN with a recurrent kernel of that spectral radius."""
    initializer = keras.initializers.Orthogonal(gain=radius)
    return keras.layers.SimpleRNN(units, recurrent_initializer=initializer)


def with_gate_bias(layer, block, value):
    """The layer with the bias of one block of its kernel set to a value."""
    layer.build((None, None, FEATURES))
    bias = layer.cell.bias.numpy()
    bias[block * layer.units : (block + 1) * layer.units] = value
    layer.cell.bias.assign(bias)
    return layer


def networks(units):
    """The networks to compare, by the name that the plot gives them."""
    return {
        "RNN, radius 0.9": plain_rnn(units, 0.9),
        "RNN, radius 1.0": plain_rnn(units, 1.0),
        "RNN, radius 1.5": plain_rnn(units, 1.5),
        "LSTM, forget bias 1": LSTM(units),
        "LSTM, forget bias 10": with_gate_bias(LSTM(units), 1, 10),
        "Peephole LSTM, forget bias 10": with_gate_bias(
            PeepholeLSTM(units, peephole_initializer="glorot_uniform"), 1, 10
        ),
        "GRU": GRU(units),
        "GRU, update bias 5": with_gate_bias(GRU(units), 0, 5),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="where to write the plot (PNG, SVG, PDF)")
    parser.add_argument("--length", type=int, default=100, help="steps of a sequence")
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    keras.utils.set_random_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    sequences = rng.standard_normal((8, options.length, FEATURES)).astype("float32") * 0.5
    direction = rng.standard_normal(options.units).astype("float32")
    direction /= np.linalg.norm(direction)

    norms = {
        name: gradient_norms(lambda x, network=network: network(x) * direction, sequences)
        for name, network in networks(options.units).items()
    }
    print(f"{'':32}{'first step':>12}{'last step':>12}{'first/last':>12}")
    for name, values in norms.items():
        first, last = values[0], values[-1]
        print(f"{name:32}{first:12.2e}{last:12.2e}{first / last:12.2e}")

    steps = np.linspace(0, options.length - 1, 12).astype(int)
    figures = {
        "steps": (steps + 1).tolist(),
        "norms": {
            name: [float(f"{v:.3e}") for v in values[steps]] for name, values in norms.items()
        },
    }
    note = "gradient of a unit vector times the last output, at every input step"
    write_result("gradient_flow", figures, note)
    if options.output:
        title = "How much of the gradient reaches step $t$, untrained"
        plot_gradient_flow(norms, title).savefig(options.output, dpi=150)
        print(f"plot: {options.output}")


if __name__ == "__main__":
    main()
