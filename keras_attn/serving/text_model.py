"""Text in, text out: a sequence model with its tokenizers and its search, as graph functions."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_attn.decoding import arguments, beam_search, greedy_search, sample
from keras_attn.decoding.hypotheses import Hypotheses
from keras_attn.errors import UserError
from keras_attn.protocols import SequenceModel, SupportsAlignment, SupportsMaxLength, Tokenizer
from keras_attn.serving.answers import Answer, Search
from keras_attn.text import END, PADDING, START

SIGNATURES = ("serving_default", "bounded", "attention", "tokens")


class TextModel:
    """Joins a sequence model, two tokenizers and a search into functions of strings.

    With a beam, `text` and `score` are those of the best hypothesis, and `texts` and `scores`
    (B, n) those of the `n_best` ones, best first; a slot without a hypothesis has an empty text and
    score -inf. The score of greedy search is the log-probability of the answer, that of a beam
    `keras_attn.decoding.length_penalty` of it. A text without a token has the empty answer, of
    score 0: nothing is answered with nothing.

    Args:
        model: any `keras_attn.protocols.SequenceModel` that takes `source` ids and
            `source_lengths`. If it can write only so many tokens, it says so in an attribute
            `max_length` (`SupportsMaxLength`).
        source_tokenizer, target_tokenizer: each a `keras_attn.protocols.Tokenizer`, such as
            `keras_attn.text.CharacterTokenizer`.
        max_source_length: longer sources are cut after so many tokens.
        max_length: answers are cut after so many tokens, the end token included.
        beam_width: hypotheses kept at every step; 1 is greedy search.
        length_penalty: alpha of the beam's scores.
        n_best: how many answers a beam returns; by default `beam_width`.
        exported: names of the signatures that an export has; by default all. A model without
            attention, which says so (`SupportsAlignment`), has no `attention`.
        end_rule: whether a beam prefers answers with an end, "finished", or lets those that are cut
            after `max_length` tokens compete with them, "running".
        coverage_penalty: beta of the beam's scores.
        drawn: if given, tokens are drawn as it says instead of searched, `n_best` answers to each
            text; it must have a temperature.

    Raises:
        ValueError: if the width is below 1, `n_best` not between 1 and the width, the length
            penalty no finite number, the end rule unknown, one of the two given without a beam, a
            signature unknown, or the answers longer than the model can write; if tokens are to be
            drawn and searched by a beam.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.serving import TextModel
        >>> from keras_attn.models import RNNSearch
        >>> from keras_attn.text import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer("0123456789-")
        >>> sizes = {f"{name}_units": 8 for name in ("encoder", "decoder", "attention", "readout")}
        >>> size = tokenizer.vocabulary_size
        >>> model = RNNSearch(size, size, embedding_dim=8, **sizes)
        >>> text_model = TextModel(model, tokenizer, tokenizer, 64, 16)
        >>> sorted(text_model.translate(tf.constant(["1998-03-03"])))
        ['score', 'text']
    """

    def __init__(
        self,
        model: SequenceModel,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        max_source_length: int,
        max_length: int,
        beam_width: int = 1,
        length_penalty: float = 0.0,
        n_best: int | None = None,
        exported: Sequence[str] = SIGNATURES,
        end_rule: str = "finished",
        *,
        coverage_penalty: float = 0.0,
        drawn: Search | None = None,
    ):
        _check_signatures(exported)
        _check_room(model, max_length)
        self.model = model
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.max_source_length = max_source_length
        self.max_length = max_length
        self.aligns = model.aligns if isinstance(model, SupportsAlignment) else True
        self.exported = tuple(name for name in exported if self.aligns or name != "attention")
        self.beam_width = arguments.static_integer_at_least(beam_width, 1, "beam_width")
        self.length_penalty = arguments.number(length_penalty, "length_penalty")
        self.coverage_penalty = arguments.number(coverage_penalty, "coverage_penalty", minimum=0)
        n_best = self.beam_width if n_best is None else n_best
        self.n_best = arguments.static_integer_at_least(n_best, 1, "n_best")
        self.end_rule = arguments.end_rule(end_rule)
        self.drawn = drawn
        _check_search(self)
        text = tf.TensorSpec([None], tf.string, name="text")
        ids = tf.TensorSpec([None, None], tf.int32, name="ids")
        lengths = tf.TensorSpec([None], tf.int32, name="lengths")
        self.translate = tf.function(self._translate, input_signature=[text])
        self.align = tf.function(self._align, input_signature=[text])
        self.translate_tokens = tf.function(self._translate_tokens, input_signature=[ids, lengths])

        # The default value becomes that of the exported signature.
        def translate_bounded(text, max_length=tf.constant(max_length, tf.int32)):  # noqa: B008
            return self._translate_bounded(text, max_length)

        # One function that all others call: a SavedModel holds the graph of the search once.
        limits = tf.TensorSpec([None], tf.int32, name="limits")
        self._search = tf.function(self._search_ids, input_signature=[ids, lengths, limits])
        limit = tf.TensorSpec(None, tf.int32, name="max_length")
        self.translate_bounded = tf.function(translate_bounded, input_signature=[text, limit])

    def with_beam(
        self,
        beam_width: int,
        length_penalty: float = 0.0,
        n_best: int | None = None,
        end_rule: str = "finished",
    ) -> "TextModel":
        """The same model with another search."""
        return self.with_search(
            Search(beam_width, length_penalty, n_best=n_best, end_rule=end_rule)
        )

    def with_search(self, search: Search) -> "TextModel":
        """The same model with the search that is asked for.

        Raises:
            ValueError: if it cannot be honoured, as by the constructor.
            UserError: if only trees may be written: that is for models of trees.
        """
        if search.well_formed:
            raise UserError(
                "This model writes text and no trees, whose form could be kept; leave "
                "--well-formed out."
            )
        return TextModel(
            self.model,
            self.source_tokenizer,
            self.target_tokenizer,
            self.max_source_length,
            self.max_length,
            search.beam_width,
            search.length_penalty,
            search.n_best,
            self.exported,
            search.end_rule,
            coverage_penalty=search.coverage_penalty,
            drawn=None if search.temperature is None else search,
        )

    @property
    def resources(self) -> list:
        """What the functions read and an export must keep: variables and tokenizers."""
        variables = [variable.value for variable in self.model.variables]
        tokenizers = (self.source_tokenizer, self.target_tokenizer)
        return variables + [each for each in tokenizers if isinstance(each, tf.Module)]

    def signatures(self) -> dict[str, tf.types.experimental.PolymorphicFunction]:
        """What an exported model answers: those of `SIGNATURES` that are `exported`.

        `bounded` is `serving_default` with a second input `max_length`, a scalar or (B,), that cuts
        the answers earlier than the model would. It has a default value, but is a signature of its
        own: TensorFlow Serving fills defaults in for gRPC only, its REST interface and the loaded
        functions of TensorFlow insist on every input, and would refuse a bare text.
        """
        functions = {
            "serving_default": self.translate,
            "bounded": self.translate_bounded,
            "attention": self.align,
            "tokens": self.translate_tokens,
        }
        return {name: functions[name] for name in self.exported}

    def warmup_requests(self) -> list[tuple[str, dict]]:
        """A request for every signature, for a server to trace before people ask."""
        text = np.array(["warm up"], object)
        tokens = {"ids": np.full([1, 2], END, np.int32), "lengths": np.array([1], np.int32)}
        requests = {
            "serving_default": {"text": text},
            "bounded": {"text": text, "max_length": np.int32(self.max_length)},
            "attention": {"text": text},
            "tokens": tokens,
        }
        return [(name, requests[name]) for name in self.exported]

    def warm_up(self) -> None:
        """Compile what answers texts."""
        self.translate_bounded(tf.constant(["warm up"]), 1)

    def answer(self, texts: Iterable[str | bytes], batch_size: int = 64) -> Iterator[str]:
        """The answer to each text, in order; as many texts are read ahead as a batch holds."""
        texts = iter(texts)
        while batch := list(itertools.islice(texts, batch_size)):
            for answer in self.translate(tf.constant(batch))["text"].numpy():
                yield answer.decode()

    def answers(self, texts: Sequence[str | bytes]) -> list[Answer]:
        """The answers to a batch of texts with their scores, the `n_best` of each."""
        batch = tf.constant(texts, tf.string)
        found = {name: value.numpy() for name, value in self.translate(batch).items()}
        lengths = self.source_tokenizer.tokenize(batch).row_lengths().numpy()
        texts = found.get("texts", found["text"][:, None])  # (B, n)
        scores = found.get("scores", found["score"][:, None])
        return [
            Answer.of(*row, is_cut=length > self.max_source_length)
            for *row, length in zip(texts, scores, lengths, strict=True)
        ]

    def alignments(
        self, texts: Sequence[str | bytes]
    ) -> list[tuple[list[str], list[str], np.ndarray]]:
        """For each text the tokens of both sides and the alignment (T, S), without padding."""
        if not self.aligns:
            raise ValueError(
                "A model without attention aligns nothing: ask one that attends. "
                f"Received: model={type(self.model).__name__}"
            )
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
        return self._translate_bounded(text, self.max_length)

    def _translate_bounded(self, text: tf.Tensor, max_length: tf.Tensor) -> dict[str, tf.Tensor]:
        # Each answer has its own limit, at most the model's: (B,)
        limits = tf.minimum(tf.broadcast_to(max_length, tf.shape(text)), self.max_length)
        hypotheses = self._search(*self._source_ids(text), limits)
        texts = self._spell(hypotheses)  # (B, n)
        best = {"text": texts[:, 0], "score": hypotheses.scores[:, 0]}
        if self.beam_width == 1 and self.n_best == 1:
            return best
        return {**best, "texts": texts, "scores": hypotheses.scores}

    def _align(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The tokens of both sides, the end token included, and the alignment (B, T, S)."""
        ids, lengths = self._source_ids(text)
        hypotheses = self._search(ids, lengths, self._longest(lengths))
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
        ended = _ended(ids[:, : self.max_source_length], kept)
        hypotheses = self._search(*ended, self._longest(lengths))
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

    def _longest(self, lengths: tf.Tensor) -> tf.Tensor:
        """The model's own limit for each answer: (B,)."""
        return tf.fill(tf.shape(lengths), self.max_length)

    def _search_ids(self, ids: tf.Tensor, lengths: tf.Tensor, limits: tf.Tensor) -> Hypotheses:
        memory = self.model.encode({"source": ids, "source_lengths": lengths})
        call = {
            "step": self.model.step,
            "state": self.model.initial_state(memory),
            "batch_size": tf.shape(ids)[0],
            "start_id": START,
            "end_id": END,
            "max_length": limits,
        }
        return _nothing_where(lengths == 1, self._searched(call, lengths))

    def _searched(self, call: dict, lengths: tf.Tensor) -> Hypotheses:
        if self.drawn is not None:
            options = {name: getattr(self.drawn, name) for name in _DRAWN}
            return sample(**call, **options, n_best=self.n_best)
        if self.beam_width == 1:
            return greedy_search(**call)
        covered = {}
        if self.coverage_penalty:
            covered = {
                "coverage_penalty": self.coverage_penalty,
                "source_mask": tf.sequence_mask(lengths),  # (B, S)
            }
        return beam_search(
            **call,
            beam_width=self.beam_width,
            length_penalty=self.length_penalty,
            n_best=self.n_best,
            end_rule=self.end_rule,
            **covered,
        )

    def _spell(self, hypotheses) -> tf.Tensor:
        """The texts of all hypotheses: (B, n)."""
        tokens, lengths = hypotheses.tokens, hypotheses.lengths
        rows = tf.reshape(tokens, [-1, tf.shape(tokens)[2]])  # (B n, L)
        texts = self.target_tokenizer.detokenize(rows, tf.reshape(lengths, [-1]))
        return tf.reshape(texts, [tf.shape(lengths)[0], lengths.shape[1]])


