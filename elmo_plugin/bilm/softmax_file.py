"""softmax.hdf5: a biLM's softmax, in a file beside the published two, which hold none.

With it a biLM's folder is a language model again, see `language_model_folder.py`. The weights are rounded to eight
bits or fewer, with a scale for each word; eight take a quarter of the space.
"""

import os
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

import h5py
import numpy
import torch

from elmo_plugin.bilm.pretrained import PRETRAINED
from elmo_plugin.errors import ConfigurationError
from elmo_plugin.files import PathOrStr, replacing

NAME = "softmax.hdf5"
MAX_BITS = 8
ALWAYS_ALLOWED_BYTES, MAX_RATIO = 2**26, 100


class WordSoftmax(NamedTuple):
    words: List[str]
    weight: torch.Tensor  # (num_words, dim)
    bias: torch.Tensor  # (num_words,)


def find(name: str) -> Optional[Path]:
    """The softmax of a biLM that has one beside its two files, by the biLM's name or folder."""
    path = Path(PRETRAINED[name].options_file).with_name(NAME) if name in PRETRAINED else Path(name) / NAME
    return path if path.is_file() else None


def write(softmax: WordSoftmax, path: PathOrStr, bits: int = MAX_BITS) -> None:
    words, weight, bias = softmax
    scale = weight.abs().amax(dim=1).clamp(min=1e-12) / (2 ** (bits - 1) - 1)
    compression = {"compression": "gzip", "compression_opts": 9, "shuffle": True}
    with replacing(Path(path)) as temporary, h5py.File(temporary, "w") as file:
        text = "\n".join(words).encode("utf-8")
        file.create_dataset("words", data=numpy.frombuffer(text, dtype=numpy.uint8), **compression)
        file.create_dataset("weight", data=(weight / scale[:, None]).round().to(torch.int8).numpy(), **compression)
        file.create_dataset("scale", data=scale.numpy(), **compression)
        file.create_dataset("bias", data=bias.numpy(), **compression)


def read(path: PathOrStr, dim: Optional[int] = None) -> WordSoftmax:
    """The softmax, over states of `dim` numbers if that is known. Raises ConfigurationError for a file that is damaged
    or another's.
    """
    try:
        with h5py.File(path, "r") as file:
            (num_words,) = file["scale"].shape
            dim = file["weight"].shape[1] if dim is None else dim
            words = _dataset(file, "words", "u1")
            weight = torch.from_numpy(_dataset(file, "weight", "i1", (num_words, dim))).float()
            weight *= torch.from_numpy(_dataset(file, "scale", "f4", (num_words,)))[:, None]
            bias = torch.from_numpy(_dataset(file, "bias", "f4", (num_words,)))
        softmax = WordSoftmax(words.tobytes().decode("utf-8").split("\n"), weight, bias)
        if len(set(softmax.words)) != num_words:
            raise ValueError(f"it has {len(set(softmax.words))} different words for {num_words} weights")
        return softmax
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
        raise ConfigurationError(
            f"{path} can't be read as a softmax of this biLM: {error}. Write it again by bilm-export."
        ) from error


def _dataset(file: h5py.File, name: str, kind: str, shape: Optional[Tuple[int, ...]] = None) -> numpy.ndarray:
    """A dataset, whose type and size are looked at before it is read."""
    dataset = file[name]
    if dataset.dtype != kind or dataset.is_virtual or dataset.external:
        raise ValueError(f"{name} is of type {dataset.dtype}, or lies in another file")
    if shape is not None and dataset.shape != shape:
        raise ValueError(f"{name} is {dataset.shape} large, where {shape} was expected")
    if dataset.nbytes > max(ALWAYS_ALLOWED_BYTES, MAX_RATIO * os.path.getsize(file.filename)):
        raise ValueError(f"{name} would take {dataset.nbytes:,} bytes of memory, out of all proportion to the file")
    return dataset[...]
