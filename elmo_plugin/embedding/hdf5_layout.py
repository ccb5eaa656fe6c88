"""How vectors lie in the HDF5 files of `allennlp elmo`: the way AllenNLP 0.9 wrote them.

There is one dataset per sentence, keyed by its line's index from 0: (layers, tokens, dim) for the format `all`,
(tokens, dim) for `top` and `average`. The dataset `sentence_to_index` holds one string, the JSON of {sentence: key};
for a sentence that occurs several times it gives the last index.
"""

import json
from typing import Dict, Optional, Union

import h5py
import numpy

from elmo_plugin.errors import ConfigurationError

LAYER_CHOICES = ("all", "top", "average")
SENTENCE_TO_INDEX = "sentence_to_index"


def select_layers(layers: numpy.ndarray, choice: Union[str, int]) -> numpy.ndarray:
    """Of vectors of shape (layers, tokens, dim): `all` of them, the `top` layer, the layers' `average`, or the layer
    with this index, where 0 is the context-independent one.
    """
    if isinstance(choice, str):
        check_layers(choice)
        return {"all": layers, "top": layers[-1], "average": layers.mean(axis=0)}[choice]
    if not 0 <= choice < len(layers):
        raise ConfigurationError(f"there is no layer {choice}: this biLM's layers are 0 to {len(layers) - 1}")
    return layers[choice]


def check_layers(choice: Union[str, int]) -> None:
    """Refuses what can't be a choice of layers for any biLM."""
    if isinstance(choice, bool) or (isinstance(choice, str) and choice not in LAYER_CHOICES):
        raise ConfigurationError(f"layers are {', '.join(LAYER_CHOICES)} or an index from 0, not {choice!r}")


class VectorWriter:
    """Writes sentences' vectors into HDF5 files in this layout, and remembers the sentences for `sentence_to_index`
    unless `forget_sentences`.

    With `use_sentence_keys` a sentence is its own key, and `sentence_to_index` is the JSON of an empty object. HDF5
    takes a "/" in it as a path: its dataset is in groups, where `file[sentence]` finds it. A sentence that occurs again
    has the same vectors and is stored once; with `unique_keys`, for vectors that depend on what came before, it is
    refused.
    """

    def __init__(
        self, forget_sentences: bool = False, use_sentence_keys: bool = False, unique_keys: bool = False
    ) -> None:
        self._use_sentence_keys = use_sentence_keys
        self._unique_keys = unique_keys
        self._forget_sentences = forget_sentences
        self._index_of: Dict[str, str] = {}

    def write(self, file: h5py.File, index: int, sentence: str, vectors: numpy.ndarray) -> None:
        """Writes the vectors of the sentence on this line, unless they are in the file already."""
        self.remember(index, sentence)
        if not self._use_sentence_keys:
            file.create_dataset(str(index), data=vectors)
            return
        check_sentence_key(index, sentence)
        if not self._is_stored(file, index, sentence):
            file[sentence] = vectors
            if file[sentence].name != f"/{sentence}":
                file[sentence].attrs["sentence"] = sentence

    def remember(self, index: int, sentence: str) -> None:
        """Notes where the vectors of a sentence are."""
        if not self._forget_sentences and not self._use_sentence_keys:
            self._index_of[sentence] = str(index)

    def read(self, file: h5py.File, index: int, sentence: str) -> Optional[numpy.ndarray]:
        """The vectors that `write` was given for this line, if it was this sentence."""
        dataset = file.get(sentence if self._use_sentence_keys else str(index))
        return None if dataset is None else dataset[...]

    def write_index(self, file: h5py.File) -> None:
        if not self._forget_sentences:
            text = file.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=h5py.string_dtype())
            text[0] = json.dumps(self._index_of)

    def _is_stored(self, file: h5py.File, index: int, sentence: str) -> bool:
        steps = [step for step in sentence.split("/") if step not in ("", ".")]
        for end in range(1, len(steps)):
            if isinstance(file.get("/".join(steps[:end])), h5py.Dataset):
                raise _bad_key(index, sentence, f"{'/'.join(steps[:end])!r} is another line's, and a path can't go on")
        present = file.get(sentence)
        if present is None:
            return False
        if isinstance(present, h5py.Group):
            raise _bad_key(index, sentence, "it is the beginning of another line's path")
        if present.attrs.get("sentence", present.name[1:]) != sentence:
            raise _bad_key(index, sentence, f"HDF5 takes it for the same path as {present.name[1:]!r}")
        if self._unique_keys:
            raise _bad_key(index, sentence, "it occurs twice, with different vectors")
        return True


def check_sentence_key(index: int, sentence: str) -> None:
    """Refuses a sentence that can't be a key in any file."""
    steps = [step for step in sentence.split("/") if step not in ("", ".")]
    if not steps:
        raise _bad_key(index, sentence, "it isn't a name in HDF5")
    if "\0" in sentence:
        raise _bad_key(index, sentence, "it holds a zero byte, where HDF5 ends a name")
    if steps == [SENTENCE_TO_INDEX]:
        raise _bad_key(index, sentence, "the index has this name")


def _bad_key(index: int, sentence: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"line {index + 1} can't be its own key, since {problem}: {_shortened(sentence)!r}. Leave out "
        f"--use-sentence-keys: the keys are then line indices, and {SENTENCE_TO_INDEX} finds a sentence's"
    )


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= 200 else f"{sentence[:200]}..."
