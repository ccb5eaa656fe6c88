"""Equation (1): ELMo_k = gamma * sum_j s_j h_kj, with s = softmax(w)."""

from typing import List, Optional, Union

import torch
from allennlp.common.checks import ConfigurationError
from torch.nn import functional

LEGACY = "legacy"


class ScalarMix(torch.nn.Module):
    """A weighted sum of a biLM's layers.

    `weights` fixes the s_j themselves instead of learning them. `gamma` false fixes gamma at 1. `layer_norm` true
    normalises every layer of every token over its features, without gain or bias (Ba et al. 2016), before weighting.
    `"legacy"` is what the original code did instead: one mean and one variance per layer over all real positions of the
    batch, sentence boundaries included, so that a vector depends on its batch-mates.

    The parameters are called `scalar_parameters` and `gamma`, as in AllenNLP. A regularizer on `scalar_parameters` is
    the paper's lambda * ||w||^2, and leaves gamma alone.
    """

    _fixed_weights: Optional[torch.Tensor]

    def __init__(
        self,
        num_layers: int,
        layer_norm: Union[bool, str] = False,
        gamma: bool = True,
        weights: Optional[List[float]] = None,
    ) -> None:
        super().__init__()
        if layer_norm not in (True, False, LEGACY):
            raise ConfigurationError(f'layer_norm must be true, false or "{LEGACY}", not {layer_norm!r}')
        if weights is not None and len(weights) != num_layers:
            raise ConfigurationError(
                f"{len(weights)} fixed layer weights were given for a biLM with {num_layers} layers: {weights}"
            )
        self._layer_norm = layer_norm
        self.scalar_parameters = torch.nn.ParameterList()
        if weights is None:
            self.scalar_parameters.extend(torch.nn.Parameter(torch.zeros(1)) for _ in range(num_layers))
        self.register_buffer("_fixed_weights", None if weights is None else torch.tensor(weights), persistent=False)
        self.gamma = torch.nn.Parameter(torch.ones(1), requires_grad=gamma)

    @property
    def layer_weights(self) -> torch.Tensor:
        """The s_j, (num_layers,)."""
        if self._fixed_weights is not None:
            return self._fixed_weights
        return functional.softmax(torch.cat(list(self.scalar_parameters)), dim=0)

    def forward(self, layers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Mixes `layers`, (num_layers, ..., dim). `mask`, (...), says which positions are real, boundaries included."""
        if self._layer_norm == LEGACY:
            layers = _normalise_over_batch(layers, mask)
        elif self._layer_norm:
            layers = functional.layer_norm(layers, layers.shape[-1:])
        return self.gamma * torch.einsum("l,l...->...", self.layer_weights.to(layers.dtype), layers)


def _normalise_over_batch(layers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    # Shape: (num_layers, num_positions, dim)
    flat = layers.flatten(1, -2)
    real = mask.reshape(1, -1, 1).to(flat.dtype)
    count = real.sum() * flat.size(-1)
    mean = (flat * real).sum(dim=(1, 2), keepdim=True) / count
    variance = (((flat - mean) * real) ** 2).sum(dim=(1, 2), keepdim=True) / count
    return ((flat - mean) / (variance + torch.finfo(flat.dtype).tiny).sqrt()).view_as(layers)
