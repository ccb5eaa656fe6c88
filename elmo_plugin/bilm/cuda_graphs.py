"""The biLM's training windows as CUDA graphs: all kernels of a pass are launched as one.

Windows have a fixed shape, which is what a graph needs. It hasn't been tried on a GPU, so it is off by default.
"""

from typing import Callable, Dict, Optional, Tuple

import torch

from elmo_plugin.bilm.bilm import BiLm, RecurrentOutput
from elmo_plugin.bilm.state import BiLmState


class WindowRunner:
    """`BiLm.run` on windows, with graphs or without. A shape's forward and backward pass are captured when it first
    occurs; where there can be no graph, on a CPU or without gradients, `run` is called directly.
    """

    def __init__(self, use_graphs: bool = False) -> None:
        self._use_graphs = use_graphs
        self._graphs: Dict[Tuple, Callable] = {}

    def __reduce__(self):
        return WindowRunner, (self._use_graphs,)  # graphs are neither copied nor pickled

    def run(
        self,
        bilm: BiLm,
        forward_inputs: torch.Tensor,
        backward_inputs: torch.Tensor,
        state: Optional[BiLmState],
        resets: Optional[torch.Tensor],
    ) -> RecurrentOutput:
        if not (self._use_graphs and forward_inputs.is_cuda and bilm.training and torch.is_grad_enabled()):
            return bilm.run(forward_inputs, backward_inputs, state=state, resets=resets)
        state = state or bilm.zero_state(forward_inputs.size(0))
        optional = () if resets is None else (resets,)
        arguments = forward_inputs, backward_inputs, *state.tensors(), *optional
        shape = tuple(forward_inputs.shape), resets is None, torch.is_autocast_enabled("cuda")
        if shape not in self._graphs:
            samples = tuple(argument.detach().clone().requires_grad_(argument.requires_grad) for argument in arguments)
            self._graphs[shape] = torch.cuda.make_graphed_callables(_Run(bilm), samples, allow_unused_input=True)
        num_layers = bilm.options.num_layers
        results = self._graphs[shape](*arguments)
        # The next window writes into the same memory, and has to find the state that this one leaves.
        state = BiLmState.from_tensors(part.clone() for part in results[2 * num_layers :])
        return RecurrentOutput(list(results[:num_layers]), list(results[num_layers : 2 * num_layers]), state)


class _Run(torch.nn.Module):
    """`BiLm.run` from tensors to tensors."""

    def __init__(self, bilm: BiLm) -> None:
        super().__init__()
        self.bilm = bilm

    def forward(self, forward_inputs: torch.Tensor, backward_inputs: torch.Tensor, *rest: torch.Tensor):
        num_parts = 4 * self.bilm.options.num_layers
        resets = rest[num_parts] if len(rest) > num_parts else None
        state = BiLmState.from_tensors(rest[:num_parts])
        output = self.bilm.run(forward_inputs, backward_inputs, state=state, resets=resets)
        return (*output.forward, *output.backward, *output.state.tensors())