def _check_room(model: SequenceModel, max_length: int) -> None:
    if isinstance(model, SupportsMaxLength) and max_length > model.max_length:
        raise ValueError(
            f"The model can write {model.max_length} tokens at most: answers cannot be longer, "
            "give a smaller `max_length` or build the model with a larger one. "
            f"Received: max_length={max_length}"
        )


def _check_signatures(names: Sequence[str]) -> None:
    if not names or not set(names) <= set(SIGNATURES):
        raise ValueError(
            f"The exported signatures are some of {SIGNATURES}. Received: exported={names!r}"
        )


_DRAWN = ("temperature", "top_k", "top_p", "seed")


def _check_search(model: TextModel) -> None:
    if model.drawn is not None:
        if model.beam_width > 1:
            raise ValueError(
                "Tokens are drawn, or a beam searches for them, not both: leave the temperature or "
                f"the width out. Received: beam_width={model.beam_width}, "
                f"temperature={model.drawn.temperature}"
            )
        return
    if model.n_best > model.beam_width:
        raise ValueError(
            f"n_best must not exceed beam_width={model.beam_width}. Received: n_best={model.n_best}"
        )
    for name in ("length_penalty", "coverage_penalty"):
        if model.beam_width == 1 and getattr(model, name) != 0:
            raise ValueError(
                f"A {name.replace('_', ' ')} needs a beam, of a width of at least 2. "
                f"Received: {name}={getattr(model, name)}, beam_width=1"
            )
    if model.beam_width == 1 and model.end_rule == "running":
        raise ValueError(
            "Greedy search has one answer, which competes with no other: an end rule needs a beam, "
            f"of a width of at least 2. Received: end_rule={model.end_rule!r}, beam_width=1"
        )


