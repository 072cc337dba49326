"""Image in, caption and maps out: a captioner with its tokenizer and search, as graph functions."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_attn.data.pictures import decoded, read_picture
from keras_attn.protocols import SequenceModel, Tokenizer
from keras_attn.serving.answers import Answer, Search
from keras_attn.serving.searching import require_search, searched
from keras_attn.text import END, START

_GREEDY = Search()


class Caption(NamedTuple):
    """What a captioner said of an image, and where it looked.

    Attributes:
        image: (height, width, channels), in [0, 1].
        words: T tokens, the end token included.
        maps: (T, h, w), the attention weights while each was written.
    """

    image: np.ndarray
    words: list[str]
    maps: np.ndarray


class CaptionModel:
    """Joins a captioner, a tokenizer and a search into functions of images.

    What it says of an image is a dict:

    - `caption` (B,) and its `score` (B,), as `TextModel` has them; with several answers also
      `captions` and `scores` (B, n), best first;
    - `words` (B, T), the tokens of the caption with the end token, and how many they are, `lengths`
      (B,); behind them are empty strings;
    - `maps` (B, T, h, w), the attention weights while each word was written, 0 behind them.

    Args:
        model: a `keras_attn.protocols.SequenceModel` of images that `SupportsGrid`, such as
            `models.ShowAttendTell`.
        tokenizer: a `keras_attn.protocols.Tokenizer`.
        max_length: captions are cut after so many tokens, the end token included.
        search: how the tokens are found.
        read: from a line that a person types to an image (height, width, channels); by default the
            line is the path of a picture.

    Raises:
        ValueError: a search that makes no sense.

    Example:
        >>> import tensorflow as tf
        >>> from keras_attn.models import ShowAttendTell
        >>> from keras_attn.serving import CaptionModel
        >>> from keras_attn.text import PieceTokenizer
        >>> tokenizer = PieceTokenizer(["three", "above", "seven"])
        >>> model = ShowAttendTell(tokenizer.vocabulary_size, (16, 16, 1), embedding_dim=8,
        ...                        decoder_units=8, attention_units=8, filters=(4, 4))
        >>> told = CaptionModel(model, tokenizer, max_length=5).describe(tf.zeros([2, 16, 16, 1]))
        >>> tuple(told["caption"].shape), tuple(told["maps"].shape[2:])
        ((2,), (4, 4))
    """

    def __init__(
        self,
        model: SequenceModel,
        tokenizer: Tokenizer,
        max_length: int,
        search: Search = _GREEDY,
        read: Callable[[str], np.ndarray] | None = None,
    ):
        require_search(search)
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.search = search
        self.image_shape = tuple(model.image_shape)
        self._read = read or (lambda line: read_picture(line, self.image_shape))
        images = tf.TensorSpec([None, *self.image_shape], tf.float32, name="images")
        encoded = tf.TensorSpec([None], tf.string, name="image_bytes")
        self.describe = tf.function(self._describe, input_signature=[images])
        self.describe_encoded = tf.function(self._describe_encoded, input_signature=[encoded])

    def with_search(self, search: Search) -> "CaptionModel":
        """The same model with the search that is asked for.

        Raises:
            ValueError: if it makes no sense.
        """
        return CaptionModel(self.model, self.tokenizer, self.max_length, search, self._read)

    @property
    def resources(self) -> list:
        """What the functions read and an export must keep."""
        variables = [variable.value for variable in self.model.variables]
        return [*variables, *([self.tokenizer] if isinstance(self.tokenizer, tf.Module) else [])]

    def signatures(self) -> dict[str, Callable]:
        """What an exported model answers.

        `serving_default` takes `image_bytes` (B,), PNG or JPEG files that are decoded and resized
        in the graph, in JSON `{"b64": ...}`; `pixels` takes `images` (B, height, width, channels)
        in [0, 1]. A model of other than 1 or 3 channels has `pixels` alone, as the default too.
        """
        if self.image_shape[-1] not in (1, 3):
            return {"serving_default": self.describe, "pixels": self.describe}
        return {"serving_default": self.describe_encoded, "pixels": self.describe}

    def warmup_requests(self) -> list[tuple[str, dict]]:
        """A request for every signature, for a server to trace before people ask."""
        image = np.zeros(self.image_shape, np.float32)
        pixels = {"images": image[None]}
        if self.image_shape[-1] not in (1, 3):
            return [("serving_default", pixels), ("pixels", pixels)]
        png = tf.io.encode_png(image.astype(np.uint8)).numpy()
        encoded = {"image_bytes": np.array([png], object)}
        return [("serving_default", encoded), ("pixels", pixels)]

    def warm_up(self) -> None:
        """Compile what answers."""
        self.describe(tf.zeros([1, *self.image_shape]))

    def answer(self, texts: Iterable[str | bytes], batch_size: int = 64) -> Iterator[str]:
        """The caption of each picture, in order; nothing is answered with nothing."""
        texts = iter(texts)
        while batch := list(itertools.islice(texts, batch_size)):
            yield from (answer.texts[0] for answer in self.answers(batch))

    def answers(self, texts: Sequence[str | bytes]) -> list[Answer]:
        """The captions of a batch of pictures with their scores, best first.

        Raises:
            UserError: a picture that cannot be read.
        """
        lines = [_line(text) for text in texts]
        pictures = [self._read(line) for line in lines if line]
        found = iter(self._of_pictures(pictures))
        return [next(found) if line else Answer(("",), (0.0,)) for line in lines]

    def captions(self, texts: Sequence[str | bytes]) -> list[Caption]:
        """What is said of each picture, word for word, and the map of each word.

        Raises:
            UserError: a picture that cannot be read.
        """
        images = [self._read(_line(text)) for text in texts]
        if not images:
            return []
        told = {name: value.numpy() for name, value in self.describe(np.stack(images)).items()}
        return [
            Caption(image, [word.decode() for word in words[:length]], maps[:length])
            for image, words, maps, length in zip(
                images, told["words"], told["maps"], told["lengths"], strict=True
            )
        ]

    def _of_pictures(self, images: list[np.ndarray]) -> list[Answer]:
        if not images:
            return []
        told = {name: value.numpy() for name, value in self.describe(np.stack(images)).items()}
        captions = told.get("captions", told["caption"][:, None])  # (B, n)
        scores = told.get("scores", told["score"][:, None])
        return [_answer(*row) for row in zip(captions, scores, strict=True)]

    def _describe(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        state = self.model.initial_state(self.model.encode({"images": images}))
        call = {
            "step": self.model.step,
            "state": state,
            "batch_size": tf.shape(images)[0],
            "start_id": START,
            "end_id": END,
            "max_length": self.max_length,
        }
        found = searched(self.search, call)
        captions = self._spell(found)  # (B, n)
        told = {"caption": captions[:, 0], "score": found.scores[:, 0], **self._looks(found)}
        if captions.shape[1] == 1:
            return told
        return {**told, "captions": captions, "scores": found.scores}

    def _describe_encoded(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        # The function, not its body: a SavedModel holds the graph of the search once.
        return self.describe(decoded(image_bytes, self.image_shape))

    def _looks(self, found) -> dict[str, tf.Tensor]:
        """The words of the best captions, and their maps."""
        lengths = found.lengths[:, 0]  # (B,)
        longest = tf.reduce_max(tf.concat([lengths, [0]], axis=0))
        real = tf.sequence_mask(lengths, longest)  # (B, T)
        maps = tf.where(real[..., None], found.attention[:, 0, :longest], 0.0)  # (B, T, L)
        shape = [tf.shape(lengths)[0], longest, *self.model.grid]
        words = self.tokenizer.pieces(found.tokens[:, 0, :longest])
        return {
            "words": tf.where(real, words, ""),
            "lengths": lengths,
            "maps": tf.reshape(maps, shape),
        }

    def _spell(self, found) -> tf.Tensor:
        """The texts of all hypotheses: (B, n)."""
        tokens, lengths = found.tokens, found.lengths
        rows = tf.reshape(tokens, [tf.size(lengths), tf.shape(tokens)[2]])  # (B n, L)
        texts = self.tokenizer.detokenize(rows, tf.reshape(lengths, [-1]))
        return tf.reshape(texts, [tf.shape(lengths)[0], lengths.shape[1]])


def _line(text: str | bytes) -> str:
    return (text.decode(errors="surrogateescape") if isinstance(text, bytes) else text).strip()


def _answer(texts: np.ndarray, scores: np.ndarray) -> Answer:
    """Texts and scores (n,) of one image; slots without a hypothesis are left out."""
    kept = [row for row in range(len(texts)) if row == 0 or scores[row] > -np.inf]
    return Answer(
        tuple(texts[row].decode() for row in kept), tuple(float(scores[row]) for row in kept)
    )
