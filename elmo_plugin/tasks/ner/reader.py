"""DatasetReader "elmo::ner": sentences with the tags of their entities, in columns."""

from os import PathLike
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance
from allennlp.data.fields import MetadataField, TextField

from elmo_plugin.tasks.common.labels import TagField
from elmo_plugin.tasks.common.reader import TaskReader, Text
from elmo_plugin.tasks.common.spans import SCHEMES, TagError, check_scheme, spans_to_tags
from elmo_plugin.tasks.ner.conll import EntityFinder, Sentence, read_sentences


@DatasetReader.register("elmo::ner")
class NerReader(TaskReader):
    """Reads files with one token per line and a blank line after each sentence:

        EU NNP B-NP B-ORG            EU B-ORG
        rejects VBZ B-VP O           rejects O

    The token is in the first column and its tag in the last; what is between them isn't used. CoNLL-2003 has four
    columns; any number from two on will do, but it must be the same throughout the file. If the first column numbers a
    sentence's words, the token is in the second, and in a file of four columns (GermEval) the tag, that of the outer
    entity, is in the third. Lines that begin with -DOCSTART- separate documents and are skipped, as are comments before
    a sentence: lines that begin with # and aren't like the others.

    Tags with B and I mean what they mean to the shared tasks' scorer, conlleval, even where BIO or IOB1 would write
    them differently: B begins an entity, and so does I after O and after another type. CoNLL-2002 and 2003 hold a few
    like that; a warning says how many. In BIOUL such a tag is an error, and so is a letter that isn't the scheme's.

    coding_scheme: the scheme that the model sees, BIO, IOB1 or BIOUL; tags in another one are converted to it.
    file_scheme: the scheme that files are in. By default it is detected from their tags.
    token_column, tag_column: where tokens and tags are, from 0 on, or from -1 on backwards.
    The others are those of `TaskReader`; CoNLL-2002 has the `encoding` latin-1.
    """

    def __init__(
        self,
        *,
        coding_scheme: str = "BIOUL",
        file_scheme: Optional[str] = None,
        label_namespace: str = "labels",
        token_column: Optional[int] = None,
        tag_column: Optional[int] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_scheme(coding_scheme)
        if file_scheme is not None:
            check_scheme(file_scheme)
        self._coding_scheme = coding_scheme
        self._file_scheme = file_scheme
        self._label_namespace = label_namespace
        self._token_column = token_column
        self._tag_column = tag_column

    def _read(self, file_path: Union[str, PathLike]) -> Iterator[Instance]:
        for words, tags in self.shard_iterable(self._tagged_sentences(str(file_path))):
            yield self.text_to_instance(words, tags)

    def text_to_instance(self, text: Text, tags: Optional[Sequence[str]] = None) -> Instance:
        """An instance of a sentence: a string to tokenise, or its words. `tags` are in the `coding_scheme`."""
        tokens, sentence = self.tokens_of(text)
        text_field = TextField(tokens)
        metadata: Dict[str, Any] = {"tokens": [token.text for token in tokens], "sentence": sentence}
        fields: Dict[str, Field] = {"tokens": text_field, "metadata": MetadataField(metadata)}
        if tags is not None:
            metadata["gold_tags"] = list(tags)
            fields["tags"] = TagField(list(tags), text_field, self._label_namespace)
        return Instance(fields)

    def _tagged_sentences(self, file_path: str) -> Iterator[Tuple[List[str], List[str]]]:
        """The words and the converted tags of each sentence."""
        finder = EntityFinder(self._file_scheme)
        for sentence in read_sentences(file_path, self._token_column, self._tag_column, self._encoding):
            try:
                entities = finder.find(sentence)
            except TagError as error:
                raise ConfigurationError(self._explain(error, file_path, sentence, finder.scheme)) from error
            yield sentence.words, spans_to_tags(entities, len(sentence.words), self._coding_scheme)
        finder.log(file_path)

    def _explain(self, error: TagError, file_path: str, sentence: Sentence, scheme: str) -> str:
        hint = f"the file is taken to be in {scheme}; correct the tag, or set the reader's file_scheme (one of "
        hint += f"{', '.join(SCHEMES)}), or its tag_column if tags are in another column"
        return f"{file_path}, line {sentence.line_numbers[error.index]}: {error} ({hint})"
