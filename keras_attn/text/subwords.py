"""Text as subwords: byte-pair encoding learned by SentencePiece, applied inside the graph."""

import io
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_attn.errors import UserError
from keras_attn.text.special_tokens import END, NUMBER_OF_SPECIAL_TOKENS, PADDING, START, UNKNOWN

_SPECIAL_PIECES = {PADDING: "<pad>", START: "<s>", END: "</s>", UNKNOWN: "<unk>"}
_FIRST_LEARNED = NUMBER_OF_SPECIAL_TOKENS + 256  # the bytes stand between
_CHARACTER_COVERAGE = 0.99999
_LONGEST_LINE = 4192  # bytes; also SentencePiece's own limit


def learn_subwords(
    lines: Iterable[str | None],
    vocabulary_size: int,
    sample_lines: int = 1_000_000,
) -> bytes:
    """Learn a byte-pair encoding (BPE) and return it as a SentencePiece model.

    Every line is normalised (Unicode NFKC; single spaces, none at either end), cut into characters,
    and the most frequent pair of neighbours inside a word is joined into a new piece again and
    again until the vocabulary is full. Ids 0 to 3 are padding, start, end and unknown; the 256
    bytes follow, then the joined pieces in the order in which they were learned, then single
    characters. The rarest characters, 0.001 % of the text, get no piece of their own: they and
    whatever else is new are spelled in bytes, so that no text is unknown.

    The same lines give the same model, byte for byte. Memory is constant: of more than
    `sample_lines` lines a random sample of so many, always the same, is kept in one pass. Empty
    lines and lines of more than 4192 bytes teach nothing and are not counted.

    Args:
        lines: of text; read once. None stands for a line too long to be read, as in
            `keras_attn.data.aligned_text`.
        vocabulary_size: how many ids there are, special tokens and bytes included.
        sample_lines: how many lines are learned from at most.

    Raises:
        UserError: if SentencePiece is not installed, there is no line that is neither empty nor
            too long, or the text has too few different words or too many different characters for
            the vocabulary.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units";
    Kudo and Richardson 2018, "SentencePiece".

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.text import SubwordTokenizer, learn_subwords
        >>> model = learn_subwords(["a man and a dog", "a man and a woman"], 280)
        >>> pieces = SubwordTokenizer(model).split(tf.constant(["a man"]))
        >>> [piece.decode() for piece in pieces.flat_values.numpy()]
        ['▁a', '▁man']
    """
    model = learn_at_most_subwords(lines, vocabulary_size, sample_lines)
    reached = SubwordTokenizer(model).vocabulary_size
    if reached < vocabulary_size:
        raise UserError(
            f"The text allows a vocabulary of at most {reached} subwords, {vocabulary_size} were "
            "asked for; ask for fewer or give more text."
        )
    return model


def learn_at_most_subwords(
    lines: Iterable[str | None], vocabulary_size: int, sample_lines: int = 1_000_000
) -> bytes:
    """As `learn_subwords`, but of a text with too few different words a smaller vocabulary.

    Args:
        lines: of text; read once.
        vocabulary_size: how many ids there are at most, special tokens and bytes included.
        sample_lines: how many lines are learned from at most.

    Raises:
        UserError: if SentencePiece is not installed, there is no line to learn from, or the text
            has too many different characters for the vocabulary.

    Example:
        >>> from keras_attn.text.subwords import SubwordTokenizer, learn_at_most_subwords
        >>> model = learn_at_most_subwords(["a man and a dog"], 8_000)
        >>> SubwordTokenizer(model).vocabulary_size < 300
        True
    """
    sentencepiece = _import_sentencepiece()
    unused = Counter()
    sample, model = _sample(_useful(lines, unused), sample_lines), io.BytesIO()
    if not sample:
        raise UserError(_no_text(unused))
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=model,
            model_type="bpe",
            vocab_size=max(vocabulary_size, NUMBER_OF_SPECIAL_TOKENS),
            hard_vocab_limit=False,  # the size that was reached tells the largest one
            byte_fallback=True,
            character_coverage=_CHARACTER_COVERAGE,
            normalization_rule_name="nfkc",
            minloglevel=2,
            **_special_tokens(),
        )
    except RuntimeError as error:
        raise UserError(_explanation(str(error), vocabulary_size)) from error
    return model.getvalue()


