"""Vectors beside the things they belong to, in one pass over any number of sentences."""

from collections import deque
from typing import Callable, Deque, Iterable, Iterator, List, Tuple, TypeVar

import numpy

from elmo_plugin.embedding import ElmoEmbedder

Item = TypeVar("Item")


def embed_items(
    embedder: ElmoEmbedder, items: Iterable[Item], tokens_of: Callable[[Item], List[str]], batch_size: int
) -> Iterator[Tuple[Item, numpy.ndarray]]:
    """Each item with the vectors of its tokens, (layers, tokens, dim); no more items are held than are looked ahead."""
    waiting: Deque[Item] = deque()

    def sentences() -> Iterator[List[str]]:
        for item in items:
            waiting.append(item)
            yield tokens_of(item)

    for vectors in embedder.embed_sentences(sentences(), batch_size):
        yield waiting.popleft(), vectors
