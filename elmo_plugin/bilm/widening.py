"""Makes a biLM wider without changing what it computes, so that a larger one needn't be trained from nothing.

New character filters, new cells, and new dimensions of the token and state vectors start at random; what leads from
them into the old ones starts at zero, in the highway layers, the LSTMs and the softmax. So the old ones carry the old
model's numbers, and training finds a use for the new ones.
"""

import dataclasses
from typing import List, Optional, Tuple

import torch
from torch.nn import functional

from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.char_cnn import CharacterCnn
from elmo_plugin.bilm.projected_lstm import ProjectedLstm
from elmo_plugin.bilm.softmax_file import WordSoftmax
from elmo_plugin.errors import ConfigurationError

NUM_GATES = 4


Filters = Tuple[Tuple[int, int], ...]
"""How many character filters there are of each width: (width, number), as options.json has them."""


def widen(bilm: BiLm, cell_dim: int, projection_dim: int, filters: Optional[Filters] = None) -> BiLm:
    """A biLM of `cell_dim` cells and `projection_dim`-d states whose first dimensions are those of `bilm`. `filters`
    has the old widths in their order, with as many filters or more, and may go on with others; by default they stay.
    """
    old = bilm.options
    new = dataclasses.replace(
        old, cell_dim=cell_dim, projection_dim=projection_dim, filters=old.filters if filters is None else filters
    )
    if cell_dim < old.cell_dim or projection_dim < old.projection_dim:
        raise ConfigurationError(
            f"{cell_dim} cells and {projection_dim}-d projections are fewer than the {old.cell_dim} and "
            f"{old.projection_dim} that the biLM has; it can only be made wider"
        )
    if not (old.has_projection and old.has_cnn_projection and new.has_projection and new.has_cnn_projection):
        raise ConfigurationError(
            f"only a biLM with projections can be made wider, into one with projections: projection_dim (here "
            f"{old.projection_dim}, then {projection_dim}) has to differ from the number of cells ({old.cell_dim}, "
            f"then {cell_dim}) and of character filters ({old.num_filters}, then {new.num_filters})"
        )
    kept = _kept_filters(old.filters, new.filters)
    wide = BiLm(new)
    with torch.no_grad():
        _widen_character_cnn(bilm.character_cnn, wide.character_cnn, kept)
        for layer, wide_layer in zip(_lstms(bilm), _lstms(wide), strict=True):
            _widen_lstm(layer, wide_layer)
    return wide


def _kept_filters(old: Filters, new: Filters) -> torch.Tensor:
    """Where the old filters are among the new ones."""
    pairs = zip(old, new, strict=False)
    if len(new) < len(old) or any(width != wide or num > more for (width, num), (wide, more) in pairs):
        raise ConfigurationError(
            f"character filters {[list(pair) for pair in new]} have to begin with the widths of the biLM's own, as "
            f"many of each or more: {[list(pair) for pair in old]}"
        )
    starts = [sum(num for _, num in new[:index]) for index in range(len(old))]
    return torch.cat([torch.arange(start, start + num) for start, (_, num) in zip(starts, old, strict=True)])


def _widen_character_cnn(cnn: CharacterCnn, wide: CharacterCnn, kept: torch.Tensor) -> None:
    wide.char_embedding.copy_(cnn.char_embedding)
    for convolution, wide_convolution in zip(cnn.convolutions, wide.convolutions, strict=False):
        for name, parameter in convolution.named_parameters():
            wide_convolution.get_parameter(name)[: len(parameter)] = parameter
    for highway, wide_highway in zip(cnn.highways, wide.highways, strict=True):
        for name in ("transform", "carry"):
            _widen_linear(highway.get_submodule(name), wide_highway.get_submodule(name), kept, kept)
    _widen_linear(cnn.projection, wide.projection, torch.arange(len(cnn.projection.get_parameter("bias"))), kept)


def _widen_linear(linear: torch.nn.Module, wide: torch.nn.Module, outputs: torch.Tensor, inputs: torch.Tensor) -> None:
    """Puts a layer at these of the outputs, where it sees nothing but these of the inputs."""
    rows = torch.zeros(len(outputs), wide.get_parameter("weight").size(1))
    rows[:, inputs] = linear.get_parameter("weight")
    wide.get_parameter("weight")[outputs] = rows
    wide.get_parameter("bias")[outputs] = linear.get_parameter("bias")


def _lstms(bilm: BiLm) -> List[ProjectedLstm]:
    return [module for module in bilm.modules() if isinstance(module, ProjectedLstm)]


def _widen_lstm(layer: ProjectedLstm, wide: ProjectedLstm) -> None:
    cells, dim = layer.cell_dim, layer.projection_dim
    for name in ("input_weight", "state_weight"):
        gates = wide.get_parameter(name).view(NUM_GATES, wide.cell_dim, -1)
        gates[:, :cells, :dim] = layer.get_parameter(name).view(NUM_GATES, cells, dim)
        gates[:, :cells, dim:] = 0.0
    wide.bias.view(NUM_GATES, -1)[:, :cells] = layer.bias.view(NUM_GATES, cells)
    projection = wide.get_parameter("projection_weight")
    projection[:dim, :cells] = layer.get_parameter("projection_weight")
    projection[:dim, cells:] = 0.0


def widen_softmax(softmax: WordSoftmax, projection_dim: int) -> WordSoftmax:
    """The softmax for states of `projection_dim` numbers, which gives the same probabilities."""
    return softmax._replace(weight=functional.pad(softmax.weight, (0, projection_dim - softmax.weight.size(1))))
