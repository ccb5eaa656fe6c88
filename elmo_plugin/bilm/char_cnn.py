"""The token layer: from a word's character ids to its context-independent vector."""

from typing import Tuple

import torch
from torch.nn import functional

from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.characters.mapping import NUM_CHARACTERS, PADDING

_ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class Highway(torch.nn.Module):
    """gate * relu(transform x) + (1 - gate) * x, with the published file's signs: the "carry" gate lets the *transform*
    through.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.transform = torch.nn.Linear(dim, dim)
        self.carry = torch.nn.Linear(dim, dim)
        # As the original: small weights, and gates that start out nearly closed.
        for linear, bias in ((self.transform, 0.0), (self.carry, -2.0)):
            torch.nn.init.normal_(linear.weight, std=dim**-0.5)
            torch.nn.init.constant_(linear.bias, bias)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(self.carry(inputs))
        return torch.lerp(inputs, torch.relu(self.transform(inputs)), gate)


class CharacterCnn(torch.nn.Module):
    """Character embeddings, convolutions of several widths with max-pooling, highway layers, a projection.

    `forward` takes ids of any leading shape. The embedding has the published 261 rows; the masking id 0 in front of
    them is a row of zeros that is no parameter, so it can't be trained.
    """

    def __init__(self, options: BiLmOptions) -> None:
        super().__init__()
        self.max_characters_per_token = options.max_characters_per_token
        self._activation = _ACTIVATIONS[options.activation]
        self._widest = max(width for width, _ in options.filters)
        self.char_embedding = torch.nn.Parameter(torch.empty(NUM_CHARACTERS, options.char_dim).uniform_(-1.0, 1.0))
        self.convolutions = torch.nn.ModuleList(
            torch.nn.Conv1d(options.char_dim, num, kernel_size=width) for width, num in options.filters
        )
        self.highways = torch.nn.Sequential(*(Highway(options.num_filters) for _ in range(options.num_highway)))
        self.projection: torch.nn.Module = torch.nn.Identity()
        if options.has_cnn_projection:
            self.projection = torch.nn.Linear(options.num_filters, options.projection_dim)
            torch.nn.init.normal_(self.projection.weight, std=options.num_filters**-0.5)
            torch.nn.init.zeros_(self.projection.bias)
        self._reset_convolutions(options)

    def _reset_convolutions(self, options: BiLmOptions) -> None:
        for convolution, (width, _) in zip(self.convolutions, options.filters, strict=True):
            weight, bias = convolution.parameters()
            if options.activation == "tanh":
                torch.nn.init.normal_(weight, std=(1.0 / (width * options.char_dim)) ** 0.5)
            else:
                torch.nn.init.uniform_(weight, -0.05, 0.05)
            torch.nn.init.zeros_(bias)

    def forward(self, character_ids: torch.Tensor) -> torch.Tensor:
        leading_shape = character_ids.shape[:-1]
        # Shape: (num_tokens, num_characters)
        flat_ids = self._without_idle_padding(character_ids.reshape(-1, self.max_characters_per_token))
        table = functional.pad(self.char_embedding, (0, 0, 1, 0))
        # Shape: (num_tokens, char_dim, num_characters)
        characters = functional.embedding(flat_ids, table).transpose(1, 2)
        # Both activations are monotonic, so they may follow the max-pooling, on far fewer numbers.
        pooled = torch.cat([convolution(characters).amax(dim=-1) for convolution in self.convolutions], dim=-1)
        tokens = self.projection(self.highways(self._activation(pooled)))
        return tokens.view(*leading_shape, tokens.size(-1))

    def _without_idle_padding(self, ids: torch.Tensor) -> torch.Tensor:
        """Cuts the slots that can't change a maximum: behind the longest word, one window full of padding stands for
        all others.

        On a GPU the ids stay as they are, since the host would have to wait for the longest word's length.
        """
        if ids.is_cuda or ids.numel() == 0:
            return ids
        longest = int((ids != PADDING + 1).any(dim=0).sum())
        return ids[:, : longest + self._widest]


_HASH_SEED = 20180215


def unique_rows(rows: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The different rows of an integer matrix, and for each row its place among them.

    Rows are compared by a 64-bit hash, which is many times faster than sorting them, and then checked: should two
    different rows ever share a hash, torch's own slow comparison decides.
    """
    generator = torch.Generator().manual_seed(_HASH_SEED)  # the same multipliers every time, so that runs repeat
    multipliers = torch.randint(-(2**62), 2**62, (rows.size(1),), generator=generator).to(rows.device) * 2 + 1
    hashes = (rows * multipliers).sum(dim=1)
    unique_hashes, inverse = torch.unique(hashes, return_inverse=True)
    representatives = torch.empty_like(unique_hashes).scatter_(0, inverse, torch.arange(len(rows), device=rows.device))
    unique = rows[representatives]
    if not torch.equal(unique[inverse], rows):
        return torch.unique(rows, dim=0, return_inverse=True)
    return unique, inverse
