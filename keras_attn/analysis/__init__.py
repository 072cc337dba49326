"""What models look at and how their gradients flow, in numbers and plots."""

from keras_attn.analysis.alignment import plot_alignments
from keras_attn.analysis.alignment_measures import (
    crossings,
    joined,
    mass_on,
    near_diagonal,
    of_words,
)
from keras_attn.analysis.bracket_scores import BracketScores, bracket_scores
from keras_attn.analysis.caption_maps import plot_captions
from keras_attn.analysis.cell_states import plot_cell_states, states_over_time
from keras_attn.analysis.curves import plot_curves
from keras_attn.analysis.gradient_flow import gradient_norms, plot_gradient_flow
from keras_attn.analysis.head_maps import sentence_maps
from keras_attn.analysis.heads import HeadScores, plot_heads, score_heads
from keras_attn.analysis.saving import save_figure
from keras_attn.analysis.shuffled_attention import ShuffledAttention
from keras_attn.analysis.trees import plot_trees

__all__ = [
    "BracketScores",
    "HeadScores",
    "ShuffledAttention",
    "bracket_scores",
    "crossings",
    "gradient_norms",
    "joined",
    "mass_on",
    "near_diagonal",
    "of_words",
    "plot_alignments",
    "plot_captions",
    "plot_cell_states",
    "plot_curves",
    "plot_gradient_flow",
    "plot_heads",
    "plot_trees",
    "save_figure",
    "score_heads",
    "sentence_maps",
    "states_over_time",
]
