"""The context-independent vectors of words, computed in batches and written as HDF5 and as word2vec text."""

import gzip
from contextlib import ExitStack, contextmanager
from typing import Callable, Iterator, List, Sequence

import h5py
import numpy
import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from allennlp.nn.util import move_to_device

from elmo_plugin.characters import CharacterMapping
from elmo_plugin.embedding.embedder_api import ElmoEmbedder
from elmo_plugin.embedding.hdf5_file import new_hdf5_file
from elmo_plugin.files import replacing

_HDF5_ENDINGS = (".hdf5", ".h5")
_TEXT_ENDINGS = (".txt", ".vec", ".txt.gz", ".vec.gz")

Write = Callable[[Sequence[str], numpy.ndarray], object]


def check_output_name(output_file: str) -> None:
    """Refuses a file name whose ending isn't that of a known format."""
    if not output_file.endswith(_HDF5_ENDINGS + _TEXT_ENDINGS):
        raise ConfigurationError(
            f"can't tell in which format to write {output_file}: its name has to end in {' or '.join(_HDF5_ENDINGS)} "
            "for HDF5, "
            f"or in {', '.join(_TEXT_ENDINGS)} for word2vec's text format"
        )


def token_vectors(embedder: ElmoEmbedder, words: Sequence[str]) -> numpy.ndarray:
    """The token layer of words: float32, (words, dim), where dim is the width of one direction."""
    mapping = CharacterMapping(embedder.bilm.options.max_characters_per_token)
    ids = move_to_device(torch.tensor([mapping.ids(word) for word in words]), embedder.cuda_device)
    with torch.inference_mode():
        return embedder.bilm.token_layer(ids).float().cpu().numpy()


def write_token_vectors(
    embedder: ElmoEmbedder, words: List[str], output_files: Sequence[str], batch_size: int = 1024
) -> None:
    """Writes `words`, all distinct, and their vectors to each file, in the format that its ending selects."""
    dim = embedder.bilm.options.projection_dim
    with ExitStack() as stack:
        writes: List[Write] = []
        for output_file in output_files:
            check_output_name(output_file)
            open_file = _hdf5_file if output_file.endswith(_HDF5_ENDINGS) else _text_file
            writes.append(stack.enter_context(open_file(output_file, words, dim)))
        for start in Tqdm.tqdm(range(0, len(words), batch_size), desc="embedding", unit=" batches"):
            batch = words[start : start + batch_size]
            vectors = token_vectors(embedder, batch)
            for write in writes:
                write(batch, vectors)


@contextmanager
def _hdf5_file(path: str, words: List[str], dim: int) -> Iterator[Write]:
    with new_hdf5_file(path) as (file, check):
        file.create_dataset("words", data=words, dtype=h5py.string_dtype())
        embedding = file.create_dataset("embedding", (len(words), dim), dtype="float32")
        num_written = 0

        def write(batch: Sequence[str], vectors: numpy.ndarray) -> None:
            nonlocal num_written
            embedding[num_written : num_written + len(batch)] = vectors
            num_written += len(batch)
            check()

        yield write


@contextmanager
def _text_file(path: str, words: List[str], dim: int) -> Iterator[Write]:
    line_form = "%s" + " %.8g" * dim + "\n"
    with replacing(path) as temporary, ExitStack() as stack:
        if path.endswith(".gz"):
            file = stack.enter_context(gzip.open(temporary, "wt", encoding="utf-8"))
        else:
            file = stack.enter_context(open(temporary, "w", encoding="utf-8"))
        file.write(f"{len(words)} {dim}\n")
        yield lambda batch, vectors: file.writelines(
            line_form % (word, *vector) for word, vector in zip(batch, vectors.tolist(), strict=True)
        )
