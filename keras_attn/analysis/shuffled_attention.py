"""A control: a trained model that looks where it wants to and gets what stands elsewhere."""

import tensorflow as tf


class ShuffledAttention:
    """A sequence model whose attention weights fall on the wrong positions of the memory.

    In place of the context `c_t = sum_j a_tj h_j` it reads `sum_j a_tj h_p(j)`, with a permutation
    p of the real positions of each example. All else is the model's: its weights, its first state,
    and the alignments that it reports. What it still does right it does without looking.

    Args:
        model: with the protocol `encode`, `initial_state`, `step`, whose memory is a dict with
            `annotations` (B, S, m) and `mask` (B, S), such as `models.RNNSearch`.
        seed: of the permutations.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.analysis import ShuffledAttention
        >>> from keras_attn.models import RNNSearch
        >>> sizes = {f"{name}_units": 8 for name in ("encoder", "decoder", "attention", "readout")}
        >>> model = RNNSearch(20, 20, embedding_dim=8, **sizes)
        >>> shuffled = ShuffledAttention(model, seed=1)
        >>> source = {"source": tf.constant([[4, 5, 6]]), "source_lengths": tf.constant([3])}
        >>> state = shuffled.initial_state(shuffled.encode(source))
        >>> logits, state, attention = shuffled.step(tf.constant([1]), state)
        >>> tuple(logits.shape), tuple(attention.shape)
        ((1, 20), (1, 3))
    """

    def __init__(self, model, seed: int = 1):
        self.model = model
        self.encode = model.encode
        self.step = model.step
        self._seed = seed

    @property
    def variables(self) -> list:
        return self.model.variables

    def initial_state(self, memory: dict) -> dict:
        """The model's own first state, with the annotations of the memory permuted behind it."""
        state = self.model.initial_state(memory)
        annotations = shuffled_positions(memory["annotations"], memory["mask"], self._seed)
        return {**state, "memory": {**memory, "annotations": annotations}}


def shuffled_positions(values, mask, seed: int):
    """The real positions of each example in a random order: (B, S, m), (B, S) -> (B, S, m)."""
    draws = tf.random.stateless_uniform(tf.shape(mask), [seed, 0])
    order = tf.argsort(tf.where(mask, draws, 2.0), axis=1)  # the padding stays behind
    return tf.gather(values, order, axis=1, batch_dims=1)
