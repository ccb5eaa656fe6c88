"""DatasetReader "elmo::ner": sentences with the tags of their entities, in columns."""

import re
from os import PathLike
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer, Tokenizer
from allennlp.data.fields import MetadataField, SequenceLabelField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.files import numbered_lines
from elmo_plugin.tasks.common.spans import SCHEMES, TagError, check_scheme, convert_tags, detect_scheme
from elmo_plugin.tasks.common.words import joined
from elmo_plugin.text import RuleBasedTokenizer

DOCUMENT_START = "-DOCSTART-"

# Not any white space: a no-break space belongs to its token.
_BETWEEN_COLUMNS = re.compile(r"[ \t]+")


class _Row(NamedTuple):
    line_number: int
    token: str
    tag: str


@DatasetReader.register("elmo::ner")
class NerReader(DatasetReader):
    """Reads files with a token a line and a blank line after each sentence:

        EU NNP B-NP B-ORG            EU B-ORG
        rejects VBZ B-VP O           rejects O

    The token is in the first column and its tag in the last; what lies between isn't used. CoNLL-2003 has four columns;
    any number from two on will do, but it must be the same in the whole file. Lines that begin with -DOCSTART- stand
    between documents and are skipped.

    coding_scheme: the scheme that the model sees, BIO, IOB1 or BIOUL; tags in another one are converted to it.
    file_scheme: the scheme that files are in. By default the first entity of a file tells: no two schemes write one the
        same way. A tag which that scheme doesn't allow where it stands is an error.
    tokenizer: for text that isn't tokenised, as predictors get; `elmo::spacy` by default.
    """

    def __init__(
        self,
        token_indexers: Optional[Dict[str, TokenIndexer]] = None,
        tokenizer: Optional[Tokenizer] = None,
        coding_scheme: str = "BIOUL",
        file_scheme: Optional[str] = None,
        label_namespace: str = "labels",
        max_instances: Optional[int] = None,
    ) -> None:
        super().__init__(
            max_instances=max_instances, manual_distributed_sharding=True, manual_multiprocess_sharding=True
        )
        check_scheme(coding_scheme)
        if file_scheme is not None:
            check_scheme(file_scheme)
        self._token_indexers = token_indexers or {"tokens": SingleIdTokenIndexer()}
        self._tokenizer = tokenizer or RuleBasedTokenizer()
        self._coding_scheme = coding_scheme
        self._file_scheme = file_scheme
        self._label_namespace = label_namespace

    def _read(self, file_path: Union[str, PathLike]) -> Iterator[Instance]:
        for words, tags in self.shard_iterable(self._tagged_sentences(str(file_path))):
            yield self.text_to_instance(words, tags)

    def text_to_instance(self, text: Union[str, Sequence[str]], tags: Optional[Sequence[str]] = None) -> Instance:
        """An instance of a sentence: a string to tokenise, or its words. `tags` are in the `coding_scheme`."""
        tokens = self._tokenizer.tokenize(text) if isinstance(text, str) else [Token(word) for word in text]
        if not tokens:
            raise ValueError(f"there is no token to tag in {text!r}")
        if isinstance(text, str) and all(token.idx is not None for token in tokens):
            sentence = text
        else:
            # Words have no places in a text yet, and some tokenizers give none.
            words = [str(token) for token in tokens]
            tokens, sentence = joined(words), " ".join(words)
        text_field = TextField(tokens)
        fields: Dict[str, Field] = {
            "tokens": text_field,
            "metadata": MetadataField({"tokens": [token.text for token in tokens], "sentence": sentence}),
        }
        if tags is not None:
            fields["tags"] = SequenceLabelField(list(tags), text_field, self._label_namespace)
        return Instance(fields)

    def apply_token_indexers(self, instance: Instance) -> None:
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]

    def _tagged_sentences(self, file_path: str) -> Iterator[Tuple[List[str], List[str]]]:
        """The words and the converted tags of each sentence."""
        scheme = self._file_scheme
        sentence = None
        for sentence in _sentences(file_path):
            tags = [row.tag for row in sentence]
            try:
                scheme = scheme or detect_scheme(tags)
                # Without a scheme so far, all tags are O.
                converted = convert_tags(tags, scheme or self._coding_scheme, self._coding_scheme)
            except TagError as error:
                raise ConfigurationError(self._explain(error, file_path, sentence, scheme)) from error
            yield [row.token for row in sentence], converted
        if sentence is None:
            raise ConfigurationError(f"{file_path} holds no sentence: every line of it is blank or a {DOCUMENT_START}")

    def _explain(self, error: TagError, file_path: str, sentence: List[_Row], scheme: Optional[str]) -> str:
        place = f"{file_path}, line {sentence[error.index].line_number}"
        if self._file_scheme is not None:
            hint = f"set the reader's file_scheme if the file isn't in {scheme}"
        elif scheme is not None:
            hint = f"the file's first entity is in {scheme}; correct the tag, or set the reader's file_scheme"
        else:
            hint = f"correct it; the schemes are {', '.join(SCHEMES)}"
        return f"{place}: {error} ({hint})"


def _sentences(file_path: str) -> Iterator[List[_Row]]:
    """The rows of each sentence."""
    sentence: List[_Row] = []
    for row in _rows(file_path):
        if row is not None:
            sentence.append(row)
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _rows(file_path: str) -> Iterator[Optional[_Row]]:
    """A file's rows, and None for what separates sentences. Checks that all have the same number of columns."""
    num_columns = 0
    for line_number, line in numbered_lines(file_path, skip_blank=False):
        columns = _BETWEEN_COLUMNS.split(line.strip(" \t\r\n"))
        if columns[0] in ("", DOCUMENT_START):
            yield None
            continue
        num_columns = num_columns or len(columns)
        if len(columns) != num_columns or num_columns < 2:
            expected = "a token and its tag" if num_columns < 2 else f"{num_columns} columns as in the lines before"
            raise ConfigurationError(
                f"{file_path}, line {line_number}: expected {expected}, separated by spaces or tabs; got "
                f"{len(columns)}: {line.strip()!r}"
            )
        yield _Row(line_number, columns[0], columns[-1])
