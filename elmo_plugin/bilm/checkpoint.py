"""The published HDF5 layout, as one table that is read in both directions.

Parameters keep the file's convention (261 character rows, no + 1 in the forget bias, the carry gate's sign), so each
entry only moves numbers about, and reading then writing gives back every dataset bit for bit.
"""

import json
import logging
import os
import re
from contextlib import contextmanager
from typing import Callable, Dict, Iterator, List, NamedTuple, Tuple

import h5py
import numpy
import torch

from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.characters.mapping import DEFAULT_MAX_CHARACTERS
from elmo_plugin.errors import ConfigurationError
from elmo_plugin.files import PathOrStr, read_json, replacing

logger = logging.getLogger(__name__)

BFLOAT16 = 8
"""The significant binary digits of a bfloat16."""


class Layout(NamedTuple):
    """How the parameters of one entry lie in the file."""

    to_file: Callable[[List[torch.Tensor]], torch.Tensor]
    from_file: Callable[[torch.Tensor, List[torch.Size]], List[torch.Tensor]]


def _side_by_side(tensors: List[torch.Tensor]) -> torch.Tensor:
    """Joins matrices. Those without values, on the meta device, are joined by their shapes alone: `torch.cat` would
    import torch's compiler for them, which takes longer than everything else that embedding imports.
    """
    if tensors[0].is_meta:
        return torch.empty(tensors[0].size(0), sum(tensor.size(1) for tensor in tensors), device="meta")
    return torch.cat(tensors, dim=1)


PLAIN = Layout(lambda tensors: tensors[0], lambda array, shapes: [array])
TRANSPOSED = Layout(lambda tensors: tensors[0].t(), lambda array, shapes: [array.t()])
# (num, char_dim, width) here, (1, width, char_dim, num) there.
CONVOLUTION = Layout(
    lambda tensors: tensors[0].permute(2, 1, 0)[None], lambda array, shapes: [array[0].permute(2, 1, 0)]
)
# The file keeps an LSTM's input and state weights in one matrix.
INPUT_AND_STATE = Layout(
    lambda tensors: _side_by_side(tensors).t(),
    lambda array, shapes: list(array.t().split([shape[1] for shape in shapes], dim=1)),
)


class Entry(NamedTuple):
    """One dataset of the file and the parameters of `BiLm` it holds."""

    dataset: str
    parameters: Tuple[str, ...]
    layout: Layout


def entries(options: BiLmOptions) -> List[Entry]:
    """The whole file of a biLM of these sizes."""
    table = [Entry("char_embed", ("character_cnn.char_embedding",), PLAIN)]
    for index in range(len(options.filters)):
        table.append(Entry(f"CNN/W_cnn_{index}", (f"character_cnn.convolutions.{index}.weight",), CONVOLUTION))
        table.append(Entry(f"CNN/b_cnn_{index}", (f"character_cnn.convolutions.{index}.bias",), PLAIN))
    for index in range(options.num_highway):
        for gate in ("carry", "transform"):
            table.append(
                Entry(f"CNN_high_{index}/W_{gate}", (f"character_cnn.highways.{index}.{gate}.weight",), TRANSPOSED)
            )
            table.append(Entry(f"CNN_high_{index}/b_{gate}", (f"character_cnn.highways.{index}.{gate}.bias",), PLAIN))
    if options.has_cnn_projection:
        table.append(Entry("CNN_proj/W_proj", ("character_cnn.projection.weight",), TRANSPOSED))
        table.append(Entry("CNN_proj/b_proj", ("character_cnn.projection.bias",), PLAIN))
    for direction, layers in enumerate(("forward_layers", "backward_layers")):
        for index in range(options.num_layers):
            cell, lstm = _cell_name(direction, index), f"{layers}.{index}"
            table.append(Entry(f"{cell}/W_0", (f"{lstm}.input_weight", f"{lstm}.state_weight"), INPUT_AND_STATE))
            table.append(Entry(f"{cell}/B", (f"{lstm}.bias",), PLAIN))
            if options.has_projection:
                table.append(Entry(f"{cell}/W_P_0", (f"{lstm}.projection_weight",), TRANSPOSED))
    return table


