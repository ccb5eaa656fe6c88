"""BiLMs by name: those that ship with the plugin, and the published ones."""

from pathlib import Path
from typing import Dict, NamedTuple

SHIPPED = "wiki-base"
"""The biLM that is taken where none is named. It comes with its softmax, so that it names words too."""

SHIPPED_SMALLER = "wiki-small"
"""One of half the size, for where speed matters more."""

SHIPPED_LARGER = "wiki-large"
"""One with larger vectors, which predicts text better. All three have a model card, `README.md`, in their
folders."""

_PUBLISHED = "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo"
PUBLISHED_ADDRESSES = (f"{_PUBLISHED}/", "https://allennlp.s3.amazonaws.com/models/elmo/")
"""How addresses of the published biLMs begin: two names of one place."""


class BiLmFiles(NamedTuple):
    """Where a biLM's two files are: paths or URLs."""

    options_file: str
    weight_file: str


def _shipped(name: str) -> BiLmFiles:
    folder = Path(__file__).parent / name
    return BiLmFiles(str(folder / "options.json"), str(folder / "weights.hdf5"))


def _published(folder: str, stem: str, weights: str = "weights") -> BiLmFiles:
    return BiLmFiles(f"{_PUBLISHED}/{folder}/{stem}_options.json", f"{_PUBLISHED}/{folder}/{stem}_{weights}.hdf5")


def _published_sizes(sizes: str) -> BiLmFiles:
    return _published(sizes, f"elmo_{sizes}")


PRETRAINED: Dict[str, BiLmFiles] = {
    SHIPPED: _shipped(SHIPPED),
    SHIPPED_SMALLER: _shipped(SHIPPED_SMALLER),
    SHIPPED_LARGER: _shipped(SHIPPED_LARGER),
    "small": _published_sizes("2x1024_128_2048cnn_1xhighway"),
    "medium": _published_sizes("2x2048_256_2048cnn_1xhighway"),
    "original": _published_sizes("2x4096_512_2048cnn_2xhighway"),
    "original-5.5b": _published_sizes("2x4096_512_2048cnn_2xhighway_5.5B"),
    "portuguese": _published("contributed/pt", "elmo_pt"),
    "pubmed": _published("contributed/pubmed", "elmo_2x4096_512_2048cnn_2xhighway", "weights_PubMed_only"),
}
"""The first three ship; the others are fetched from their public addresses on first use, and kept in AllenNLP's
cache."""

PUBLISHED_SIZES: Dict[str, int] = {
    PRETRAINED["original"].options_file: 336,
    PRETRAINED["original"].weight_file: 374_434_792,
}
"""The bytes of published files, where they are known; no checksum of any was ever published."""
