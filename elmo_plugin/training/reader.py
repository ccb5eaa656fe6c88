"""DatasetReader "elmo::bilm": sentences for the language model, from text files or from any task's own reader."""

from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Field, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import ListField, TextField

from elmo_plugin.bilm.word_ids import NAMESPACE, WordIds
from elmo_plugin.characters.indexer import ElmoCharactersIndexer
from elmo_plugin.characters.mapping import CharacterMapping
from elmo_plugin.training.corpus import SentenceSource, TextFiles

DEFAULT_MAX_SENTENCE_LENGTH = 10_000
INDEXER = "elmo"


@DatasetReader.register("elmo::bilm")
class BiLmReader(DatasetReader):
    """Reads one sentence per instance: `tokens`, by their characters, and `target_ids`, the classes of its words.

    Neither has the sentence boundaries; the model adds them. With AllenNLP's ordinary loader this is the sentence
    layout; the loader `elmo::windows` takes the sentences from here too, but packs them without creating instances.

    The sentences are the lines of `data_path`: a path, a glob, a folder, or a list of those, plain or gzipped (see
    `elmo_plugin.training.corpus`). With a `task_reader` they are the text fields of the instances that it reads from
    `data_path` (those named in `fields`, or all of them, also inside lists), each of them a sentence. A task repeats
    itself, with one instance for each question about a passage or for each verb of a sentence: unless `skip_repeated`
    is false, a field that is the same as in the previous instance isn't given again.

    A sentence of more than `max_sentence_length` words is split into several, each with its own boundaries: a line may
    be a whole book. As sentences, memory grows with the longest; as windows it doesn't, but a line stays in its row,
    and other rows may have to wait at the end of an epoch. `null` splits none.
    """

    def __init__(
        self,
        token_indexers: Optional[Dict[str, TokenIndexer]] = None,
        max_sentence_length: Optional[int] = DEFAULT_MAX_SENTENCE_LENGTH,
        task_reader: Optional[DatasetReader] = None,
        fields: Optional[List[str]] = None,
        skip_repeated: bool = True,
        namespace: str = NAMESPACE,
        **kwargs,
    ) -> None:
        super().__init__(manual_distributed_sharding=True, manual_multiprocess_sharding=True, **kwargs)
        self._token_indexers = token_indexers or {INDEXER: ElmoCharactersIndexer()}
        indexer = self._token_indexers.get(INDEXER)
        if not isinstance(indexer, ElmoCharactersIndexer):
            raise ConfigurationError(
                f'reader elmo::bilm: token_indexers needs an entry "{INDEXER}" of type elmo::characters, '
                f"got {self._token_indexers}"
            )
        if task_reader is None and fields is not None:
            raise ConfigurationError(
                f"reader elmo::bilm: fields ({fields}) names fields of a task_reader, but no task_reader is given"
            )
        self._max_sentence_length = max_sentence_length
        self._task_reader = task_reader
        self._fields = fields
        self._skip_repeated = skip_repeated
        self.namespace = namespace
        self.character_mapping: CharacterMapping = indexer.mapping

    def sentence_source(self, data_path: Any) -> SentenceSource:
        if self._task_reader is None:
            return TextFiles(data_path, self._max_sentence_length)
        return TaskText(self._task_reader, data_path, self._fields, self._skip_repeated, self._max_sentence_length)

    def sentences(self, data_path: Any) -> Iterator[List[str]]:
        """The words of each sentence, without boundaries."""
        return self.sentence_source(data_path).sentences()

    def _read(self, file_path: Any) -> Iterable[Instance]:
        for words in self.shard_iterable(self.sentences(file_path)):
            yield self.text_to_instance(words)

    def text_to_instance(self, tokens: Sequence[Union[str, Token]]) -> Instance:
        """One sentence of any length."""
        text = [Token(token) if isinstance(token, str) else token for token in tokens]
        words = [token.ensure_text() for token in text]
        return Instance({"tokens": TextField(text), "target_ids": WordIdsField(words, self.namespace)})

    def apply_token_indexers(self, instance: Instance) -> None:
        instance["tokens"].token_indexers = self._token_indexers  # type: ignore[attr-defined]


class WordIdsField(Field[torch.Tensor]):
    """The classes of a sentence's words, unknown ones being `<UNK>`. It adds nothing to a vocabulary.

    It is padded with 0, which is a class like any other: only the tokens' mask tells padding apart.
    """

    __slots__ = ["words", "namespace", "_ids"]

    def __init__(self, words: List[str], namespace: str = NAMESPACE) -> None:
        self.words = words
        self.namespace = namespace
        self._ids: Optional[List[int]] = None

    def index(self, vocab: Vocabulary) -> None:
        self._ids = WordIds(vocab, self.namespace)(self.words)

    def get_padding_lengths(self) -> Dict[str, int]:
        return {"num_words": len(self.words)}

    def as_tensor(self, padding_lengths: Dict[str, int]) -> torch.Tensor:
        if self._ids is None:
            raise ConfigurationError("index the field with a vocabulary before making a tensor of it")
        # Shape: (num_words,)
        padding = [0] * (padding_lengths["num_words"] - len(self._ids))
        return torch.tensor(self._ids + padding, dtype=torch.long)

    def empty_field(self) -> "WordIdsField":
        field = WordIdsField([], self.namespace)
        field._ids = []
        return field

    def __len__(self) -> int:
        return len(self.words)


class TaskText(SentenceSource):
    """The text fields of a task's instances; an item is a list of words."""

    def __init__(
        self,
        task_reader: DatasetReader,
        data_path: Any,
        fields: Optional[Sequence[str]] = None,
        skip_repeated: bool = True,
        max_sentence_length: Optional[int] = None,
    ) -> None:
        super().__init__(max_sentence_length)
        self.name = str(data_path)
        self.shards = [self.name]
        self._data_path = data_path
        self._task_reader = task_reader
        self._fields = fields
        self._skip_repeated = skip_repeated
        _let_read_all(task_reader)

    def words(self, item: List[str]) -> List[str]:
        return item

    def items(self, shard: str) -> Iterator[List[str]]:
        texts_before: Dict[str, List[List[str]]] = {}
        for instance in self._task_reader.read(self._data_path):
            for name, texts in self._texts(instance).items():
                if not self._skip_repeated or texts != texts_before.get(name):
                    yield from filter(None, texts)
                texts_before[name] = texts

    def _texts(self, instance: Instance) -> Dict[str, List[List[str]]]:
        texts = {name: list(_texts_in(field)) for name, field in instance.fields.items()}
        available = [name for name, sentences in texts.items() if sentences]
        wanted = self._fields or available
        missing = [name for name in wanted if name not in available]
        if missing or not available:
            raise ConfigurationError(
                f"{self.name}: the task's instances have no text field {' or '.join(missing) or 'at all'}; "
                f"their text fields are {available}, all their fields {list(texts)}. Set the reader's `fields`."
            )
        return {name: texts[name] for name in wanted}


def _texts_in(field: Field) -> Iterator[List[str]]:
    if isinstance(field, TextField):
        yield [str(token) for token in field.tokens]
    elif isinstance(field, ListField):
        for element in field.field_list:
            yield from _texts_in(element)


def _let_read_all(task_reader: DatasetReader) -> None:
    """Keeps a reader from leaving out what belongs to other processes of a distributed run.

    The sentences are dealt out to the processes here, after repeated ones have been dropped; and for equal numbers of
    batches, each process has to know the lengths of the others' sentences.
    """
    task_reader._set_distributed_info(None)
    task_reader.shard_iterable = iter  # type: ignore[assignment, method-assign]
