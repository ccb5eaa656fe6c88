"""Sentences from text files: found, streamed, put in order, never loaded whole.

A corpus is one or more files ("shards") of UTF-8 text, plain or gzipped, with one tokenised sentence per line. Tokens
are what `str.split()` finds; lines without any are skipped.
"""

import glob
import logging
import os
from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar

import numpy
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.common.tqdm import Tqdm
from allennlp.common.util import is_global_primary

from elmo_plugin.files import read_lines

logger = logging.getLogger(__name__)

Shard = TypeVar("Shard")
Item = TypeVar("Item")

DEFAULT_SHUFFLE_BUFFER = 100_000
_NOTHING = object()


def find_shards(data_path: Any) -> List[str]:
    """The files that a path, a glob, a folder, or a list of those means, sorted within each entry.

    A folder means the files directly in it, except hidden ones; `folder/**/*.gz` also reaches its subfolders.
    """
    if isinstance(data_path, (str, os.PathLike)):
        data_path = [data_path]
    if not isinstance(data_path, (list, tuple)) or not data_path:
        raise ConfigurationError(f"a corpus is a path, a glob, a folder, or a list of those; got {data_path!r}")
    shards = [shard for path in data_path for shard in _expand(os.fspath(path))]
    repeated = [shard for shard, count in Counter(shards).items() if count > 1]
    if repeated:
        raise ConfigurationError(
            f"the corpus {data_path} names {repeated[0]} more than once; make its entries disjoint"
        )
    return shards


def _expand(path: str) -> List[str]:
    if "://" in path:
        return [str(cached_path(path))]
    path = os.path.expanduser(path)
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        found = [os.path.join(path, name) for name in sorted(os.listdir(path)) if not name.startswith(".")]
        kind = "the folder has no files directly in it; for its subfolders write a glob, such as folder/**/*.txt"
    elif glob.has_magic(path):
        found = sorted(glob.glob(path, recursive=True))
        kind = "no file matches this glob"
    else:
        raise ConfigurationError(f"{path}: no such file or folder of text")
    files = [name for name in found if os.path.isfile(name)]
    if not files:
        raise ConfigurationError(f"{path}: {kind}")
    return files


@dataclass(frozen=True)
class SentenceOrder:
    """The order of an epoch's sentences: that of the files, or shuffled by `seed` and `epoch` in bounded memory.

    Shuffled means: the shards come in random order, and each stretch of `buffer_size` sentences in the stream they form
    is permuted. So sentences mix across shards too, and a shard smaller than the buffer is fully shuffled. The first
    stretch has a random length, so that the borders between stretches differ from epoch to epoch.

    The order depends only on the seed, the epoch and the numbers of sentences. So whatever is stored for each sentence,
    such as its length, can be put in the same order without reading the text.
    """

    shuffle: bool = False
    seed: int = 0
    epoch: int = 0
    buffer_size: int = DEFAULT_SHUFFLE_BUFFER

    def arrange(self, shards: Sequence[Shard], read: Callable[[Shard], Iterable[Item]]) -> Iterator[Item]:
        """The items of all shards, where `read` gives those of one."""
        if not self.shuffle:
            yield from chain.from_iterable(map(read, shards))
            return
        random = numpy.random.default_rng([self.seed, self.epoch])
        shuffled_shards = [shards[index] for index in random.permutation(len(shards))]
        items = chain.from_iterable(map(read, shuffled_shards))
        stretch = list(islice(items, int(random.integers(1, self.buffer_size + 1))))
        while stretch:
            for index in random.permutation(len(stretch)).tolist():
                yield stretch[index]
            stretch.clear()  # before the next one is read: only one is ever held
            stretch.extend(islice(items, self.buffer_size))


FILE_ORDER = SentenceOrder()


