"""grammar: a sentence in, its tree in brackets out."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

import keras

from keras_attn.analysis.bracket_scores import bracket_scores
from keras_attn.analysis.trees import plot_trees
from keras_attn.counted import counter
from keras_attn.data.bracketed_trees import Tree, linearised, parse_tree
from keras_attn.data.fixed_shapes import with_fixed_shapes
from keras_attn.data.pair_store import PairStore, write_pair_store
from keras_attn.data.seekable import SeekableBatches
from keras_attn.data.token_batches import token_batches
from keras_attn.errors import UserError
from keras_attn.models import LSTMParser, RNNEncoderDecoder
from keras_attn.recipes.grammar_settings import GrammarSettings
from keras_attn.recipes.settings import made
from keras_attn.recipes.tree_corpus import TreeCorpus
from keras_attn.serving.tree_model import (
    TreeModel,
    WrittenTree,
    bracket_tokens,
    label_tokenizer,
)
from keras_attn.text import WordTokenizer, learn_words
from keras_attn.text.bracket_repair import REPAIRS
from keras_attn.training import (
    NO_LIMITS,
    Budget,
    RunDirectory,
    ValidationLimits,
    projected_token_objective,
    warmed_up_then_linear,
)

VOCABULARY_FILE = "vocabulary.json"
PAIRS_FILE = "pairs.bin"
_FIXED_LENGTHS = (16, 32, 48, 64, 96, 128, 192)


class Grammar:
    """LSTMs that write the tree of a sentence as a foreign language.

    A tree is written without its words, as `data.bracketed_trees.linearised` says: labels that
    open and close brackets, and a tag for each word, which is `XX` but for punctuation. Rare words
    are known by a class.

    Args:
        settings: those of `GrammarSettings`, by name.

    Raises:
        UserError: an unknown setting, a number out of its bounds, or files that do not go together.

    Reference:
        Vinyals et al. 2015, "Grammar as a Foreign Language", https://arxiv.org/abs/1412.7449
    """

    name = "grammar"
    budget = Budget(minutes=GrammarSettings.default_minutes)
    prepared_files = (VOCABULARY_FILE, PAIRS_FILE)
    vocabulary_files = (VOCABULARY_FILE,)
    samples = (
        "John has a dog .",
        "The company said it will sell its stake in the bank next year .",
        "She knows that the man who lives here has never seen the sea .",
    )

    def __init__(self, **settings):
        own = made(GrammarSettings, settings, "The recipe grammar")
        if own.max_tokens < own.max_words + 3:
            raise UserError(
                "A tree has three tokens more than its sentence has words: --max-tokens must be "
                f"at least {own.max_words + 3}, or --max-words smaller. "
                f"Received: {own.max_tokens}."
            )
        self.settings = asdict(own)
        self.clip_norm = own.clip_norm
        self.validations = own.validations
        self.averaged = own.averaged
        self._settings = own
        self._corpus = TreeCorpus(own.trees, own.validation_trees, own.test_trees)
        self.test_data = self._corpus.test_data
        self._rate = warmed_up_then_linear(own.learning_rate, own.warmup_steps)

    def packages(self, run: RunDirectory) -> Sequence[str]:
        return ()

    def prepare(self, run: RunDirectory) -> None:
        """Learn words and labels and tokenise the trees, once for a run."""
        self._corpus.validation()  # refused before it is needed
        if run.has(VOCABULARY_FILE) and run.has(PAIRS_FILE):
            return
        trees = list(self._corpus.training())
        if not run.has(VOCABULARY_FILE):
            run.write_json(VOCABULARY_FILE, self._vocabulary(trees))
        counts = write_pair_store(
            run.path / PAIRS_FILE,
            (_pair(tree) for tree in trees if len(tree.words) <= self._settings.max_words),
            self._words(run),
            label_tokenizer(self._labels(run)),
            max_tokens=self._settings.max_tokens,
        )
        run.log(
            f"{len(trees)} trees: {counts.kept} kept, {len(trees) - counts.kept} with more than "
            f"{self._settings.max_words} words or {self._settings.max_tokens} tokens dropped"
        )

    def build(self, run: RunDirectory) -> keras.Model:
        own = self._settings
        keras.utils.set_random_seed(own.seed)
        vocabularies = (
            self._words(run).vocabulary_size,
            label_tokenizer(self._labels(run)).vocabulary_size,
        )
        sizes = {
            "embedding_dim": own.embedding_dim,
            "units": own.units,
            "dropout": own.dropout,
            "reverse_source": own.reverse_source,
        }
        if own.model == "vector":
            return RNNEncoderDecoder(
                *vocabularies,
                num_layers=own.encoder_layers,
                context="initial_state",
                cell="lstm",
                **sizes,
            )
        return LSTMParser(
            *vocabularies,
            word_tokens=bracket_tokens(self._labels(run)).leaves,
            encoder_layers=own.encoder_layers,
            decoder_layers=own.decoder_layers,
            attention_units=own.units,
            **sizes,
        )

    def batches(self, run: RunDirectory) -> SeekableBatches:
        store = PairStore(run.path / PAIRS_FILE)
        return token_batches(store, self._settings.batch_tokens, self._settings.seed)

    def fixed_batches(self, run: RunDirectory) -> SeekableBatches:
        store, tokens = PairStore(run.path / PAIRS_FILE), self._settings.batch_tokens
        lengths = [length for length in _FIXED_LENGTHS if length < store.longest] + [store.longest]
        batches = token_batches(store, tokens, self._settings.seed, lengths)
        return with_fixed_shapes(batches, {length: tokens // length for length in lengths})

    def optimizer(self) -> keras.optimizers.Optimizer:
        return keras.optimizers.Adam()

    def learning_rate(self, used: float, step: int) -> float:
        return self._rate(used, step)

    def objective(self) -> Callable:
        return projected_token_objective(self._settings.label_smoothing)

    def text_model(self, model: keras.Model, run: RunDirectory) -> TreeModel:
        own = self._settings
        return TreeModel(model, self._words(run), self._labels(run), own.max_words, own.max_tokens)

    def validate(
        self, text_model: TreeModel, limits: ValidationLimits = NO_LIMITS
    ) -> dict[str, float]:
        """F1 and the share of malformed trees, in percent, of answers of bounded length."""
        right = self._corpus.validation()
        written = text_model.trees(_sentences(right), tokens_of_word=3 if limits.is_young else 5)
        return {"f1": _scores(written, right).f1, "malformed": _malformed(written)}

    def evaluate(self, text_model: TreeModel) -> dict[str, float | str]:
        """Scores of the test trees, the share that was malformed, and how they were mended."""
        right = self._corpus.test()
        with counter("test: parsed", len(right)) as count:
            written = text_model.trees(_sentences(right), count=count)
        repairs = sum(tree.repairs for tree in written)
        mended = Counter(dict(zip(REPAIRS, repairs.tolist(), strict=True)))
        return {
            **_scores(written, right)._asdict(),
            "malformed": _malformed(written),
            **{f"repairs, {name}": float(number) for name, number in mended.items() if number},
        }

    def score(self, answers: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        """Labelled precision, recall and F1 of bracketed trees, in percent."""
        right = [_parsed(text, number) for number, text in enumerate(references, start=1)]
        written = [parse_tree(answer) for answer in answers]
        try:
            return bracket_scores(written, right)._asdict()
        except ValueError as error:
            raise UserError(
                f"The trees are not those of the sentences, word for word: {error}."
            ) from error

    def validation_texts(self, count: int | None = None) -> tuple[Sequence[str], Sequence[str]]:
        trees = self._corpus.validation()[:count]
        return _sentences(trees), [str(tree) for tree in trees]

    def plot(self, text_model: TreeModel, texts: Sequence[str | bytes]):
        """The trees, one below the other."""
        written = [tree.text for tree in text_model.trees(texts)]
        if not any(written):
            raise UserError("There is no word in what is to be drawn; give a sentence.")
        return plot_trees([parse_tree(text) for text in written if text])

    def _vocabulary(self, trees: list[Tree]) -> dict[str, list[str]]:
        words, classes = learn_words(
            (tree.words for tree in trees), self._settings.min_count, self._settings.min_class_count
        )
        labels = Counter(bracket.label for tree in trees for bracket in tree.brackets)
        by_frequency = sorted(labels, key=lambda label: (-labels[label], label))
        return {"words": words, "classes": classes, "labels": by_frequency}

    def _words(self, run: RunDirectory) -> WordTokenizer:
        vocabulary = run.read_json(VOCABULARY_FILE)
        return WordTokenizer(vocabulary["words"], vocabulary["classes"])

    def _labels(self, run: RunDirectory) -> list[str]:
        return run.read_json(VOCABULARY_FILE)["labels"]


def _pair(tree: Tree) -> tuple[str, str]:
    return " ".join(tree.words), " ".join(linearised(tree))


def _sentences(trees: Sequence[Tree]) -> list[str]:
    return [" ".join(tree.words) for tree in trees]


def _parsed(text: str, number: int) -> Tree:
    try:
        return parse_tree(text)
    except ValueError as error:
        raise UserError(f"Line {number} of what is right is no bracketed tree: {error}") from error


def _scores(written: Sequence[WrittenTree], right: Sequence[Tree]):
    return bracket_scores([parse_tree(tree.text) for tree in written], right)


def _malformed(written: Sequence[WrittenTree]) -> float:
    """In percent."""
    return 100.0 * sum(tree.is_malformed for tree in written) / len(written)
