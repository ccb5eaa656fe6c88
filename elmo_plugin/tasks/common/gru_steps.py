"""The steps of a GRU with gradients of their own, for a CPU.

torch's GRU differentiates each step as a graph of some twenty operations, and adds up the weights' gradients step by
step. With a task's few sentences and narrow states it takes longer to call these operations than to compute them. Here
both directions of a layer step together; backward, what doesn't depend on later steps is computed for all steps at
once, which leaves four operations for each, and a weight's gradient is one multiply over all of them.

Inside, tensors are (num_directions, num_tokens, batch_size, dim), in the order in which each direction reads.
"""

from typing import Any, Optional, Sequence, Tuple

import torch


def run_gru(
    gates: Sequence[torch.Tensor], weight: torch.Tensor, bias: torch.Tensor, turned: Optional[torch.Tensor]
) -> Tuple[torch.Tensor, ...]:
    """Each direction's states after each step, (num_tokens, batch_size, hidden_dim), starting from zeros.

    `gates`, (num_tokens, batch_size, 3 * hidden_dim) for each direction, are the inputs' part of what torch.nn.GRU
    computes, in its order; `weight`, (num_directions, 3 * hidden_dim, hidden_dim), and `bias`, (num_directions, 3 *
    hidden_dim), are the state's. The second direction, if there is one, reads sentences `turned` round. What is given
    and returned is in the order of the tokens.
    """
    with torch.autocast(weight.device.type, enabled=False):
        return _Gru.apply(weight, bias, turned, *(direction.to(weight.dtype) for direction in gates))


class _Gru(torch.autograd.Function):
    """r, z = sigmoid(W h + b + gates), n = tanh(gates + r * (W h + b)), h' = (1 - z) * n + z * h"""

    @staticmethod
    def forward(
        ctx: Any, weight: torch.Tensor, bias: torch.Tensor, turned: Optional[torch.Tensor], *gates: torch.Tensor
    ) -> Tuple[torch.Tensor, ...]:
        num_directions, _, dim = weight.shape
        num_tokens, batch_size, _ = gates[0].shape
        # r, z and n: the inputs' parts, which the steps turn into activations
        activations = _as_read(gates, turned)
        activations[..., : 2 * dim] += bias[:, None, None, : 2 * dim]
        candidate_bias = bias[:, None, 2 * dim :]
        to_gates, to_candidate = (part.mT.contiguous() for part in weight.split([2 * dim, dim], dim=1))
        # What r is multiplied with.
        of_state = weight.new_empty(num_directions, num_tokens, batch_size, dim)
        hiddens = weight.new_zeros(num_directions, num_tokens + 1, batch_size, dim)
        hidden = hiddens[:, 0]
        reset_and_update, candidate = activations.split([2 * dim, dim], dim=-1)
        reset, update = reset_and_update.split(dim, dim=-1)
        steps = (part.unbind(1) for part in (reset_and_update, reset, update, candidate, of_state, hiddens[:, 1:]))
        for both, r, z, n, state_part, next_hidden in zip(*steps, strict=True):
            both.baddbmm_(hidden, to_gates).sigmoid_()
            torch.baddbmm(candidate_bias, hidden, to_candidate, out=state_part)
            n.addcmul_(r, state_part).tanh_()
            hidden = torch.lerp(n, hidden, z, out=next_hidden)
        ctx.save_for_backward(activations, of_state, hiddens, weight, turned)
        return _as_given(hiddens[:, 1:], turned)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        activations, of_state, hiddens, weight, turned = ctx.saved_tensors
        reset, update, candidate = activations.chunk(3, dim=-1)
        # A gate's gradient is that of the state times something known from the forward pass: for r, z, and the part of
        # n that r is multiplied with. That of n's other part is `of_n`.
        of_n = (1.0 - update).mul_(1.0 - candidate.square())
        factors = torch.empty_like(activations).unflatten(-1, (3, -1))
        torch.mul(of_n, reset, out=factors[..., 2, :])
        torch.mul(factors[..., 2, :], of_state, out=factors[..., 0, :]).mul_(1.0 - reset)
        torch.sub(hiddens[:, :-1], candidate, out=factors[..., 1, :]).mul_(update).mul_(1.0 - update)
        gates = torch.empty_like(factors)
        gate_rows = gates.flatten(-2)
        # What reaches a state from its output, and below from the next step as well.
        grads = _as_read(grad_outputs, turned)
        carried = torch.zeros_like(grads[:, 0])
        steps = (part.unbind(1) for part in (grads, factors, gates, gate_rows, update))
        for grad, factor, gate, gate_row, z in reversed(list(zip(*steps, strict=True))):
            torch.mul(grad.add_(carried).unsqueeze(-2), factor, out=gate)
            torch.mul(grad, z, out=carried).baddbmm_(gate_row, weight)
        all_rows = gate_rows.flatten(1, 2)
        grad_weight = all_rows.mT @ hiddens[:, :-1].flatten(1, 2)
        grad_bias = all_rows.sum(dim=1)
        torch.mul(grads, of_n, out=gates[..., 2, :])
        return grad_weight, grad_bias, None, *_as_given(gate_rows, turned)


def _as_read(directions: Sequence[torch.Tensor], turned: Optional[torch.Tensor]) -> torch.Tensor:
    """A copy of (num_tokens, batch_size, dim) for each direction, in one tensor and in the order of reading."""
    copy = directions[0].new_empty(len(directions), *directions[0].shape)
    copy[0] = directions[0]
    if turned is not None:
        _gather(directions[1], turned, out=copy[1])
    return copy


def _as_given(tensor: torch.Tensor, turned: Optional[torch.Tensor]) -> Tuple[torch.Tensor, ...]:
    """The inverse, but not a copy where there is nothing to turn round."""
    return (tensor[0],) if turned is None else (tensor[0], _gather(tensor[1], turned))


def _gather(steps: torch.Tensor, places: torch.Tensor, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    """The steps, (num_tokens, batch_size, dim), at `places`, (num_tokens, batch_size). By whole rows, which is faster
    than torch's gather.
    """
    num_tokens, batch_size, dim = steps.shape
    rows = (places * batch_size + torch.arange(batch_size, device=places.device)).flatten()
    out = torch.empty_like(steps) if out is None else out
    torch.index_select(steps.reshape(-1, dim), 0, rows, out=out.view(-1, dim))
    return out