def _cell_name(direction: int, index: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{index}/LSTMCell"


def _one_layer_name(dataset: str) -> str:
    """What bilm-tf's trainer calls a dataset of a model with one layer."""
    return dataset.replace("/MultiRNNCell/Cell0", "")


def read_options(options_file: PathOrStr) -> BiLmOptions:
    """Reads an options.json."""
    options = read_json(options_file, "give the biLM's options.json")
    return BiLmOptions.from_json(options, name=str(options_file))


def read(options_file: PathOrStr, weight_file: PathOrStr) -> BiLm:
    """The biLM of a pair of files. The HDF5 is compared with the options before anything of their sizes is built."""
    options = read_options(options_file)
    with _opened(weight_file) as file:
        _check_counts(file, options, str(options_file), str(weight_file))
        datasets = _find_datasets(file, options, str(weight_file))
        with torch.device("meta"):  # has shapes but takes no memory
            shapes = {name: parameter.detach() for name, parameter in BiLm(options).named_parameters()}
        for entry in entries(options):
            expected = entry.layout.to_file([shapes[name] for name in entry.parameters]).shape
            _check_dataset(file[datasets[entry.dataset]], tuple(expected), str(weight_file))
        bilm = BiLm(options)
        parameters = dict(bilm.named_parameters())
        for entry in entries(options):
            array = torch.from_numpy(file[datasets[entry.dataset]][...].astype(numpy.float32, copy=False))
            tensors = entry.layout.from_file(array, [parameters[name].shape for name in entry.parameters])
            with torch.no_grad():
                for name, tensor in zip(entry.parameters, tensors, strict=True):
                    parameters[name].copy_(tensor)
    return bilm


@contextmanager
def _opened(weight_file: PathOrStr) -> Iterator[h5py.File]:
    if not os.path.isfile(weight_file):
        raise ConfigurationError(f"there is no biLM weight file {weight_file}")
    try:
        with h5py.File(weight_file, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError) as error:
        raise ConfigurationError(
            f"{weight_file} can't be read as HDF5; it may be truncated, or something else such as a git-lfs pointer: "
            f"{error}"
        ) from error


_COUNTED = {
    "lstm.n_layers": ("num_layers", r"RNN_0/RNN/(?:MultiRNNCell/Cell\d+/)?LSTMCell/W_0"),
    "char_cnn.n_highway": ("num_highway", r"CNN_high_\d+/W_carry"),
    "char_cnn.filters": ("num_filter_widths", r"CNN/W_cnn_\d+"),
}


def _check_counts(file: h5py.File, options: BiLmOptions, options_file: str, weight_file: str) -> None:
    """Compares the sizes that decide how many datasets there are with the datasets the file has."""
    present = _dataset_names(file)
    for key, (attribute, pattern) in _COUNTED.items():
        num_stated = getattr(options, attribute)
        num_present = sum(re.fullmatch(pattern, name) is not None for name in present)
        if num_stated != num_present:
            raise ConfigurationError(
                f"{options_file}: {key} makes {num_stated}, but {weight_file} holds {num_present}: correct it, or take "
                "the options.json that belongs to the weights"
            )


def _dataset_names(file: h5py.File) -> List[str]:
    names: List[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return names


def _find_datasets(file: h5py.File, options: BiLmOptions, file_name: str) -> Dict[str, str]:
    """Where each dataset of the table is in the file; refuses a file that lacks one, or has more layers or filters than
    stated.
    """
    present = _dataset_names(file)
    expected = [entry.dataset for entry in entries(options)]
    rename = _one_layer_name if options.num_layers == 1 and any("/RNN/LSTMCell/" in name for name in present) else str
    found = {dataset: rename(dataset) for dataset in expected}
    missing = [name for name in found.values() if name not in present]
    if missing:
        raise ConfigurationError(
            f"{file_name} has no dataset {missing[0]!r} ({len(missing)} of {len(expected)} are missing); does its "
            "options.json belong to it?"
        )
    surplus = [name for name in present if name.startswith(("CNN", "RNN_")) and name not in found.values()]
    if surplus:
        raise ConfigurationError(
            f"{file_name} has a dataset {surplus[0]!r} that its options.json has no place for: the two don't belong "
            "together"
        )
    return found


def _check_dataset(dataset: h5py.Dataset, expected_shape: Tuple[int, ...], file_name: str) -> None:
    if dataset.shape != expected_shape:
        raise ConfigurationError(
            f"{file_name}: the dataset {dataset.name[1:]!r} has shape {dataset.shape}, but the options ask for "
            f"{expected_shape}; does its options.json belong to it?"
        )
    if dataset.dtype.kind != "f" or dataset.is_virtual or dataset.external:
        raise ConfigurationError(
            f"{file_name}: the dataset {dataset.name[1:]!r} has to hold floating point numbers of its own, but has the "
            f"type {dataset.dtype}{', in other files' * bool(dataset.is_virtual or dataset.external)}"
        )


def write(
    bilm: BiLm, weight_file: PathOrStr, options_file: PathOrStr, compact: bool = False, significant_bits: int = BFLOAT16
) -> None:
    """Writes the published pair of files. Each appears under its name only when it is complete.

    `compact` rounds the weights to so many significant binary digits, by default to bfloat16's, and compresses them.
    They are stored as float32 all the same, so that any reader of the format loads them; with bfloat16's the file takes
    about 39 % of the space.
    """
    for reason in reasons_allennlp_cannot_load(bilm.options):
        logger.warning("AllenNLP's own Elmo won't load this biLM: %s", reason)
    parameters = {name: parameter.detach().cpu() for name, parameter in bilm.named_parameters()}
    with replacing(weight_file) as temporary, h5py.File(temporary, "w") as file:
        for entry in entries(bilm.options):
            array = entry.layout.to_file([parameters[name] for name in entry.parameters]).float()
            if compact:
                # With shuffle the zeroed low bytes of all numbers lie together, and compress to nothing.
                rounded = _rounded(array, significant_bits).numpy()
                file.create_dataset(entry.dataset, data=rounded, shuffle=True, compression="gzip", compression_opts=9)
            else:
                file.create_dataset(entry.dataset, data=array.numpy())
    with replacing(options_file) as temporary:
        temporary.write_text(json.dumps(bilm.options.to_json(), indent=2) + "\n", encoding="utf-8")


def _rounded(array: torch.Tensor, significant_bits: int) -> torch.Tensor:
    mantissas, exponents = torch.frexp(array)
    return torch.ldexp((mantissas * 2**significant_bits).round(), exponents - significant_bits)


def reasons_allennlp_cannot_load(options: BiLmOptions) -> List[str]:
    """Empty for a biLM that AllenNLP 2.10.1's Elmo can load."""
    reasons = {
        f"it reads {options.max_characters_per_token} characters per token, AllenNLP {DEFAULT_MAX_CHARACTERS}": (
            options.max_characters_per_token != DEFAULT_MAX_CHARACTERS
        ),
        "it has no skip connections": not options.use_skip_connections,
        "its LSTMs have no projection": not options.has_projection,
        "its character CNN has no projection": not options.has_cnn_projection,
    }
    return [reason for reason, holds in reasons.items() if holds]