class SubwordTokenizer:
    """Maps text to the ids of its subwords and back, inside a graph.

    Bytes that are not UTF-8 become U+FFFD first, as by `bytes.decode("utf-8", "replace")`; the rest
    is SentencePiece, ids and normalisation equal to those of the Python package. What comes back is
    the text in Unicode NFKC with single spaces and none at either end; nothing else is lost but
    "▁", which SentencePiece writes for a space and gives back as one. Needs `tensorflow_text` only.

    Args:
        model: what `learn_subwords` returned.

    Attributes:
        vocabulary_size: how many ids there are, special tokens and bytes included.
        merged: the pieces of several characters, in the order in which they were learned.

    Raises:
        UserError: if the bytes are no such model.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.text import SubwordTokenizer, learn_subwords
        >>> tokenizer = SubwordTokenizer(learn_subwords(["Two dogs run.", "Two dogs."], 280))
        >>> ids = tokenizer.tokenize(tf.constant(["Two dogs run."]))
        >>> tokenizer.detokenize(ids.to_tensor(), ids.row_lengths()).numpy()
        array([b'Two dogs run.'], dtype=object)
    """

    def __init__(self, model: bytes):
        self.model = model
        with tf.init_scope():
            try:
                self.vocabulary_size = int(self._sentencepiece().vocab_size())
                ids = tf.range(self.vocabulary_size)
                pieces = self._sentencepiece().id_to_string(ids).numpy()
            except (tf.errors.InvalidArgumentError, tf.errors.InternalError) as error:
                raise UserError(
                    f"These {len(model)} bytes are not a SentencePiece model; learn one again."
                ) from error
        _require_known_ids(pieces)
        learned = [piece.decode() for piece in pieces[_FIRST_LEARNED:]]
        self.merged = tuple(piece for piece in learned if len(piece) > 1)
        self._readable = np.array([_readable(piece) for piece in pieces], object)
        self._readable[: len(_SPECIAL_PIECES)] = b""

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The subwords of the texts, readable: (B,) strings -> (B, None) strings."""
        ids = self.tokenize(texts)
        return ids.with_values(tf.gather(self._readable, ids.values))

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The ids of the subwords, without start and end: (B,) strings -> (B, None) int32."""
        valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
        return self._sentencepiece().tokenize(valid)

    def detokenize(self, ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """The texts that the first `lengths` ids spell: (B, T), (B,) -> (B,) strings.

        Special tokens spell nothing; bytes that together are not UTF-8 spell U+FFFD.
        """
        ids = tf.cast(ids, tf.int32)
        real = tf.sequence_mask(lengths, tf.shape(ids)[1]) & (ids >= NUMBER_OF_SPECIAL_TOKENS)
        return self._sentencepiece().detokenize(tf.ragged.boolean_mask(ids, real))

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """What each id stands for, readable: (B, T) integers -> (B, T) strings.

        "▁" stands for the space before a word. A byte shows as its character if it is a visible one
        of ASCII, else as `<0xE2>`: a character spelled in several bytes has as many pieces.
        """
        return tf.where(ids == END, "</s>", tf.gather(self._readable, ids))

    def _sentencepiece(self) -> tf_text.SentencepieceTokenizer:
        """The operations, with the model as a node of the graph that is being built.

        One made once and kept would die with TensorFlow's cache of kernels, which setting the
        global seed empties; and a node needs no tracking by whoever saves the graph.
        """
        return tf_text.SentencepieceTokenizer(self.model)


def first_merges(model: bytes, count: int) -> list[tuple[str, str]]:
    """The first pairs of pieces that were joined, in the order in which they were learned.

    A model holds the joined pieces only; the pair is what the piece itself consists of by the
    merges before it.

    Args:
        model: what `learn_subwords` returned.
        count: how many; fewer come back if fewer were learned.

    Example:
        >>> from keras_attn.text import first_merges, learn_subwords
        >>> first_merges(learn_subwords(["ab ab ab"], 265), 1)
        [('a', 'b')]
    """
    rank: dict[str, int] = {}
    merges = []
    for piece in SubwordTokenizer(model).merged[:count]:
        merges.append(_last_pair(piece, rank))
        rank[piece] = len(rank)
    return merges


def _last_pair(piece: str, rank: dict[str, int]) -> tuple[str, str]:
    parts = list(piece)
    while len(parts) > 2:
        known = [
            (rank[left + right], at)
            for at, (left, right) in enumerate(itertools.pairwise(parts))
            if left + right in rank
        ]
        _, at = min(known)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0], parts[1]


