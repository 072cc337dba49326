"""What trained and untrained models do, in numbers and plots."""

from keras_attn.analysis.gradient_flow import gradient_norms, plot_gradient_flow

__all__ = [
    "gradient_norms",
    "plot_gradient_flow",
]
