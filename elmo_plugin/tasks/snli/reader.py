"""DatasetReader "elmo::snli": pairs of sentences in SNLI's and MultiNLI's own format, or as tab-separated lines."""

import logging
from os import PathLike
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import Field, MetadataField, TextField

from elmo_plugin.corpora import split_columns
from elmo_plugin.files import numbered_lines, parse_json
from elmo_plugin.tasks.common.labels import KnownLabelField
from elmo_plugin.tasks.common.reader import Notes, TaskReader, Text, json_value, some

logger = logging.getLogger(__name__)

LABELS = ("entailment", "neutral", "contradiction")
NO_GOLD_LABEL = "-"  # the annotators didn't agree
COLUMNS = ("premise", "hypothesis", "label")

# What the published files call the premise, the hypothesis and the label, by where the tokens come from.
_PUBLISHED_NAMES = {
    "text": ("sentence1", "sentence2", "gold_label"),
    "parse": ("sentence1_binary_parse", "sentence2_binary_parse", "gold_label"),
}
_FORMATS = {"jsonl": "jsonl", "tsv": "tsv", "txt": "tsv"}  # by the ending of the file's name


class _Pair(NamedTuple):
    line_number: int
    premise: Text
    hypothesis: Text
    label: str


@DatasetReader.register("elmo::snli")
class SnliReader(TaskReader):
    """Reads pairs of a premise and a hypothesis with their label, from plain or gzipped files of two formats:

    - `.jsonl`, as SNLI and MultiNLI are distributed: a line is an object with `gold_label`, `sentence1` and
      `sentence2`, and with `sentence1_binary_parse` and `sentence2_binary_parse` if tokens are taken from those;
    - `.txt` and `.tsv`: a line is a pair, its cells separated by tabs. If the first line names the columns, whichever
      others there are, it decides: `gold_label`, `sentence1` and `sentence2` (with their parses), as in SNLI's,
      MultiNLI's and GLUE's files, or the names in `columns`. Without one, cells are in the order of `columns`: by
      default the premise, the hypothesis, the label.

    Pairs without a gold label (`-`) are skipped, and so are those with no word on one side; the log says how many.

    tokens_from: `text`, tokenised by `tokenizer`, or `parse`, the leaves of the parses, as Chen et al. (2017) took
        them, which needs jsonl or columns that are named.
    columns: what a tsv file's columns hold, in the file's order: `premise`, `hypothesis` and `label` once each. Columns
        of any other name are ignored.
    labels: the labels there are. Any other one in a file is an error.
    file_format: `jsonl` or `tsv`, if a file's name doesn't tell.
    The others are those of `TaskReader`.
    """

    texts = ("premise", "hypothesis")

    def __init__(
        self,
        *,
        tokens_from: str = "text",
        columns: List[str] = list(COLUMNS),  # noqa: B006  (never changed)
        labels: List[str] = list(LABELS),  # noqa: B006
        file_format: Optional[str] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if tokens_from not in _PUBLISHED_NAMES:
            raise ConfigurationError(f'tokens_from must be "text" or "parse", not {tokens_from!r}')
        if sorted(column for column in columns if column in COLUMNS) != sorted(COLUMNS):
            raise ConfigurationError(
                f"columns must name {', '.join(map(repr, COLUMNS))} once each, not {list(columns)}"
            )
        if file_format not in (None, "jsonl", "tsv"):
            raise ConfigurationError(f'file_format must be "jsonl" or "tsv", not {file_format!r}')
        self._tokens_from = tokens_from
        self._columns = list(columns)
        self._labels = list(labels)
        self._file_format = file_format

    def _read(self, file_path: Union[str, PathLike]) -> Iterator[Instance]:
        pairs = some(self._labelled_pairs(str(file_path)), f"{file_path} holds no pair with a gold label")
        for pair in self.shard_iterable(pairs):
            try:
                yield self.text_to_instance(pair.premise, pair.hypothesis, pair.label)
            except ValueError as error:
                raise ConfigurationError(f"{file_path}, line {pair.line_number}: {error}") from error

    def text_to_instance(self, premise: Text, hypothesis: Text, label: Optional[str] = None) -> Instance:
        """An instance of two texts, each a string to tokenise or a list of tokens."""
        fields: Dict[str, Field] = {}
        metadata: Dict[str, List[str]] = {}
        for name, text in (("premise", premise), ("hypothesis", hypothesis)):
            tokens, _ = self.tokens_of(text, name)
            fields[name] = TextField(tokens)
            metadata[f"{name}_tokens"] = [str(token) for token in tokens]
        fields["metadata"] = MetadataField(metadata)
        if label is not None:
            fields["label"] = KnownLabelField(label)
        return Instance(fields)

    def _text(self, text: str) -> Text:
        return _leaves(text) if self._tokens_from == "parse" else text

    def _labelled_pairs(self, file_path: str) -> Iterator[_Pair]:
        """The pairs with a gold label and words on both sides. Logs at the end how many had none."""
        notes = Notes(logger)
        for pair in self._pairs(file_path):
            if pair.label == NO_GOLD_LABEL:
                notes.add(logging.INFO, "skipped {} pairs, which have no gold label")
            elif not all(text.strip() if isinstance(text, str) else text for text in (pair.premise, pair.hypothesis)):
                notes.add(logging.INFO, "skipped {} pairs, which have no word in the premise or the hypothesis")
            else:
                self._check_label(pair, file_path)
                yield pair
        notes.log(file_path)

    def _check_label(self, pair: _Pair, file_path: str) -> None:
        if pair.label not in self._labels:
            raise ConfigurationError(
                f"{file_path}, line {pair.line_number}: the label is {pair.label!r}, but must be one of "
                f"{', '.join(map(repr, self._labels))}, or {NO_GOLD_LABEL!r} for a pair to skip; give others to "
                "the reader's labels"
            )

    def _pairs(self, file_path: str) -> Iterator[_Pair]:
        numbered = numbered_lines(file_path, encoding=self._encoding)
        lines = ((number, line.rstrip("\r\n")) for number, line in numbered)
        is_json = (self._file_format or _format_by_name(file_path)) == "jsonl"
        return self._json_pairs(file_path, lines) if is_json else self._tsv_pairs(file_path, lines)

    def _json_pairs(self, file_path: str, lines: Iterable[Tuple[int, str]]) -> Iterator[_Pair]:
        keys = _PUBLISHED_NAMES[self._tokens_from]
        for line_number, line in lines:
            place = f"{file_path}, line {line_number}"
            example = parse_json(line, place)
            premise, hypothesis, label = (json_value(example, key, str, place) for key in keys)
            yield _Pair(line_number, self._text(premise), self._text(hypothesis), label)

    def _tsv_pairs(self, file_path: str, lines: Iterable[Tuple[int, str]]) -> Iterator[_Pair]:
        columns, min_cells, max_cells = self._columns, len(self._columns), float(len(self._columns))
        for number, (line_number, line) in enumerate(lines):
            cells = line.split("\t")
            header = self._header(cells) if number == 0 else None
            if header is not None:
                # MultiNLI's training file names more labels than its lines have.
                columns, min_cells, max_cells = header, 1 + max(map(header.index, COLUMNS)), float("inf")
                continue
            if number == 0 and self._tokens_from == "parse":
                raise ConfigurationError(
                    f"{file_path}, line {line_number}: there are no parses, since no columns are named "
                    f"{' and '.join(_PUBLISHED_NAMES['parse'])}; set tokens_from to 'text'"
                )
            if not min_cells <= len(cells) <= max_cells:
                raise ConfigurationError(
                    f"{file_path}, line {line_number}: expected {min_cells} cells separated by tabs "
                    f"({', '.join(columns)}), got {len(cells)}; set the reader's columns if the file has others"
                )
            row = dict(zip(columns, cells, strict=False))
            yield _Pair(line_number, self._text(row["premise"]), self._text(row["hypothesis"]), row["label"].strip())

    def _header(self, cells: List[str]) -> Optional[List[str]]:
        """The columns that a file's first line names, by our names; None if it doesn't name any."""
        ours = dict(zip(_PUBLISHED_NAMES[self._tokens_from], COLUMNS, strict=True))
        names = [ours.get(cell.strip(), cell.strip()) for cell in cells]
        return names if all(names.count(column) == 1 for column in COLUMNS) else None


def _format_by_name(file_path: str) -> str:
    suffix = file_path.removesuffix(".gz").rpartition(".")[-1]
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    raise ConfigurationError(
        f"can't tell the format of {file_path} by its name, which ends with none of {', '.join(_FORMATS)} (perhaps "
        "followed by .gz); set the reader's file_format to 'jsonl' or 'tsv'"
    )


def _leaves(parse: str) -> List[str]:
    """The words of a binary parse such as `( ( A dog ) runs )`, where the text's brackets are -LRB- and -RRB-."""
    brackets = {"-LRB-": "(", "-RRB-": ")"}
    return [brackets.get(piece, piece) for piece in split_columns(parse) if piece not in ("(", ")")]
