"""The steps of the biLM's and of SRL's LSTMs between their matrix multiplies, as GPU kernels in Triton.

On a GPU a step takes longer to launch than to compute, and torch's operations would be ten launches forward and a dozen
back. The functions are those of `bilm/lstm_cell.py`, `bilm/lstm_gradients.py` and `tasks/srl/highway_cell.py`, with the
same arguments and results. Numbers are read and written as they are stored, and computed in float32.
"""

from typing import Any, List, Optional

import torch

try:
    import triton
    from triton import language as tl
except ImportError:
    triton = None

_BLOCK = 1024
"""How many numbers a program works on."""


if triton is not None:
    # `size` is how many numbers a kernel writes to each tensor, of rows that are `dim` long. What is absent, such as a
    # clip, is None, which Triton knows when it compiles.

    @triton.jit
    def _places(size, dim, BLOCK: tl.constexpr):
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        return place, place < size, place // dim, place % dim

    @triton.jit
    def _load(at, mask):
        return tl.load(at, mask).to(tl.float32)

    @triton.jit
    def _load_4(at, dim, mask):
        return _load(at, mask), _load(at + dim, mask), _load(at + 2 * dim, mask), _load(at + 3 * dim, mask)

    @triton.jit
    def _store_4(at, dim, first, second, third, fourth, mask):
        tl.store(at, first, mask)
        tl.store(at + dim, second, mask)
        tl.store(at + 2 * dim, third, mask)
        tl.store(at + 3 * dim, fourth, mask)

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
        return _load(keep + row % num_rows, mask)

    @triton.jit
    def _place_of_gates(row, column, num_rows, dim, stride):
        return (row // num_rows).to(tl.int64) * stride + (row % num_rows) * 4 * dim + column

    @triton.jit
    def _next_cell(
        gates, cell, keep, clip, new_cell, tanh_cell, unprojected, size, num_rows, dim, stride, BLOCK: tl.constexpr
    ):
        place, mask, row, column = _places(size, dim, BLOCK)
        at = gates + _place_of_gates(row, column, num_rows, dim, stride)
        i, j, f, o = _load_4(at, dim, mask)
        i, j, f, o = _sigmoid(i), _tanh(j), _sigmoid(f), _sigmoid(o)
        met = _load(cell + place, mask)
        if keep is not None:
            met = met * _kept(keep, row, num_rows, mask)
        c = f * met + i * j
        if clip is not None:
            c = _clipped(c, clip)
        t = _tanh(c)
        _store_4(at, dim, i, j, f, o, mask)
        tl.store(new_cell + place, c, mask)
        # In this order, since the two may be the same memory.
        tl.store(tanh_cell + place, t, mask)
        tl.store(unprojected + place, t * o, mask)

    @triton.jit
    def _next_state(hidden, clip, next_keep, met_hidden, size, num_rows, dim, BLOCK: tl.constexpr):
        place, mask, row, _ = _places(size, dim, BLOCK)
        h = _load(hidden + place, mask)
        if clip is not None:
            h = _clipped(h, clip)
            tl.store(hidden + place, h, mask)
        if next_keep is not None:
            tl.store(met_hidden + place, h * _kept(next_keep, row, num_rows, mask), mask)

    @triton.jit
    def _state_gradient(
        grad_met, next_keep, grad_output, hidden, clip, grad_projected, size, num_rows, dim, BLOCK: tl.constexpr
    ):
        place, mask, row, _ = _places(size, dim, BLOCK)
        g = _load(grad_met + place, mask)
        if next_keep is not None:
            g = g * _kept(next_keep, row, num_rows, mask)
        g += _load(grad_output + place, mask)
        if clip is not None:
            h = _load(hidden + place, mask)
            g = tl.where((h > -clip) & (h < clip), g, 0.0)
        tl.store(grad_projected + place, g, mask)

    @triton.jit
    def _cell_gradient(
        gates,
        grad_unprojected,
        grad_cell,
        cell,
        keep,
        clip,
        new_cell,
        tanh_cell,
        size,
        num_rows,
        dim,
        stride,
        BLOCK: tl.constexpr,
    ):
        place, mask, row, column = _places(size, dim, BLOCK)
        at = gates + _place_of_gates(row, column, num_rows, dim, stride)
        i, j, f, o = _load_4(at, dim, mask)
        t = _load(tanh_cell + place, mask)
        g = _load(grad_unprojected + place, mask)
        met = _load(cell + place, mask)
        gc = _load(grad_cell + place, mask) + g * o * (1.0 - t * t)
        if clip is not None:
            c = _load(new_cell + place, mask)
            gc = tl.where((c > -clip) & (c < clip), gc, 0.0)
        to_met = gc * f
        if keep is not None:
            kept = _kept(keep, row, num_rows, mask)
            met, to_met = met * kept, to_met * kept
        to_i, to_j = gc * j * i * (1.0 - i), gc * i * (1.0 - j * j)
        to_f, to_o = gc * met * f * (1.0 - f), g * t * o * (1.0 - o)
        _store_4(at, dim, to_i, to_j, to_f, to_o, mask)
        tl.store(grad_cell + place, to_met, mask)

    @triton.jit
    def _next_hidden(
        step, bias, cell_before, dropped, cell, squashed, hidden, size, num_continued, dim, BLOCK: tl.constexpr
    ):
        place, mask, row, column = _places(size, dim, BLOCK)
        at, of_gate = step + row * 6 * dim + column, bias + column
        g, i, f, o = _load_4(at, dim, mask)
        bias_g, bias_i, bias_f, bias_o = _load_4(of_gate, dim, mask)
        g, i, f, o = _tanh(g + bias_g), _sigmoid(i + bias_i), _sigmoid(f + bias_f), _sigmoid(o + bias_o)
        r = _sigmoid(_load(at + 4 * dim, mask) + _load(of_gate + 4 * dim, mask))
        carried = _load(at + 5 * dim, mask)
        before = tl.load(cell_before + place, place < num_continued, other=0.0).to(tl.float32)
        c = i * g + f * before
        s = _tanh(c)
        h = r * o * s + (1.0 - r) * carried
        if dropped is not None:
            h = h * _load(dropped + place, mask)
        _store_4(at, dim, g, i, f, o, mask)
        tl.store(at + 4 * dim, r, mask)
        tl.store(cell + place, c, mask)
        tl.store(squashed + place, s, mask)
        tl.store(hidden + place, h, mask)

    @triton.jit
    def _hidden_gradient(
        step,
        squashed,
        cell_before,
        dropped,
        grad_state,
        grad_output,
        grad_cell,
        size,
        num_continued,
        dim,
        BLOCK: tl.constexpr,
    ):
        place, mask, row, column = _places(size, dim, BLOCK)
        at = step + row * 6 * dim + column
        g, i, f, o = _load_4(at, dim, mask)
        r, carried = _load(at + 4 * dim, mask), _load(at + 5 * dim, mask)
        s = _load(squashed + place, mask)
        before = tl.load(cell_before + place, place < num_continued, other=0.0).to(tl.float32)
        gh = _load(grad_state + place, mask) + _load(grad_output + place, mask)
        if dropped is not None:
            gh = gh * _load(dropped + place, mask)
        through = gh * r
        gc = _load(grad_cell + place, mask) + through * o * (1.0 - s * s)
        to_g, to_i = gc * i * (1.0 - g * g), gc * g * i * (1.0 - i)
        to_f, to_o = gc * before * f * (1.0 - f), through * s * o * (1.0 - o)
        _store_4(at, dim, to_g, to_i, to_f, to_o, mask)
        tl.store(at + 4 * dim, gh * (o * s - carried) * r * (1.0 - r), mask)
        tl.store(at + 5 * dim, gh - through, mask)
        tl.store(grad_cell + place, tl.where(place < num_continued, gc * f, gc), mask)


def next_cell_(gates, cell, keep, clip, new_cell, tanh_cell, unprojected) -> None:
    arguments = [gates, cell, keep, clip, new_cell, tanh_cell, unprojected]
    _launch(_next_cell, cell, arguments, *cell.shape[-2:], _stride_of_directions(gates), strided=gates)


def next_state_(hidden, clip, next_keep, met_hidden) -> None:
    if clip is not None or next_keep is not None:
        _launch(_next_state, hidden, [hidden, clip, next_keep, met_hidden], *hidden.shape[-2:])


def state_gradient_(grad_met, next_keep, grad_output, hidden, clip, grad_projected) -> None:
    arguments = [grad_met, next_keep, grad_output, hidden, clip, grad_projected]
    _launch(_state_gradient, hidden, arguments, *hidden.shape[-2:])


def cell_gradient_(gates, grad_unprojected, grad_cell, cell, keep, clip, new_cell, tanh_cell, scratch) -> None:
    arguments = [gates, grad_unprojected, grad_cell, cell, keep, clip, new_cell, tanh_cell]
    _launch(_cell_gradient, cell, arguments, *cell.shape[-2:], _stride_of_directions(gates), strided=gates)


def next_hidden_(step, bias, cell_before, mask, cell, squashed, hidden) -> None:
    arguments = [step, bias, cell_before, mask, cell, squashed, hidden]
    _launch(_next_hidden, hidden, arguments, cell_before.numel(), hidden.size(-1))


def hidden_gradient_(step, squashed, cell_before, mask, grad_state, grad_output, grad_cell, scratch) -> None:
    arguments = [step, squashed, cell_before, mask, grad_state, grad_output, grad_cell]
    _launch(_hidden_gradient, squashed, arguments, cell_before.numel(), squashed.size(-1))


def _stride_of_directions(gates: torch.Tensor) -> int:
    return gates.stride(0) if gates.dim() == 3 else 0


def _launch(
    kernel: Any, like: torch.Tensor, arguments: List[Any], *sizes: int, strided: Optional[torch.Tensor] = None
) -> None:
    """Runs a kernel that writes as many numbers as `like` has. All tensors are contiguous except the `strided` one,
    whose directions may be apart in memory.
    """
    for tensor in arguments:
        if isinstance(tensor, torch.Tensor) and tensor is not strided and not tensor.is_contiguous():
            raise ValueError(f"a kernel's tensors have to be contiguous, but one has strides {tensor.stride()}")
    kernel[(triton.cdiv(like.numel(), _BLOCK),)](*arguments, like.numel(), *sizes, BLOCK=_BLOCK)
