"""What a trained model looks at, and how its gradients flow."""

from keras_attn.analysis.alignment import plot_alignments, save_figure

__all__ = ["plot_alignments", "save_figure"]
