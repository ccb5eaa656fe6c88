"""Makes a biLM wider without changing what it computes, so that a larger one needn't be trained from nothing.

New cells, and new dimensions of the token and state vectors, start at random; what leads from them into the old ones
starts at zero, in the LSTMs and in the softmax. So the old dimensions carry the old model's numbers, and training finds
a use for the new ones.
"""

import dataclasses
from typing import List

import torch
from torch.nn import functional

from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.projected_lstm import ProjectedLstm
from elmo_plugin.bilm.softmax_file import WordSoftmax
from elmo_plugin.errors import ConfigurationError

NUM_GATES = 4


def widen(bilm: BiLm, cell_dim: int, projection_dim: int) -> BiLm:
    """A biLM of `cell_dim` cells and `projection_dim`-d states whose first dimensions are those of `bilm`."""
    old = bilm.options
    new = dataclasses.replace(old, cell_dim=cell_dim, projection_dim=projection_dim)
    if cell_dim < old.cell_dim or projection_dim < old.projection_dim:
        raise ConfigurationError(
            f"{cell_dim} cells and {projection_dim}-d projections are fewer than the {old.cell_dim} and "
            f"{old.projection_dim} that the biLM has; it can only be made wider"
        )
    if not (old.has_projection and old.has_cnn_projection and new.has_projection and new.has_cnn_projection):
        raise ConfigurationError(
            f"only a biLM with projections can be made wider, into one with projections: projection_dim (here "
            f"{old.projection_dim}, then {projection_dim}) has to differ from the number of cells ({old.cell_dim}, "
            f"then {cell_dim}) and of character filters ({old.num_filters})"
        )
    wide = BiLm(new)
    with torch.no_grad():
        for name, parameter in bilm.character_cnn.named_parameters():
            wide.character_cnn.get_parameter(name)[: len(parameter)] = parameter
        for layer, wide_layer in zip(_lstms(bilm), _lstms(wide), strict=True):
            _widen_lstm(layer, wide_layer)
    return wide


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
