"""The token layer: from a word's character ids to its context-independent vector."""

from typing import Iterable, cast

import torch
from torch.nn import functional

from elmo_plugin.bilm.char_tables import convolution_maxima
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.characters.mapping import NUM_CHARACTERS

_ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


def _set_normal(weight: torch.Tensor, std: float) -> None:
    """Draws a weight at random. One without values, on the meta device, stays as it is: torch would import its compiler
    for it, which takes longer than everything else that embedding imports.
    """
    if not weight.is_meta:
        torch.nn.init.normal_(weight, std=std)


class Highway(torch.nn.Module):
    """gate * relu(transform x) + (1 - gate) * x, with the published files' signs: the "carry" gate lets the *transform*
    through.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.transform = torch.nn.Linear(dim, dim)
        self.carry = torch.nn.Linear(dim, dim)
        # As in the original: small weights, and gates that start out nearly closed.
        for linear, bias in ((self.transform, 0.0), (self.carry, -2.0)):
            _set_normal(linear.weight, dim**-0.5)
            torch.nn.init.constant_(linear.bias, bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        # Under autocast the multiplies give half precision, which lerp wouldn't mix with its other inputs.
        gate = torch.sigmoid(self.carry(inputs)).to(inputs.dtype)
        return torch.lerp(inputs, torch.relu(self.transform(inputs)).to(inputs.dtype), gate)


class CharacterCnn(torch.nn.Module):
    """Character embeddings, convolutions of several widths with max-pooling, highway layers, a projection.

    `forward` takes ids of any leading shape. The embedding has the published 261 rows; the masking id 0 in front of
    them is a row of zeros that is no parameter, so it can't be trained.
    """

    def __init__(self, options: BiLmOptions) -> None:
        super().__init__()
        self.max_characters_per_token = options.max_characters_per_token
        self._activation = _ACTIVATIONS[options.activation]
        self.char_embedding = torch.nn.Parameter(torch.empty(NUM_CHARACTERS, options.char_dim).uniform_(-1.0, 1.0))
        self.convolutions = torch.nn.ModuleList(
            torch.nn.Conv1d(options.char_dim, num, kernel_size=width) for width, num in options.filters
        )
        self.highways = torch.nn.Sequential(*(Highway(options.num_filters) for _ in range(options.num_highway)))
        self.projection: torch.nn.Module = torch.nn.Identity()
        if options.has_cnn_projection:
            self.projection = torch.nn.Linear(options.num_filters, options.projection_dim)
            _set_normal(self.projection.weight, options.num_filters**-0.5)
            torch.nn.init.zeros_(self.projection.bias)
        self._reset_convolutions(options)

    def _reset_convolutions(self, options: BiLmOptions) -> None:
        for convolution, (width, _) in zip(self.convolutions, options.filters, strict=True):
            weight, bias = convolution.parameters()
            if options.activation == "tanh":
                _set_normal(weight, (1.0 / (width * options.char_dim)) ** 0.5)
            else:
                torch.nn.init.uniform_(weight, -0.05, 0.05)
            torch.nn.init.zeros_(bias)

    def forward(self, character_ids: torch.Tensor) -> torch.Tensor:
        leading_shape = character_ids.shape[:-1]
        # Shape: (num_tokens, max_characters_per_token)
        flat_ids = character_ids.reshape(-1, self.max_characters_per_token)
        pooled = self._look_up(flat_ids) if flat_ids.is_cpu else self._convolve(flat_ids)
        # Both activations are monotonic, so they may follow the max-pooling, on far fewer numbers.
        tokens = self.projection(self.highways(self._activation(pooled)))
        return tokens.view(*leading_shape, tokens.size(-1))

    def _characters(self) -> torch.Tensor:
        return functional.pad(self.char_embedding, (0, 0, 1, 0))

    def _convolve(self, ids: torch.Tensor) -> torch.Tensor:
        """The convolutions' maxima, (num_tokens, num_filters), by torch's convolution."""
        # Shape: (num_tokens, char_dim, num_characters)
        characters = functional.embedding(ids, self._characters()).transpose(1, 2)
        return torch.cat([convolution(characters).amax(dim=-1) for convolution in self.convolutions], dim=-1)

    def _look_up(self, ids: torch.Tensor) -> torch.Tensor:
        """The same from tables, which is faster on a CPU."""
        with torch.autocast(ids.device.type, enabled=False):
            return convolution_maxima(ids, self._characters(), cast(Iterable[torch.nn.Conv1d], self.convolutions))
