"""Where the recipe that writes trees finds them."""

from collections.abc import Iterator

from keras_attn.data.bracketed_trees import Tree, read_trees
from keras_attn.data.treebanks import TREEBANKS, treebank_file
from keras_attn.errors import UserError


class TreeCorpus:
    """A person's own files of trees, or the treebanks, whose files are looked for when needed.

    Args:
        trees: file to learn from; both treebanks if there is none.
        validation_trees: file to validate with; it goes with `trees`.
        test_trees: file to evaluate with.

    Attributes:
        test_data: what is evaluated on, in a sentence.

    Raises:
        UserError: if there are trees to learn from and none to validate with, or the reverse.
    """

    def __init__(self, trees: str | None, validation_trees: str | None, test_trees: str | None):
        if (trees is None) != (validation_trees is None):
            missing = "--trees" if trees is None else "--validation-trees"
            raise UserError(
                "Trees to learn from and trees to choose the best model by go together; give "
                f"{missing} too."
            )
        self._trees = trees
        self._validation = validation_trees
        self._test = test_trees
        self.test_data = self._described()

    def training(self) -> Iterator[Tree]:
        files = [self._trees]
        if self._trees is None:
            files = [treebank_file(treebank, "train") for treebank in TREEBANKS]
        for file in files:
            yield from read_trees(file)

    def validation(self) -> list[Tree]:
        return list(read_trees(self._validation or treebank_file("treebank_nltk", "dev")))

    def test(self) -> list[Tree]:
        if self._test is None and self._trees is not None:
            return self.validation()
        return list(read_trees(self._test or treebank_file("treebank_nltk", "test")))

    def _described(self) -> str:
        if self._test is not None:
            return f"{self._test}."
        if self._trees is not None:
            return f"{self._validation}, by which the best model was chosen."
        return "the 245 trees of the Penn Treebank sample's files 0180 to 0199."
