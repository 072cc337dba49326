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
        ids = tf.TensorSpec([None, None], tf.int32, name="ids")
        lengths = tf.TensorSpec([None], tf.int32, name="lengths")
        self.translate = tf.function(self._translate, input_signature=[text])
        self.align = tf.function(self._align, input_signature=[text])
        self.translate_tokens = tf.function(self._translate_tokens, input_signature=[ids, lengths])

    @property
    def resources(self) -> list:
        """What the functions read and an export must keep: variables and tokenizers."""
        variables = [variable.value for variable in self.model.variables]
        tokenizers = (self.source_tokenizer, self.target_tokenizer)
        return variables + [each for each in tokenizers if isinstance(each, tf.Module)]

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """What an exported model answers: `serving_default`, `attention` and `tokens`."""
        return {
            "serving_default": self.translate,
            "attention": self.align,
            "tokens": self.translate_tokens,
        }

    def warmup_requests(self) -> list[tuple[str, dict]]:
        """A request for every signature, for a server to trace before people ask."""
        text = np.array(["warm up"], object)
        tokens = {"ids": np.full([1, 2], END, np.int32), "lengths": np.array([1], np.int32)}
        return [
            ("serving_default", {"text": text}),
            ("attention", {"text": text}),
            ("tokens", tokens),
        ]

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

    def _translate_tokens(self, ids: tf.Tensor, lengths: tf.Tensor) -> dict[str, tf.Tensor]:
        """Ids without start and end tokens to such ids: (B, S), (B,) -> (B, T), (B,), (B,)."""
        fits = tf.reduce_all((lengths >= 0) & (lengths <= tf.shape(ids)[1]))
        message = "lengths must lie between 0 and the number of columns of ids"
        with tf.control_dependencies([tf.debugging.Assert(fits, [message, lengths])]):
            kept = tf.minimum(lengths, self.max_source_length)
        hypotheses = self._search(*_ended(ids[:, : self.max_source_length], kept))
        found, found_lengths = hypotheses.tokens[:, 0], hypotheses.lengths[:, 0]
        real = tf.sequence_mask(found_lengths, tf.shape(found)[1]) & (found != END)  # (B, L)
        found_lengths = tf.reduce_sum(tf.cast(real, tf.int32), axis=1)
        longest = tf.reduce_max(tf.concat([found_lengths, [0]], axis=0))
        return {
            "ids": tf.where(real, found, PADDING)[:, :longest],
            "lengths": found_lengths,
            "score": hypotheses.scores[:, 0],
        }

    def _source_ids(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Ids with the end token, padded (B, S), and their lengths (B,); S is at least 1."""
        tokens = self.source_tokenizer.tokenize(text)[:, : self.max_source_length]
        ids = tokens.to_tensor(PADDING, shape=[None, None])
        return _ended(ids, tf.cast(tokens.row_lengths(), tf.int32))

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


def _ended(ids: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Put the end token behind the first `lengths` ids: (B, S), (B,) -> (B, S'), (B,).

    S' is the longest length with its end token, 1 at least.
    """
    width = tf.reduce_max(tf.concat([lengths, [0]], axis=0)) + 1
    ids = tf.pad(ids, [[0, 0], [0, 1]])[:, :width]
    place = tf.range(width)
    ids = tf.where(place < lengths[:, None], ids, PADDING)
    return tf.where(place == lengths[:, None], END, ids), lengths + 1