def _useful(lines: Iterable[str | None], unused: Counter) -> Iterator[str]:
    """The lines that teach something; counts the others by what is wrong with them."""
    for line in lines:
        if line is None or len(line.encode()) > _LONGEST_LINE:
            unused["too long"] += 1
        elif not line.strip():
            unused["empty"] += 1
        else:
            yield line


def _sample(lines: Iterable[str], size: int) -> list[str]:
    """At most `size` of the lines, each as likely as any other, in one pass.

    SentencePiece would sample too, but otherwise in every process.
    """
    draw = random.Random(size).randrange
    sample: list[str] = []
    for number, line in enumerate(lines):
        if number < size:
            sample.append(line)
        elif (place := draw(number + 1)) < size:
            sample[place] = line
    return sample


def _no_text(unused: Counter) -> str:
    if not unused:
        return "There is no text to learn subwords from: not a single line; give text."
    return (
        f"There is no text to learn subwords from: of {unused.total()} lines {unused['empty']} "
        f"are empty and {unused['too long']} are longer than {_LONGEST_LINE} bytes, the most that "
        "is learned from; give a sentence a line."
    )


def _import_sentencepiece():
    try:
        import sentencepiece
    except ImportError as error:
        raise UserError(
            "Learning subwords needs the package sentencepiece; "
            'install it with pip install "keras-attn[translation]".'
        ) from error
    return sentencepiece


def _special_tokens() -> dict:
    names = {PADDING: "pad", START: "bos", END: "eos", UNKNOWN: "unk"}
    ids = {f"{name}_id": number for number, name in names.items()}
    pieces = {f"{name}_piece": _SPECIAL_PIECES[number] for number, name in names.items()}
    return ids | pieces


def _explanation(error: str, vocabulary_size: int) -> str:
    """One sentence about what SentencePiece complained of."""
    if "sentences_.empty" in error or "all_chars_count" in error:
        return (
            "There is no text to learn subwords from: the lines have nothing but white space and "
            "▁, which stands for it; give text."
        )
    if needed := re.search(r"required_chars\. \d+ vs (\d+)", error):
        return (
            f"The special tokens, bytes and characters of the text alone need a vocabulary of "
            f"{needed[1]} subwords, {vocabulary_size} were asked for; ask for more."
        )
    return f"SentencePiece cannot learn {vocabulary_size} subwords from this text: {error}"


def _require_known_ids(pieces: np.ndarray) -> None:
    expected = [_SPECIAL_PIECES[number] for number in range(NUMBER_OF_SPECIAL_TOKENS)]
    expected += [f"<0x{byte:02X}>" for byte in range(256)]
    if [piece.decode() for piece in pieces[:_FIRST_LEARNED]] != expected:
        raise UserError(
            "This SentencePiece model numbers its special tokens or bytes otherwise than "
            "keras_attn.text.learn_subwords; learn one with it."
        )


def _readable(piece: bytes) -> bytes:
    if byte := re.fullmatch(rb"<0x([0-9A-F]{2})>", piece):
        character = bytes([int(byte[1], 16)])
        return character if character.isascii() and character.decode().isprintable() else piece
    return piece
