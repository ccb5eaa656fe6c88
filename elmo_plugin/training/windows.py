"""DataLoader "elmo::windows": packed windows of two aligned streams, in order, with a length and a position.

As in bilm-tf, a batch has a fixed number of rows, and each row continues where it stopped in the previous batch, so
that the LSTMs' state can be carried along. A sentence w1 .. wn takes n + 1 positions of a row, the same ones in both
streams:

    forward inputs    <S>  w1 .. wn        backward inputs    </S> wn .. w1
    forward targets   w1 .. wn  </S>       backward targets   wn .. w1  <S>
"""

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from heapq import heapreplace
from typing import (
    Any,
    Deque,
    Dict,
    Generator,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

import numpy
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.data import DatasetReader, Instance, Vocabulary
from allennlp.data.data_loaders import DataLoader, TensorDict
from allennlp.data.dataset_readers.dataset_reader import DatasetReaderInput
from allennlp.nn.util import move_to_device

from elmo_plugin.bilm.word_ids import WordIds
from elmo_plugin.characters.mapping import CharacterMapping
from elmo_plugin.training.corpus import DEFAULT_SHUFFLE_BUFFER, SentenceOrder
from elmo_plugin.training.reader import BiLmReader

T = TypeVar("T")


class Boundary:
    """A sentence's boundary as an input. Not the string "<S>" or "</S>", which may be a word of the text."""


_BEGIN = Boundary()
_END = Boundary()
Input = Union[str, Boundary]


@DataLoader.register("elmo::windows")
class PackedWindows(DataLoader):
    """Deals the reader's sentences out to `batch_size` rows and cuts these into windows of `num_steps` positions.

    A row that runs short takes the next sentence. At the end of an epoch rows run out at different times; they are
    padded and masked, so that each position of each sentence occurs exactly once. A batch is

    - `characters` (num_types, max_characters_per_token): those of the batch's distinct inputs; entry 0 is padding
    - `forward_inputs`, `backward_inputs` (batch_size, num_steps): which of these is read at each position
    - `forward_targets`, `backward_targets` (batch_size, num_steps): the classes to predict; 0 where masked
    - `mask` (batch_size, num_steps): False at padding, which only ever follows the last sentence of a row
    - `sentence_starts` (batch_size, num_steps): True at the first position of each sentence, the same for both streams

    With `shuffle` the order differs from epoch to epoch, as given by `seed` and the epoch's number; see `SentenceOrder`
    for how, in bounded memory, and for `shuffle_buffer`. `prefetch` batches are prepared ahead in a thread, in the same
    order; 0 uses no thread.

    In a distributed run each process takes its own lines, and those with less to read end with fully masked batches, so
    that all have the same number.
    """

    def __init__(
        self,
        reader: DatasetReader,
        data_path: DatasetReaderInput,
        batch_size: int = 128,
        num_steps: int = 20,
        shuffle: bool = True,
        seed: int = 13370,
        shuffle_buffer: int = DEFAULT_SHUFFLE_BUFFER,
        prefetch: int = 2,
    ) -> None:
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("num_steps", num_steps, 1),
            ("shuffle_buffer", shuffle_buffer, 1),
            ("seed", seed, 0),
            ("prefetch", prefetch, 0),
        ):
            if value < least:
                raise ConfigurationError(f"data loader elmo::windows: {name} has to be at least {least}, got {value}")
        if not isinstance(reader, BiLmReader):
            raise ConfigurationError(
                f"data loader elmo::windows needs the dataset reader elmo::bilm, got {type(reader).__name__}; "
                "for a task's text set it as the task_reader of one"
            )
        if reader.max_instances is not None:
            raise ConfigurationError(
                "data loader elmo::windows reads whole files, but the reader has "
                f"max_instances={reader.max_instances}; make a smaller file instead"
            )
        self.batch_size = batch_size
        self.num_steps = num_steps
        self.epoch = 0
        """The number, from 0, of the epoch being read; between two epochs, that of the next."""
        self.rank, self.world_size = 0, 1
        if is_distributed():
            self.rank, self.world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self._order = SentenceOrder(shuffle, seed, buffer_size=shuffle_buffer)
        self._prefetch = prefetch
        self._reader = reader
        self._source = reader.sentence_source(data_path)
        self._character_table = CharacterTable(reader.character_mapping)
        self._word_ids: Optional[WordIds] = None
        self._device: Optional[torch.device] = None
        self._first_batch = 0
        self._is_reading = False
        self._num_batches: Dict[SentenceOrder, int] = {}

    def index_with(self, vocab: Vocabulary) -> None:
        self._word_ids = WordIds(vocab, self._reader.namespace)

    def set_target_device(self, device: torch.device) -> None:
        self._device = device

    def iter_instances(self) -> Iterator[Instance]:
        """Yields nothing: there are no instances here, and the vocabulary "elmo::bilm" reads the text itself."""
        return iter(())

    def set_position(self, epoch: int, batch: int) -> None:
        """Makes the next iteration start at `batch` of `epoch`, both counted from 0, without indexing what it skips."""
        if epoch < 0 or batch < 0:
            raise ValueError(f"epochs and batches are counted from 0, got epoch {epoch} and batch {batch}")
        self.epoch = epoch
        self._first_batch = batch
        self._is_reading = False

    def __len__(self) -> int:
        """The number of batches of the epoch `self.epoch`, including those that `set_position` skips.

        It depends on the order, since sentences aren't cut to fit, and is found by dealing out the lengths alone. The
        first call takes a pass over the text.
        """
        return self._count_batches(self._epoch_order(self.epoch))

    def __iter__(self) -> Iterator[TensorDict]:
        """The batches of the next epoch, or of the one that `set_position` asked for."""
        if self._word_ids is None:
            raise ValueError("the windows need a vocabulary: call index_with(vocab) before iterating")
        if self._is_reading:  # the last epoch wasn't read to its end
            self.epoch += 1
        first_batch, self._first_batch = self._first_batch, 0
        self._is_reading = True
        return self._read_epoch(self.epoch, first_batch)

    def _read_epoch(self, epoch: int, first_batch: int) -> Iterator[TensorDict]:
        batches = self._batches(self._epoch_order(epoch), first_batch)
        if self._prefetch:
            batches = prefetched(batches, self._prefetch)
        try:
            for batch in batches:
                yield batch if self._device is None else move_to_device(batch, self._device)
        finally:
            batches.close()
        if self._is_reading and self.epoch == epoch:
            self.epoch += 1
            self._is_reading = False

    def _epoch_order(self, epoch: int) -> SentenceOrder:
        return replace(self._order, epoch=epoch) if self._order.shuffle else self._order

    def _count_batches(self, order: SentenceOrder) -> int:
        if order not in self._num_batches:
            dealers = [Dealer(self.batch_size, self.num_steps) for _ in range(self.world_size)]
            for index, lengths in enumerate(self._source.lengths(order)):
                for num_words in lengths:
                    dealers[index % self.world_size].deal(num_words + 1)
            self._num_batches[order] = max(dealer.num_batches for dealer in dealers)
        return self._num_batches[order]

    def _batches(self, order: SentenceOrder, first_batch: int) -> Generator[TensorDict, None, None]:
        batch = first_batch
        for window in self._windows(order, first_batch):
            yield self._tensors(window)
            batch += 1
        if batch == first_batch or self.world_size > 1:
            num_batches = self._count_batches(order)
            if first_batch > num_batches:
                raise ValueError(f"cannot start at batch {first_batch}: this epoch has {num_batches} batches")
            for _ in range(batch, num_batches):
                yield self._tensors([])

    def _windows(self, order: SentenceOrder, first_batch: int) -> Iterator[List["Segment"]]:
        """The segments of sentences in each window, from `first_batch` on."""
        dealer = Dealer(self.batch_size, self.num_steps)
        rows: List[Deque[PlacedSentence]] = [deque() for _ in range(self.batch_size)]
        first_position = first_batch * self.num_steps
        batch = first_batch
        for words in self._source.sentences(order, self.rank, self.world_size):
            while batch < dealer.batch_in_need:
                yield _cut(rows, batch * self.num_steps, self.num_steps)
                batch += 1
            row, position = dealer.deal(len(words) + 1)
            if position + len(words) + 1 > first_position:
                rows[row].append(PlacedSentence(position, [_BEGIN, *words, _END], self._classes(words)))
        while batch < dealer.num_batches:
            yield _cut(rows, batch * self.num_steps, self.num_steps)
            batch += 1

    def _classes(self, words: List[str]) -> numpy.ndarray:
        word_ids = self._word_ids
        assert word_ids is not None, "__iter__ has made sure of a vocabulary"
        return numpy.array([word_ids.begin_id, *word_ids(words), word_ids.end_id], dtype=numpy.int64)

    def _tensors(self, window: List["Segment"]) -> TensorDict:
        shape = (self.batch_size, self.num_steps)
        # Shape: (2, batch_size, num_steps); forward, then backward
        inputs = numpy.zeros((2, *shape), dtype=numpy.int64)
        targets = numpy.zeros((2, *shape), dtype=numpy.int64)
        mask = numpy.zeros(shape, dtype=bool)
        sentence_starts = numpy.zeros(shape, dtype=bool)
        types: Dict[Input, int] = {}
        for row, column, start, stop, sentence in window:
            place = slice(column, column + stop - start)
            for direction, step in enumerate((1, -1)):
                tokens = _read(sentence.tokens, start, stop, step)
                inputs[direction, row, place] = [types.setdefault(token, len(types) + 1) for token in tokens]
                targets[direction, row, place] = _read(sentence.classes, start + 1, stop + 1, step)
            mask[row, place] = True
            sentence_starts[row, column] = start == 0
        arrays = {
            "characters": self._character_table(types),
            "forward_inputs": inputs[0],
            "backward_inputs": inputs[1],
            "forward_targets": targets[0],
            "backward_targets": targets[1],
            "mask": mask,
            "sentence_starts": sentence_starts,
        }
        return {name: torch.from_numpy(values) for name, values in arrays.items()}


