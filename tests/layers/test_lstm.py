"""The LSTM layers against the reference numbers, Keras and finite differences."""

import numpy as np
import pytest
from conftest import cases

from keras_attn.layers import LSTM
from keras_attn.ops.recurrent import LSTM_BLOCKS, LSTMForm

VARIANTS = [variant for variant in LSTM_BLOCKS if variant]
BLOCKS = ("input", "forget", "candidate", "output")


def _case_layer(case, dtype, **kwargs):
    """The layer of a reference case, with the blocks of the gates it lacks left out."""
    form = LSTMForm(case.get("peepholes"), case.get("output_gate_sees", "new"), case.get("variant"))
    layer = LSTM(len(case["initial_h"][0]), **form._asdict(), dtype=dtype, **kwargs)
    layer.build(np.shape(case["inputs"]))

    def keep(weight, names, kept, axis):
        parts = np.split(np.array(weight), len(names), axis)
        return np.concatenate([p for p, n in zip(parts, names, strict=True) if n in kept], axis)

    weights = [keep(case[name], BLOCKS, form.blocks, -1) for name in ("kernel", "recurrent_kernel")]
    weights.append(keep(case["bias"], BLOCKS, form.blocks, -1))
    if form.peepholes:
        axis = 0 if form.peepholes == "diagonal" else -1
        weights.append(keep(case["P"], ("input", "forget", "output"), form.gates, axis))
    if form.variant == "FGR":
        weights.append(np.array(case["G"]))
    layer.set_weights(weights)
    return layer


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", cases("recurrent", "lstm"))
def test_reference_numbers(case, dtype):
    layer = _case_layer(case, dtype, return_sequences=True, return_state=True)
    initial = [np.array(case[name], dtype) for name in ("initial_h", "initial_c")]
    sequence, h, c = layer(np.array(case["inputs"], dtype), initial_state=initial)[:3]
    for name, got in (("sequence", sequence), ("h", h), ("c", c)):
        np.testing.assert_allclose(got, case["expect"][name], atol=1e-6, err_msg=name)
