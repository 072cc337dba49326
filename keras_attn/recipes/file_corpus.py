"""A corpus that is named by its files."""

from keras_attn.data.pair_files import PairFiles, pair_files
from keras_attn.errors import UserError
from keras_attn.paths import path_of

_KINDS = ("tsv", "csv", "jsonl")


class FileCorpus:
    """Pairs to learn from and pairs to validate with: aligned files, or files with columns.

    Args:
        source, target: of the training text, on any file system of `tf.io.gfile`.
        validation_source, validation_target: of the validation text.
        tsv, csv, jsonl: one file of training text instead of two.
        columns: of source and target in such files, see `keras_attn.data.pair_files.ColumnFile`.
        validation_tsv, validation_csv, validation_jsonl: one file of validation text.

    Raises:
        UserError: if training or validation text is not given, or not in one form.
    """

    def __init__(
        self,
        source: str | None = None,
        target: str | None = None,
        validation_source: str | None = None,
        validation_target: str | None = None,
        *,
        tsv: str | None = None,
        csv: str | None = None,
        jsonl: str | None = None,
        columns: str | None = None,
        validation_tsv: str | None = None,
        validation_csv: str | None = None,
        validation_jsonl: str | None = None,
    ):
        paths = {
            "source": source,
            "target": target,
            "tsv": tsv,
            "csv": csv,
            "jsonl": jsonl,
            "validation_source": validation_source,
            "validation_target": validation_target,
            "validation_tsv": validation_tsv,
            "validation_csv": validation_csv,
            "validation_jsonl": validation_jsonl,
        }
        self._paths = {
            name: None if path is None else str(path_of(path).absolute())
            for name, path in paths.items()
        }
        self._columns = columns
        training, validation = self._given(""), self._given("validation_")
        if training is None or validation is None:
            missing = [] if training else ["--source", "--target"]
            missing += [] if validation else ["--validation-source", "--validation-target"]
            raise UserError(
                f"This recipe needs files of its own; give {', '.join(missing)}, or files that "
                "have both sides in columns, as --tsv and --validation-tsv."
            )
        self._training, self._validation = training, validation

    def _given(self, prefix: str) -> PairFiles | None:
        return pair_files(
            self._paths[f"{prefix}source"],
            self._paths[f"{prefix}target"],
            {kind: self._paths[f"{prefix}{kind}"] for kind in _KINDS},
            self._columns,
            prefix.replace("_", "-"),
        )

    @property
    def settings(self) -> dict[str, str | None]:
        """The files by their absolute paths, None where there is none, and the columns."""
        return {**self._paths, "columns": self._columns}

    def training(self) -> PairFiles:
        return self._training

    def validation(self) -> PairFiles:
        return self._validation

    def tests(self) -> dict[str, PairFiles]:
        return {"validation": self._validation}
