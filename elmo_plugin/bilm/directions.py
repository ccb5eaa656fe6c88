"""How a biLM's two directions are run: together on a GPU, side by side on two cores, or one after the other; and always
with the longest rows first, so that no step computes padding.
"""

from functools import partial
from typing import Callable, Iterable, List, NamedTuple, Optional, Sequence, Tuple, cast

import torch

from elmo_plugin.bilm.lstm_cell import LstmState, LstmWeights
from elmo_plugin.bilm.projected_lstm import ProjectedLstm
from elmo_plugin.bilm.recurrence import needs_gradient
from elmo_plugin.bilm.side_by_side import side_by_side

LayersOutput = Tuple[List[torch.Tensor], List[LstmState]]
"""Each layer's outputs, and its last state."""

_LEAST_MULTIPLY_ADDS_PER_THREAD = 10**8
"""A few milliseconds of work: a thread takes a tenth of one to start."""


class Direction(NamedTuple):
    """The layers of a direction, their inputs in its reading order, and the states they start from."""

    layers: torch.nn.ModuleList
    inputs: torch.Tensor  # (batch_size, num_steps, projection_dim)
    states: List[LstmState]


class Rows(NamedTuple):
    """The rows of a batch, longest first, so that the rows still running at any step are a prefix of it."""

    num_active: List[int]  # how many are running, by step
    order: Optional[torch.Tensor]  # None without lengths

    @classmethod
    def by_length(cls, batch_size: int, num_steps: int, lengths: Optional[torch.Tensor]) -> "Rows":
        if lengths is None:
            return cls([batch_size] * num_steps, None)
        sorted_lengths, order = lengths.sort(descending=True, stable=True)
        steps = torch.arange(num_steps, device=lengths.device)
        return cls((sorted_lengths > steps.unsqueeze(1)).sum(dim=1).tolist(), order)

    def sort(self, direction: Direction) -> Direction:
        """The same with the rows in this order, and inputs (num_steps, batch_size, dim)."""
        layers, inputs, states = direction
        if self.order is None:
            return Direction(layers, inputs.transpose(0, 1), states)
        return Direction(layers, inputs[self.order].transpose(0, 1), _select_rows(states, self.order))

    def restore(self, outputs: List[torch.Tensor], states: List[LstmState]) -> LayersOutput:
        """Outputs (num_steps, batch_size, dim) as (batch_size, num_steps, dim), and all rows in their old order."""
        outputs = [output.transpose(0, 1) for output in outputs]
        if self.order is None:
            return outputs, states
        places = self.order.argsort()
        return [output[places] for output in outputs], _select_rows(states, places)

    def keep(self, resets: Optional[torch.Tensor], dtype: torch.dtype) -> Optional[torch.Tensor]:
        """0 where a running row is reset, 1 elsewhere: rows that have ended keep their last state. Shape: (num_steps,
        batch_size, 1)
        """
        if resets is None:
            return None
        resets = resets.t()
        if self.order is not None:
            rows = torch.arange(resets.size(1), device=resets.device)
            running = rows < torch.tensor(self.num_active, device=resets.device).unsqueeze(1)
            resets = resets[:, self.order] & running
        return (~resets).unsqueeze(-1).to(dtype)


def _select_rows(states: List[LstmState], rows: torch.Tensor) -> List[LstmState]:
    return [LstmState(state.hidden[rows], state.cell[rows]) for state in states]


def run_directions(
    run_layers: Callable[..., LayersOutput],
    forward: Direction,
    backward: Direction,
    lengths: Optional[torch.Tensor],
    resets: Optional[torch.Tensor],
    may_thread: bool,
) -> Tuple[LayersOutput, LayersOutput]:
    """`run_layers` on both. `lengths` and `resets` are those of `BiLm.run`; threads are for what draws no random
    numbers.
    """
    rows = Rows.by_length(forward.inputs.size(0), forward.inputs.size(1), lengths)
    run = partial(run_layers, num_active=rows.num_active, keep=rows.keep(resets, forward.inputs.dtype))
    first, second = _run_both(run, rows.sort(forward), rows.sort(backward), rows.num_active, may_thread)
    return rows.restore(*first), rows.restore(*second)


def _run_both(
    run: Callable[..., LayersOutput], forward: Direction, backward: Direction, num_active: List[int], may_thread: bool
) -> Tuple[LayersOutput, LayersOutput]:
    if not forward.inputs.is_cpu and min(num_active) == forward.inputs.size(1):
        return _run_together(run, forward, backward)
    if may_thread and _is_worth_two_threads(forward, num_positions=sum(num_active)):
        return side_by_side(lambda: run(*forward), lambda: run(*backward))
    return run(*forward), run(*backward)


def _run_together(
    run_layers: Callable[..., LayersOutput], forward: Direction, backward: Direction
) -> Tuple[LayersOutput, LayersOutput]:
    """With half the kernels: on a GPU a step takes longer to launch than to compute."""
    layers_of_both = [cast(Iterable[ProjectedLstm], direction.layers) for direction in (forward, backward)]
    pairs = list(zip(forward.states, backward.states, strict=True))
    outputs, states = run_layers(
        [partial(run_together, layers) for layers in zip(*layers_of_both, strict=True)],
        torch.stack([forward.inputs, backward.inputs]),
        [LstmState(*map(torch.stack, zip(*pair, strict=True))) for pair in pairs],
    )
    results = [
        ([output[index] for output in outputs], [LstmState(hidden[index], cell[index]) for hidden, cell in states])
        for index in range(2)
    ]
    return results[0], results[1]


def run_together(
    layers: Sequence[ProjectedLstm],
    inputs: torch.Tensor,
    state: LstmState,
    num_active: List[int],
    keep: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, LstmState]:
    """Layers of equal sizes at once, with one multiply for all of them. Inputs, outputs and states have a leading
    dimension for the layers.
    """
    parts = zip(*(layer.weights() for layer in layers), strict=True)
    stacked = [None if part[0] is None else torch.stack(part) for part in parts]
    weights = LstmWeights(*stacked)  # type: ignore[arg-type]
    return layers[0].run(weights, inputs, state, num_active, keep)


def _is_worth_two_threads(direction: Direction, num_positions: int) -> bool:
    """With gradients there is nothing to gain, as autograd goes back through both in one thread."""
    weights = list(cast(Iterable[torch.Tensor], direction.layers.parameters()))
    if not direction.inputs.is_cpu or torch.get_num_threads() < 2 or needs_gradient(direction.inputs, *weights):
        return False
    return num_positions * sum(weight.numel() for weight in weights) >= _LEAST_MULTIPLY_ADDS_PER_THREAD
