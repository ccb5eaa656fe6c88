"""The token layer: from a word's character ids to its context-independent vector."""

from typing import List, Optional

import torch
from torch.nn import functional

from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.characters.mapping import NUM_CHARACTERS

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
        """The same without convolving.

        There are few characters, so what each of them adds to each filter in each place of a window fits in a table,
        and a window's value is the sum of `width` rows of it. On a CPU summing rows is several times faster than
        multiplying matrices, and the gradient goes to the rows of the windows that won alone.
        """
        with torch.autocast(ids.device.type, enabled=False):
            characters = self._characters()
            # Shape, each: (width, num_ids, num_filters)
            tables = [
                torch.matmul(characters, convolution.weight.permute(2, 1, 0))  # type: ignore[operator]
                for convolution in self.convolutions
            ]
            maxima = _WindowMaxima.apply(ids, self._num_windows(ids), *tables)
            return maxima + torch.cat([convolution.bias for convolution in self.convolutions])  # type: ignore[misc]

    @staticmethod
    def _num_windows(ids: torch.Tensor) -> torch.Tensor:
        """How many windows of a word can hold its maxima, (num_tokens,).

        Words end on a run of equal ids, of padding as a rule. Windows within that run are all alike, so that the first
        stands for all.
        """
        changes = ids[:, 1:] != ids[:, :-1]
        places = torch.arange(1, ids.size(1), device=ids.device)
        return (changes * places).amax(dim=1) + 1 if ids.size(1) > 1 else ids.new_ones(len(ids))


_MAX_WINDOW_NUMBERS = 2**19
"""How many values of one filter width are held at once: few enough to stay in a core's cache."""


class _WindowMaxima(torch.autograd.Function):
    """The maxima over a word's windows, (num_tokens, num_filters), given `ids`, (num_tokens, num_characters), and for
    each filter width a table, (width, num_ids, num_filters of that width).
    """

    @staticmethod
    def forward(ctx, ids: torch.Tensor, num_windows: torch.Tensor, *tables: torch.Tensor) -> torch.Tensor:
        # Words of about the same length go together, so that short ones don't wait for long ones.
        num_windows, order = num_windows.sort(stable=True)
        ids = ids[order]
        num_filters = [table.size(-1) for table in tables]
        maxima = tables[0].new_empty(len(ids), sum(num_filters))
        winners = torch.empty_like(maxima) if any(ctx.needs_input_grad) else None
        longest = int(num_windows[-1]) if len(ids) else 1
        num_words = max(1, _MAX_WINDOW_NUMBERS // (longest * max(num_filters)))
        for start in range(0, len(ids), num_words):
            rows = slice(start, start + num_words)
            longest = int(num_windows[rows][-1])
            columns = 0
            for table in tables:
                values = _window_values(ids[rows], table, longest)
                part = slice(columns, columns := columns + table.size(-1))
                best = torch.amax(values, dim=1, out=maxima[rows, part])
                if winners is not None:
                    winners[rows, part] = _places_of(best, values)
        ctx.save_for_backward(ids, order, winners)
        ctx.table_sizes = [table.shape for table in tables]
        return torch.empty_like(maxima).index_copy_(0, order, maxima)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_maxima: torch.Tensor):
        ids, order, winners = ctx.saved_tensors
        num_words, num_characters = ids.shape
        firsts = torch.arange(num_words, device=ids.device) * num_characters
        grad_maxima = grad_maxima[order]
        grad_tables: List[Optional[torch.Tensor]] = []
        columns = 0
        for width, num_ids, num_filters in ctx.table_sizes:
            part = slice(columns, columns := columns + num_filters)
            # Shape: (num_filters, num_words), twice; where in all the words' characters the winning window begins
            grad = grad_maxima[:, part].t().contiguous()
            begins = (winners[:, part].t().long() + firsts).flatten()
            grad_table = grad.new_zeros(width, num_filters, num_ids)
            for place in range(width):
                characters = ids.flatten()[place:].index_select(0, begins).view(num_filters, num_words)
                grad_table[place].scatter_add_(1, characters, grad)
            grad_tables.append(grad_table.transpose(1, 2))
        return None, None, *grad_tables


def _window_values(ids: torch.Tensor, table: torch.Tensor, longest: int) -> torch.Tensor:
    """The filters' values, (num_words, num_windows, num_filters), in the first `longest` windows or all there are."""
    width, num_ids, num_filters = table.shape
    places = torch.arange(width, device=ids.device) * num_ids
    # Shape: (num_words, num_windows, width)
    rows = ids.unfold(1, width, 1)[:, :longest] + places
    values = functional.embedding_bag(rows.reshape(-1, width), table.reshape(-1, num_filters), mode="sum")
    return values.view(*rows.shape[:2], num_filters)


def _places_of(best: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """In which window each maximum stands, as a float (torch's own argmax takes many times as long).

    Values below the maximum are pushed below zero. Of equal ones the last is taken: filters that see equal values in
    two windows see equal characters, but for accidents.
    """
    places = torch.arange(values.size(1), dtype=values.dtype, device=values.device).view(1, -1, 1)
    pushed = values.sub_(best.unsqueeze(1)).mul_(torch.finfo(values.dtype).max).add_(places)
    # Where a value isn't a number no place is right, but any is safe.
    return pushed.amax(dim=1).round_().clamp_(min=0).nan_to_num_()
