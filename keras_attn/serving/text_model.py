"""Text in, text out: a sequence model with its tokenizers and its search, as graph functions."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_attn.decoding import greedy_search
from keras_attn.text import END, PADDING, START


class TextModel:
    """Joins a sequence model, two tokenizers and greedy search into functions of strings.

    Args:
        model: any model with the protocol `encode(inputs) -> memory`, `initial_state(memory) ->
            state` and `step(tokens, state) -> (logits, state, attention)`, which takes `source`
            ids and `source_lengths`.
        source_tokenizer, target_tokenizer: such as `keras_attn.text.CharacterTokenizer`.
        max_source_length: longer sources are cut after so many tokens.
        max_length: answers are cut after so many tokens, the end token included.

    Example:
        >>> text_model = TextModel(model, tokenizer, tokenizer, 64, 16)
        >>> text_model.translate(tf.constant(["3. März 1998"]))["text"]
        [b'1998-03-03']
    """

    def __init__(
        self, model, source_tokenizer, target_tokenizer, max_source_length: int, max_length: int
    ):
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.max_source_length = max_source_length
        self.max_length = max_length
        text = tf.TensorSpec([None], tf.string, name="text")
        self.translate = tf.function(self._translate, input_signature=[text])
        self.align = tf.function(self._align, input_signature=[text])

    @property
    def variables(self) -> list[tf.Variable]:
        """The TensorFlow variables that the functions read."""
        return [variable.value for variable in self.model.variables]

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """What an exported model answers: `serving_default` and `attention`."""
        return {"serving_default": self.translate, "attention": self.align}

    def answer(self, texts: Iterable[str], batch_size: int = 64) -> Iterator[str]:
        """The answer to each text, in order; as many texts are read ahead as a batch holds."""
        texts = iter(texts)
        while batch := list(itertools.islice(texts, batch_size)):
            for answer in self.translate(tf.constant(batch))["text"].numpy():
                yield answer.decode()

    def alignments(self, texts: Sequence[str]) -> list[tuple[list[str], list[str], np.ndarray]]:
        """For each text the tokens of both sides and the alignment (T, S), without padding."""
        found = {name: value.numpy() for name, value in self.align(tf.constant(texts)).items()}
        examples = []
        for row in range(len(texts)):
            source_length, target_length = (
                found["source_lengths"][row],
                found["target_lengths"][row],
            )
            examples.append(
                (
                    [token.decode() for token in found["source_tokens"][row, :source_length]],
                    [token.decode() for token in found["target_tokens"][row, :target_length]],
                    found["alignment"][row, :target_length, :source_length],
                )
            )
        return examples

    def _translate(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        hypotheses = self._search(*self._source_ids(text))
        return {
            "text": self._spell(hypotheses),
            "score": hypotheses.scores[:, 0],
        }

    def _align(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The tokens of both sides, the end token included, and the alignment (B, T, S)."""
        ids, lengths = self._source_ids(text)
        hypotheses = self._search(ids, lengths)
        target_lengths = hypotheses.lengths[:, 0]  # (B,)
        longest = tf.reduce_max(tf.concat([target_lengths, [0]], axis=0))
        real = tf.sequence_mask(target_lengths, longest)  # (B, T)
        pieces = self.target_tokenizer.pieces(hypotheses.tokens[:, 0, :longest])
        alignment = hypotheses.attention[:, 0, :longest]  # (B, T, S)
        return {
            "source_tokens": self._source_pieces(text, lengths, tf.shape(ids)[1]),
            "source_lengths": lengths,
            "target_tokens": tf.where(real, pieces, ""),
            "target_lengths": target_lengths,
            "alignment": tf.where(real[:, :, None], alignment, 0.0),
        }

    def _source_ids(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Ids with the end token, padded (B, S), and their lengths (B,); S is at least 1."""
        tokens = self.source_tokenizer.tokenize(text)[:, : self.max_source_length]
        lengths = tf.cast(tokens.row_lengths(), tf.int32) + 1
        width = tf.reduce_max(tf.concat([lengths, [1]], axis=0))
        ids = tokens.to_tensor(PADDING, shape=[None, None])
        ids = tf.pad(ids, [[0, 0], [0, width - tf.shape(ids)[1]]], constant_values=PADDING)
        return tf.where(tf.range(width) == lengths[:, None] - 1, END, ids), lengths

    def _source_pieces(self, text: tf.Tensor, lengths: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        pieces = self.source_tokenizer.split(text)[:, : self.max_source_length]
        pieces = pieces.to_tensor("", shape=[None, None])
        pieces = tf.pad(pieces, [[0, 0], [0, width - tf.shape(pieces)[1]]], constant_values="")
        return tf.where(tf.range(width) == lengths[:, None] - 1, "</s>", pieces)

    def _search(self, ids: tf.Tensor, lengths: tf.Tensor):
        memory = self.model.encode({"source": ids, "source_lengths": lengths})
        state = self.model.initial_state(memory)
        return greedy_search(
            self.model.step,
            state,
            batch_size=tf.shape(ids)[0],
            start_id=START,
            end_id=END,
            max_length=self.max_length,
        )

    def _spell(self, hypotheses) -> tf.Tensor:
        return self.target_tokenizer.detokenize(hypotheses.tokens[:, 0], hypotheses.lengths[:, 0])
