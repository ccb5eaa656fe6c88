"""DatasetReader "elmo::coref": whole documents with their coreference."""

import re
from itertools import islice
from os import PathLike
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token
from allennlp.data.fields import LabelField, ListField, MetadataField, TensorField, TextField

from elmo_plugin.tasks.common.columns import find_files
from elmo_plugin.tasks.common.reader import TaskReader, some
from elmo_plugin.tasks.common.words import joined
from elmo_plugin.tasks.coref.conll import NO_SPEAKER, Clusters, read_documents
from elmo_plugin.text import RuleBasedSentenceSplitter, RuleBasedTokenizer

Text = Union[str, Sequence[Sequence[str]]]


class _GenreField(LabelField):
    """A label in a namespace that has an entry for unknown ones, without AllenNLP's warning about that."""

    def _maybe_warn_for_namespace(self, label_namespace: str) -> None:
        pass


@DatasetReader.register("elmo::coref")
class CoreferenceReader(TaskReader):
    """Reads a file in the columns of CoNLL-2012, plain or gzipped, or all of those below a folder; see conll.py. A part
    of a document is an instance.

    The word is in the fourth column, its speaker in the tenth (if there are twelve or more) and the coreference in the
    last. A document's sentences are a list of texts, so that anything that runs over a text runs sentence by sentence.

    genre_pattern: a regular expression that a document's name is matched with from its beginning on; its first group is
        the genre. By default the two letters before the first slash, as in CoNLL-2012: `nw/wsj/00/wsj_0001`.
    default_genre: that of documents whose name doesn't match, and of text that comes without any.
    keep_singletons: whether clusters of one mention are kept. CoNLL-2012 has none; where a corpus has them, they count
        in the metrics, though the model, which only ever links two mentions, can't find them.
    The others are those of `TaskReader`.
    """

    def __init__(
        self,
        *,
        genre_pattern: str = r"([a-z]{2})/",
        default_genre: str = "nw",
        keep_singletons: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._genre_pattern = _compiled(genre_pattern)
        self._default_genre = default_genre
        self._keep_singletons = keep_singletons

    def _read(self, file_path: Union[str, PathLike]) -> Iterator[Instance]:
        documents = (each for file in find_files(str(file_path)) for each in read_documents(file, self._encoding))
        otherwise = f"{file_path} holds no document; expected '#begin document (name); part 000'"
        for document in self.shard_iterable(some(documents, otherwise)):
            clusters = [each for each in document.clusters if self._keep_singletons or len(each) > 1]
            yield self.text_to_instance(
                document.sentences, document.speakers, self._genre(document.id), clusters, document.id, document.part
            )

    def text_to_instance(
        self,
        text: Text,
        speakers: Optional[Sequence[Sequence[str]]] = None,
        genre: Optional[str] = None,
        clusters: Optional[Clusters] = None,
        document_id: str = "document",
        part: int = 0,
    ) -> Instance:
        """An instance of a document: a string to split and tokenise, or the words of each sentence.

        `speakers` are those of each word, sentence by sentence.
        """
        sentences, plain_text = self._tokenize(text)
        if not any(sentences):
            raise ValueError(f"there is no word to read in {text!r}")
        words = [[token.text for token in sentence] for sentence in sentences]
        if speakers is None:
            speakers = [[NO_SPEAKER] * len(sentence) for sentence in words]
        elif list(map(len, speakers)) != list(map(len, words)):
            raise ValueError("there must be exactly one speaker for each word of each sentence")
        metadata: Dict[str, Any] = {
            "document_id": document_id,
            "part": part,
            "sentences": words,
            "tokens": [token for sentence in sentences for token in sentence],
            "text": plain_text,
        }
        if clusters is not None:
            metadata["clusters"] = clusters
        fields: Dict[str, Field] = {
            "text": ListField([TextField(sentence) for sentence in sentences]),
            "speaker_ids": TensorField(_numbered([speaker for sentence in speakers for speaker in sentence])),
            "genre": _GenreField(genre or self._default_genre, label_namespace="genres"),
            "metadata": MetadataField(metadata),
        }
        return Instance(fields)

    def apply_token_indexers(self, instance: Instance) -> None:
        for sentence in instance["text"].field_list:  # type: ignore[attr-defined]
            sentence.token_indexers = self._token_indexers

    def _genre(self, document_id: str) -> str:
        match = self._genre_pattern.match(document_id)
        return match[1] if match else self._default_genre

    def _tokenize(self, text: Text) -> Tuple[List[List[Token]], str]:
        """The sentences' tokens, each with its position in the text that is returned with them."""
        if not isinstance(text, str):
            return _joined([sentence for sentence in text if sentence])
        if isinstance(self._tokenizer, RuleBasedTokenizer):
            return self._tokenizer.tokenize_sentences(text), text
        sentences = map(self._tokenizer.tokenize, RuleBasedSentenceSplitter().split_sentences(text))
        return _joined([[str(token) for token in sentence] for sentence in sentences])


def _compiled(genre_pattern: str) -> "re.Pattern[str]":
    try:
        pattern = re.compile(genre_pattern)
    except re.error as error:
        raise ConfigurationError(f"genre_pattern {genre_pattern!r} isn't a regular expression: {error}") from error
    if pattern.groups < 1:
        raise ConfigurationError(f"genre_pattern {genre_pattern!r} must have a group for the genre, such as '(..)/'")
    return pattern


def _joined(sentences: List[Sequence[str]]) -> Tuple[List[List[Token]], str]:
    """The words as tokens of a text with a space between each two, and that text."""
    words = [word for sentence in sentences for word in sentence]
    tokens = iter(joined(words))
    return [list(islice(tokens, len(sentence))) for sentence in sentences], " ".join(words)


def _numbered(speakers: List[str]) -> torch.Tensor:
    """A number for each speaker of the document; only whether two are the same will matter."""
    numbers = {speaker: number for number, speaker in enumerate(dict.fromkeys(speakers))}
    return torch.tensor([numbers[speaker] for speaker in speakers])
