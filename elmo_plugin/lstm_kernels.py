"""The steps of the biLM's and of SRL's LSTMs between their matrix multiplies, as GPU kernels in Triton.

On a GPU a step takes longer to launch than to compute, and torch's operations would be ten launches forward and a dozen
back. The functions are those of `bilm/lstm_cell.py`, `bilm/lstm_gradients.py` and `tasks/srl/highway_cell.py`, with the
same arguments and results. Numbers are read and written as they are stored, and computed in float32.
"""

from typing import Any, Iterable, Optional, Sequence

import torch

try:
    import triton
    from triton import language as tl
except ImportError:
    triton = None

_BLOCK = 1024
"""How many numbers a program works on."""


if triton is not None:

    @triton.jit
    def _sigmoid(x):
        return 1.0 / (1.0 + tl.exp(-x))

    @triton.jit
    def _tanh(x):
        return 2.0 / (1.0 + tl.exp(-2.0 * x)) - 1.0

    @triton.jit
    def _clipped(x, clip):
        # nan stays nan, unlike with minimum and maximum.
        return tl.where(x > clip, clip, tl.where(x < -clip, -clip, x))

    @triton.jit
    def _kept(keep, row, num_rows, mask):
        # The same for all directions.
        return tl.load(keep + row % num_rows, mask).to(tl.float32)

    @triton.jit
    def _place_of_gates(row, column, num_rows, dim, direction_stride):
        return (row // num_rows).to(tl.int64) * direction_stride + (row % num_rows) * 4 * dim + column

    @triton.jit
    def _next_cell(
        gates,
        cell,
        keep,
        new_cell,
        tanh_cell,
        unprojected,
        num_numbers,
        num_rows,
        dim,
        direction_stride,
        clip,
        HAS_KEEP: tl.constexpr,
        HAS_CLIP: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = place < num_numbers
        row, column = place // dim, place % dim
        at = gates + _place_of_gates(row, column, num_rows, dim, direction_stride)
        i = _sigmoid(tl.load(at, mask).to(tl.float32))
        j = _tanh(tl.load(at + dim, mask).to(tl.float32))
        f = _sigmoid(tl.load(at + 2 * dim, mask).to(tl.float32))
        o = _sigmoid(tl.load(at + 3 * dim, mask).to(tl.float32))
        met = tl.load(cell + place, mask).to(tl.float32)
        if HAS_KEEP:
            met = met * _kept(keep, row, num_rows, mask)
        c = f * met + i * j
        if HAS_CLIP:
            c = _clipped(c, clip)
        t = _tanh(c)
        tl.store(at, i, mask)
        tl.store(at + dim, j, mask)
        tl.store(at + 2 * dim, f, mask)
        tl.store(at + 3 * dim, o, mask)
        tl.store(new_cell + place, c, mask)
        # In this order, since the two may be the same memory.
        tl.store(tanh_cell + place, t, mask)
        tl.store(unprojected + place, t * o, mask)

    @triton.jit
    def _next_state(
        hidden,
        next_keep,
        met_hidden,
        num_numbers,
        num_rows,
        dim,
        clip,
        HAS_KEEP: tl.constexpr,
        HAS_CLIP: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = place < num_numbers
        h = tl.load(hidden + place, mask).to(tl.float32)
        if HAS_CLIP:
            h = _clipped(h, clip)
            tl.store(hidden + place, h, mask)
        if HAS_KEEP:
            tl.store(met_hidden + place, h * _kept(next_keep, place // dim, num_rows, mask), mask)

    @triton.jit
    def _state_gradient(
        grad_met,
        next_keep,
        grad_output,
        hidden,
        grad_projected,
        num_numbers,
        num_rows,
        dim,
        clip,
        HAS_KEEP: tl.constexpr,
        HAS_CLIP: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = place < num_numbers
        g = tl.load(grad_met + place, mask).to(tl.float32)
        if HAS_KEEP:
            g = g * _kept(next_keep, place // dim, num_rows, mask)
        g += tl.load(grad_output + place, mask).to(tl.float32)
        if HAS_CLIP:
            h = tl.load(hidden + place, mask).to(tl.float32)
            g = tl.where((h > -clip) & (h < clip), g, 0.0)
        tl.store(grad_projected + place, g, mask)

    @triton.jit
    def _cell_gradient(
        gates,
        grad_unprojected,
        grad_cell,
        cell,
        keep,
        new_cell,
        tanh_cell,
        num_numbers,
        num_rows,
        dim,
        direction_stride,
        clip,
        HAS_KEEP: tl.constexpr,
        HAS_CLIP: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = place < num_numbers
        row, column = place // dim, place % dim
        at = gates + _place_of_gates(row, column, num_rows, dim, direction_stride)
        i, j = tl.load(at, mask).to(tl.float32), tl.load(at + dim, mask).to(tl.float32)
        f, o = tl.load(at + 2 * dim, mask).to(tl.float32), tl.load(at + 3 * dim, mask).to(tl.float32)
        t = tl.load(tanh_cell + place, mask).to(tl.float32)
        g = tl.load(grad_unprojected + place, mask).to(tl.float32)
        met = tl.load(cell + place, mask).to(tl.float32)
        gc = tl.load(grad_cell + place, mask).to(tl.float32) + g * o * (1.0 - t * t)
        if HAS_CLIP:
            c = tl.load(new_cell + place, mask).to(tl.float32)
            gc = tl.where((c > -clip) & (c < clip), gc, 0.0)
        to_met = gc * f
        if HAS_KEEP:
            kept = _kept(keep, row, num_rows, mask)
            met, to_met = met * kept, to_met * kept
        tl.store(at, gc * j * i * (1.0 - i), mask)
        tl.store(at + dim, gc * i * (1.0 - j * j), mask)
        tl.store(at + 2 * dim, gc * met * f * (1.0 - f), mask)
        tl.store(at + 3 * dim, g * t * o * (1.0 - o), mask)
        tl.store(grad_cell + place, to_met, mask)

    @triton.jit
    def _next_hidden(
        step,
        bias,
        cell_before,
        mask,
        cell,
        squashed,
        hidden,
        num_numbers,
        num_continued,
        dim,
        HAS_MASK: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        is_here = place < num_numbers
        row, column = place // dim, place % dim
        at, of_gate = step + row * 6 * dim + column, bias + column
        g = _tanh(tl.load(at, is_here).to(tl.float32) + tl.load(of_gate, is_here).to(tl.float32))
        i = _gate(at + dim, of_gate + dim, is_here)
        f = _gate(at + 2 * dim, of_gate + 2 * dim, is_here)
        o = _gate(at + 3 * dim, of_gate + 3 * dim, is_here)
        r = _gate(at + 4 * dim, of_gate + 4 * dim, is_here)
        carried = tl.load(at + 5 * dim, is_here).to(tl.float32)
        before = tl.load(cell_before + place, place < num_continued, other=0.0).to(tl.float32)
        c = i * g + f * before
        s = _tanh(c)
        h = r * o * s + (1.0 - r) * carried
        if HAS_MASK:
            h = h * tl.load(mask + place, is_here).to(tl.float32)
        tl.store(at, g, is_here)
        tl.store(at + dim, i, is_here)
        tl.store(at + 2 * dim, f, is_here)
        tl.store(at + 3 * dim, o, is_here)
        tl.store(at + 4 * dim, r, is_here)
        tl.store(cell + place, c, is_here)
        tl.store(squashed + place, s, is_here)
        tl.store(hidden + place, h, is_here)

    @triton.jit
    def _gate(at, bias, mask):
        return _sigmoid(tl.load(at, mask).to(tl.float32) + tl.load(bias, mask).to(tl.float32))

    @triton.jit
    def _hidden_gradient(
        step,
        squashed,
        cell_before,
        mask,
        grad_state,
        grad_output,
        grad_cell,
        num_numbers,
        num_continued,
        dim,
        HAS_MASK: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        is_here = place < num_numbers
        row, column = place // dim, place % dim
        at = step + row * 6 * dim + column
        g, i = tl.load(at, is_here).to(tl.float32), tl.load(at + dim, is_here).to(tl.float32)
        f, o = tl.load(at + 2 * dim, is_here).to(tl.float32), tl.load(at + 3 * dim, is_here).to(tl.float32)
        r, carried = tl.load(at + 4 * dim, is_here).to(tl.float32), tl.load(at + 5 * dim, is_here).to(tl.float32)
        s = tl.load(squashed + place, is_here).to(tl.float32)
        before = tl.load(cell_before + place, place < num_continued, other=0.0).to(tl.float32)
        gh = tl.load(grad_state + place, is_here).to(tl.float32) + tl.load(grad_output + place, is_here).to(tl.float32)
        if HAS_MASK:
            gh = gh * tl.load(mask + place, is_here).to(tl.float32)
        through = gh * r
        gc = tl.load(grad_cell + place, is_here).to(tl.float32) + through * o * (1.0 - s * s)
        tl.store(at, gc * i * (1.0 - g * g), is_here)
        tl.store(at + dim, gc * g * i * (1.0 - i), is_here)
        tl.store(at + 2 * dim, gc * before * f * (1.0 - f), is_here)
        tl.store(at + 3 * dim, through * s * o * (1.0 - o), is_here)
        tl.store(at + 4 * dim, gh * (o * s - carried) * r * (1.0 - r), is_here)
        tl.store(at + 5 * dim, gh - through, is_here)
        tl.store(grad_cell + place, tl.where(place < num_continued, gc * f, gc), is_here)


def next_cell_(gates, cell, keep, clip, new_cell, tanh_cell, unprojected) -> None:
    tensors = gates, cell, cell if keep is None else keep, new_cell, tanh_cell, unprojected
    _launch(_next_cell, tensors, like=cell, clip=clip, keep=keep, gates=gates)


def next_state_(hidden, clip, next_keep, met_hidden) -> None:
    if clip is not None or next_keep is not None:
        tensors = hidden, hidden if next_keep is None else next_keep, met_hidden
        _launch(_next_state, tensors, like=hidden, clip=clip, keep=next_keep)


def state_gradient_(grad_met, next_keep, grad_output, hidden, clip, grad_projected) -> None:
    tensors = grad_met, hidden if next_keep is None else next_keep, grad_output, hidden, grad_projected
    _launch(_state_gradient, tensors, like=hidden, clip=clip, keep=next_keep)


def cell_gradient_(gates, grad_unprojected, grad_cell, cell, keep, clip, new_cell, tanh_cell, scratch) -> None:
    tensors = gates, grad_unprojected, grad_cell, cell, cell if keep is None else keep, new_cell, tanh_cell
    _launch(_cell_gradient, tensors, like=cell, clip=clip, keep=keep, gates=gates)


def _launch(
    kernel: Any,
    tensors: Sequence[torch.Tensor],
    like: torch.Tensor,
    clip: Optional[float],
    keep: Optional[torch.Tensor],
    gates: Optional[torch.Tensor] = None,
) -> None:
    """Runs a kernel on the numbers of `like`, (..., num_rows, dim). All tensors are contiguous except the gates, whose
    directions may be apart in memory.
    """
    _check_contiguous(tensor for tensor in tensors if tensor is not gates)
    strides = [] if gates is None else [gates.stride(0) if gates.dim() == 3 else 0]
    kernel[(triton.cdiv(like.numel(), _BLOCK),)](
        *tensors,
        like.numel(),
        like.size(-2),
        like.size(-1),
        *strides,
        0.0 if clip is None else clip,
        HAS_KEEP=keep is not None,
        HAS_CLIP=clip is not None,
        BLOCK=_BLOCK,
    )


def next_hidden_(step, bias, cell_before, mask, cell, squashed, hidden) -> None:
    tensors = step, bias, cell_before, hidden if mask is None else mask, cell, squashed, hidden
    _launch_on_rows(_next_hidden, tensors, hidden, cell_before, mask)


def hidden_gradient_(step, squashed, cell_before, mask, grad_state, grad_output, grad_cell, scratch) -> None:
    tensors = step, squashed, cell_before, squashed if mask is None else mask, grad_state, grad_output, grad_cell
    _launch_on_rows(_hidden_gradient, tensors, squashed, cell_before, mask)


def _launch_on_rows(
    kernel: Any,
    tensors: Sequence[torch.Tensor],
    like: torch.Tensor,
    cell_before: torch.Tensor,
    mask: Optional[torch.Tensor],
) -> None:
    _check_contiguous(tensors)
    kernel[(triton.cdiv(like.numel(), _BLOCK),)](
        *tensors, like.numel(), cell_before.numel(), like.size(-1), HAS_MASK=mask is not None, BLOCK=_BLOCK
    )


def _check_contiguous(tensors: Iterable[torch.Tensor]) -> None:
    for tensor in tensors:
        if not tensor.is_contiguous():
            raise ValueError(f"a kernel's tensors have to be contiguous, but one has strides {tensor.stride()}")
