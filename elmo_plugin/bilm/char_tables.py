"""Convolutions over characters without convolving.

There are few characters, so what each of them adds to each filter at each position of a window fits in a table, and a
window's value is the sum of `width` rows of it. On a CPU summing rows is several times faster than multiplying
matrices, and the gradient goes only to the rows of the windows that won.
"""

from typing import Iterable, List, Optional

import torch
from torch.nn import functional


def convolution_maxima(
    ids: torch.Tensor, characters: torch.Tensor, convolutions: Iterable[torch.nn.Conv1d]
) -> torch.Tensor:
    """The convolutions' maxima, (num_tokens, num_filters), over words given as (num_tokens, num_characters) rows of
    `characters`.
    """
    convolutions = list(convolutions)
    # Shape, each: (width, num_ids, num_filters)
    tables = [torch.matmul(characters, convolution.weight.permute(2, 1, 0)) for convolution in convolutions]
    maxima = _WindowMaxima.apply(ids, _num_windows(ids), *tables)
    return maxima + torch.cat([convolution.bias for convolution in convolutions])  # type: ignore[misc]


def _num_windows(ids: torch.Tensor) -> torch.Tensor:
    """How many windows of a word can hold its maxima, (num_tokens,).

    Words end in a run of equal ids, usually padding. Windows within that run are all alike, so the first represents
    them all.
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
    """In which window each maximum is, as a float (torch's own argmax takes many times as long).

    Values below the maximum are pushed below zero. Of equal ones the last is taken: apart from coincidences, filters
    that see equal values in two windows see equal characters.
    """
    places = torch.arange(values.size(1), dtype=values.dtype, device=values.device).view(1, -1, 1)
    pushed = values.sub_(best.unsqueeze(1)).mul_(torch.finfo(values.dtype).max).add_(places)
    # Where a value is nan no place is right, but any is safe.
    return pushed.amax(dim=1).round_().clamp_(min=0).nan_to_num_()
