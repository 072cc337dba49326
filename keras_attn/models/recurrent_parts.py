"""Which recurrent layers and cells a model is made of."""

from keras_attn.checks import require_choice
from keras_attn.layers import GRU, LSTM, GRUCell, LSTMCell

CELLS = {"gru": (GRU, GRUCell), "lstm": (LSTM, LSTMCell)}


class RecurrentParts:
    """Makes the layers and cells of one kind.

    Args:
        cell: "gru" or "lstm".
        variant, peepholes: of the LSTM, as `layers.LSTMCell` has them; None for a GRU.
        dtype: policy of all parts.

    Attributes:
        required_states: how many states a layer must be given at least.

    Raises:
        ValueError: an unknown cell, or a variant or peepholes of a GRU.
    """

    def __init__(self, cell: str, variant: str | None, peepholes: str | None, dtype):
        require_choice("cell", cell, tuple(CELLS))
        form = {"variant": variant, "peepholes": peepholes}
        if cell == "gru" and any(form.values()):
            raise ValueError(
                "Variants and peepholes are forms of the LSTM: pass cell='lstm', or leave them "
                f"out. Received: cell='gru', variant={variant!r}, peepholes={peepholes!r}"
            )
        self._layer, self._cell = CELLS[cell]
        self.required_states = self._cell.required_states
        self._options = {"dtype": dtype, **(form if cell == "lstm" else {})}

    def layer(self, units: int, name: str | None = None, **options):
        """A layer that returns all steps."""
        return self._layer(units, return_sequences=True, name=name, **options, **self._options)

    def cell(self, units: int):
        """A cell."""
        return self._cell(units, **self._options)