def _nothing_where(is_empty: tf.Tensor, found: Hypotheses) -> Hypotheses:
    """The end token alone, of probability 1, for the examples (B,) that have nothing to read."""
    first = tf.range(tf.shape(found.lengths)[1])[None] == 0  # (1, W)
    row, rows = is_empty[:, None], is_empty[:, None, None]
    scores = tf.where(first, 0.0, -np.inf)
    return found._replace(
        tokens=tf.where(rows, END, found.tokens),
        lengths=tf.where(row, tf.cast(first, tf.int32), found.lengths),
        scores=tf.where(row, scores, found.scores),
        log_probabilities=tf.where(row, scores, found.log_probabilities),
        token_log_probabilities=tf.where(rows, 0.0, found.token_log_probabilities),
    )


def _ended(ids: tf.Tensor, lengths: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Put the end token behind the first `lengths` ids: (B, S), (B,) -> (B, S'), (B,).

    S' is the longest length with its end token, 1 at least.
    """
    width = tf.reduce_max(tf.concat([lengths, [0]], axis=0)) + 1
    ids = tf.pad(ids, [[0, 0], [0, 1]])[:, :width]
    place = tf.range(width)
    ids = tf.where(place < lengths[:, None], ids, PADDING)
    return tf.where(place == lengths[:, None], END, ids), lengths + 1