class SentenceSource:
    """Where sentences come from: shards of items, an item being a sentence in whatever form is cheapest to hold.

    A sentence longer than `max_sentence_length` words is given as several sentences of at most that length; the log
    says how many there were.
    """

    name: str
    shards: Sequence[str]

    def __init__(self, max_sentence_length: Optional[int] = None) -> None:
        if max_sentence_length is not None and max_sentence_length < 1:
            raise ConfigurationError(f"max_sentence_length has to be at least 1, got {max_sentence_length}")
        self.max_sentence_length = max_sentence_length
        self._num_words: Optional[Dict[str, array]] = None

    def items(self, shard: str) -> Iterator[Any]:
        raise NotImplementedError

    def words(self, item: Any) -> List[str]:
        raise NotImplementedError

    def scan(self, description: str) -> Iterator[Tuple[str, List[str]]]:
        """Each item's shard and words, in file order, with a progress bar."""
        items = ((shard, item) for shard in self.shards for item in self.items(shard))
        for shard, item in Tqdm.tqdm(items, desc=description, unit=" sentences", disable=not is_global_primary()):
            yield shard, self.words(item)

    def sentences(self, order: SentenceOrder = FILE_ORDER, rank: int = 0, world_size: int = 1) -> Iterator[List[str]]:
        """The words of each sentence; of `world_size` processes, `rank` takes every `world_size`-th item."""
        num_split = 0
        for item in islice(self._arranged(order), rank, None, world_size):
            words = self.words(item)
            if self.max_sentence_length is None or len(words) <= self.max_sentence_length:
                yield words
                continue
            num_split += 1
            for start in range(0, len(words), self.max_sentence_length):
                yield words[start : start + self.max_sentence_length]
        if num_split:
            logger.info("%s: split %d sentences of more than %d words", self.name, num_split, self.max_sentence_length)

    def lengths(self, order: SentenceOrder = FILE_ORDER) -> Iterator[List[int]]:
        """For each item, of all processes, the lengths of the sentences that `sentences` makes of it.

        The first call reads the corpus once; after that four bytes are held for each item.
        """
        if self._num_words is None:
            self._num_words = self._measure()
        longest = self.max_sentence_length
        for num_words in order.arrange(self.shards, self._num_words.__getitem__):
            if longest is None or num_words <= longest:
                yield [num_words]
            else:
                yield [min(longest, num_words - start) for start in range(0, num_words, longest)]

    def _measure(self) -> Dict[str, array]:
        num_words = {shard: array("I") for shard in self.shards}
        for shard, words in self.scan("measuring sentences"):
            num_words[shard].append(len(words))
        if not any(num_words.values()):
            raise self._empty()
        return num_words

    def _arranged(self, order: SentenceOrder) -> Iterator[Any]:
        items = order.arrange(self.shards, self.items)
        first = next(items, _NOTHING)
        if first is _NOTHING:
            raise self._empty()
        return chain([first], items)

    def _empty(self) -> ConfigurationError:
        return ConfigurationError(f"{self.name}: it has no sentences")


class TextFiles(SentenceSource):
    """The sentences of text files; an item is a line. See `find_shards` for what `data_path` may be."""

    def __init__(self, data_path: Any, max_sentence_length: Optional[int] = None) -> None:
        super().__init__(max_sentence_length)
        self.shards = find_shards(data_path)
        self.name = str(data_path)
        self._stamps: Dict[str, Tuple[int, int]] = {}

    def items(self, shard: str) -> Iterator[str]:
        return self._lines(shard)

    def words(self, item: str) -> List[str]:
        return item.split()

    def scan(self, description: str) -> Iterator[Tuple[str, List[str]]]:
        num_bytes = sum(map(os.path.getsize, self.shards))
        settings = {"unit": "B", "unit_scale": True, "disable": not is_global_primary()}
        with Tqdm.tqdm(total=num_bytes, desc=description, **settings) as bar:
            for shard in self.shards:
                for line in self._lines(shard, advance=bar.update):
                    yield shard, line.split()

    def _lines(self, shard: str, advance: Callable[[int], Any] = lambda num_bytes: None) -> Iterator[str]:
        """The lines of a shard, which must not change after it was first read, nor while it is being read: the number
        of batches rests on the lengths that were measured.
        """
        self._refuse_changed(shard)
        yield from read_lines(shard, advance=advance)
        self._refuse_changed(shard)

    def _refuse_changed(self, shard: str) -> None:
        try:
            status = os.stat(shard)
        except OSError as error:
            raise ConfigurationError(f"{shard} can't be read any more ({error.strerror}); put it back") from error
        size, _ = stamp = status.st_size, status.st_mtime_ns
        size_before, _ = before = self._stamps.setdefault(shard, stamp)
        if stamp != before:
            raise ConfigurationError(
                f"{shard} was changed after it was first read, when it had {size_before} bytes; now it has {size}. "
                "Start the run again, on files that don't change."
            )