class Dealer:
    """Decides which row takes the next sentence: the one that runs short in the earliest batch, or the first of
    several.

    Only lengths matter, so the same rule deals out sentences and counts the batches they will make.
    """

    def __init__(self, num_rows: int, num_steps: int) -> None:
        self._num_steps = num_steps
        self._row_lengths = [0] * num_rows
        self._needs = [(0, row) for row in range(num_rows)]  # a heap of (batch in which the row runs short, row)

    @property
    def batch_in_need(self) -> int:
        """The first batch that not all rows can fill."""
        return self._needs[0][0]

    @property
    def num_batches(self) -> int:
        """How many batches it takes until all rows are read to their end."""
        return -(-max(self._row_lengths) // self._num_steps)

    def deal(self, num_positions: int) -> Tuple[int, int]:
        """The row that takes a sentence with this many positions, and where in the row it begins."""
        row = self._needs[0][1]
        position = self._row_lengths[row]
        self._row_lengths[row] = position + num_positions
        heapreplace(self._needs, ((position + num_positions) // self._num_steps, row))
        return row, position


class PlacedSentence(NamedTuple):
    """A sentence between its boundaries, and where in its row it begins. It has one position fewer than tokens."""

    position: int
    tokens: Sequence[Input]
    classes: numpy.ndarray

    @property
    def end(self) -> int:
        return self.position + len(self.tokens) - 1


class Segment(NamedTuple):
    """What a window holds of a sentence: its positions from `start` to `stop`, from `column` on in `row`."""

    row: int
    column: int
    start: int
    stop: int
    sentence: PlacedSentence


def _read(items: Any, start: int, stop: int, step: int) -> Any:
    """`items[::step][start:stop]`, for a step of 1 or -1, without a copy of all of them: a sentence may be long."""
    return items[start:stop] if step == 1 else items[len(items) - stop : len(items) - start][::-1]


def _cut(rows: List[Deque[PlacedSentence]], position: int, num_steps: int) -> List[Segment]:
    """The window of all rows that begins at `position`; sentences that end in it are taken off the rows."""
    segments = []
    for row, sentences in enumerate(rows):
        while sentences and sentences[0].position < position + num_steps:
            sentence = sentences[0]
            first = max(position, sentence.position)
            last = min(position + num_steps, sentence.end)
            segments.append(
                Segment(row, first - position, first - sentence.position, last - sentence.position, sentence)
            )
            if last < sentence.end:
                break
            sentences.popleft()
    return segments


class CharacterTable:
    """The characters of a batch's tokens as one array; each word type is computed once, while there is room."""

    MAX_TYPES = 200_000

    def __init__(self, mapping: CharacterMapping) -> None:
        self._mapping = mapping
        # Rows are kept as bytes: joining them is ten times as fast as converting tuples, and they take less memory.
        self._padding = _packed([0] * mapping.max_characters_per_token)
        self._rows: Dict[Input, bytes] = {
            _BEGIN: _packed(mapping.begin_sentence_ids),
            _END: _packed(mapping.end_sentence_ids),
        }

    def __call__(self, tokens: Iterable[Input]) -> numpy.ndarray:
        """A row for each token, after one of padding."""
        rows = [self._padding, *map(self._row, tokens)]
        # Shape: (num_tokens + 1, max_characters_per_token)
        return numpy.frombuffer(b"".join(rows), dtype=numpy.int16).reshape(len(rows), -1).astype(numpy.int64)

    def _row(self, token: Input) -> bytes:
        row = self._rows.get(token)
        if row is None:
            assert isinstance(token, str), "the boundaries have had their rows from the start"
            row = _packed(self._mapping.ids(token))
            if len(self._rows) < self.MAX_TYPES:
                self._rows[token] = row
        return row


def _packed(character_ids: Sequence[int]) -> bytes:
    return numpy.array(character_ids, dtype=numpy.int16).tobytes()


def prefetched(items: Generator[T, None, None], num_ahead: int) -> Generator[T, None, None]:
    """The same items in the same order, up to `num_ahead` of them prepared by a thread before they're asked for.

    The thread ends with the items, or when the iterator is closed.
    """
    end: Any = object()
    thread = ThreadPoolExecutor(1, thread_name_prefix="elmo::windows")
    try:
        ahead = deque(thread.submit(next, items, end) for _ in range(num_ahead))
        while (item := ahead.popleft().result()) is not end:
            ahead.append(thread.submit(next, items, end))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
        items.close()
