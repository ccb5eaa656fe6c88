"""Optimizer "elmo::muon": Adam, but for the matrices that are named, which take orthogonal steps."""

import re
from collections import defaultdict
from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.training.optimizers import DenseSparseAdam, Optimizer

# Of x -> a x + b x^3 + c x^5, which takes any singular value between 0.003 and 1 to between 0.68 and 1.14 when it is
# applied five times (Jordan 2024).
_QUINTIC = (3.4445, -4.7750, 2.0315)
_NUM_ITERATIONS = 5
# An orthogonal step is scaled to this root mean square, about that of Adam's steps (Liu et al. 2025, "Muon is scalable
# for LLM training"), so that learning rates of both kinds are of one size.
_STEP_SIZE = 0.2
_PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@Optimizer.register("elmo::muon")
class Muon(DenseSparseAdam):
    """Steps that change a matrix by the same amount in all directions (Jordan 2024, "Muon: an optimizer for hidden
    layers in neural networks").

    A gradient has few large singular values and many small ones, and so have Adam's steps. Here a step is the running
    mean of the gradient with all of them set to about one. It is for matrices between hidden layers, such as an LSTM's:
    `matrices` are regular expressions for their names, `matrices_lr` is their learning rate, and `momentum` that of the
    running mean. Every other parameter is trained by AllenNLP's `dense_sparse_adam`, whose arguments the others are.

    Matrices of one shape are orthogonalised together, by multiplying matrices of the smaller side's size, so that an
    LSTM's tall matrices cost little. `precision: bfloat16` is for the last of these products, the largest; it changes
    an LSTM's steps by 1 to 11 %. The others stay in float32: where rounding makes an eigenvalue of the Gram matrix
    negative, each iteration makes it larger.

    AllenNLP's `multi` would put two optimizers together too, but its copies of their parameter groups are all that a
    learning rate schedule reaches.
    """

    def __init__(
        self,
        model_parameters: List[Tuple[str, torch.nn.Parameter]],
        matrices: List[str],
        matrices_lr: float,
        parameter_groups: Optional[List[Tuple[List[str], Dict[str, Any]]]] = None,
        lr: float = 0.001,
        betas: Tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        momentum: float = 0.95,
        precision: str = "float32",
    ) -> None:
        _check_matrices(matrices, model_parameters)
        if precision not in _PRECISIONS:
            raise ConfigurationError(
                f"optimizer elmo::muon: precision must be one of {', '.join(_PRECISIONS)}, not '{precision}'"
            )
        self._dtype = _PRECISIONS[precision]
        if matrices_lr < 0.0 or not 0.0 <= momentum < 1.0:
            raise ConfigurationError(
                "optimizer elmo::muon: matrices_lr must be 0 or more, and momentum at least 0 and below 1, not "
                f"{matrices_lr} and {momentum}"
            )
        # The key tells the own group from Adam's, so another group with it would take orthogonal steps.
        if any("momentum" in options for _, options in parameter_groups or []):
            raise ConfigurationError(
                "optimizer elmo::muon: parameter_groups are Adam's, which has no momentum but betas; the matrices' "
                "momentum stands beside matrices_lr"
            )
        own_group = (matrices, {"lr": matrices_lr, "momentum": momentum})
        super().__init__(model_parameters, [*(parameter_groups or []), own_group], lr, betas, eps)

    def step(self, closure=None):
        loss = None if closure is None else closure()
        all_groups = self.param_groups
        try:
            self.param_groups = [group for group in all_groups if "momentum" not in group]
            super().step()
        finally:
            self.param_groups = all_groups
        for group in all_groups:
            if "momentum" in group:
                self._step_orthogonally(**group)
        return loss

    @torch.no_grad()
    def _step_orthogonally(self, params: List[torch.nn.Parameter], lr: float, momentum: float, **_: Any) -> None:
        for matrices in _of_one_shape(params):
            directions = torch.stack([self._direction(matrix, momentum) for matrix in matrices])
            step_size = lr * _STEP_SIZE * max(directions.shape[-2:]) ** 0.5
            for matrix, step in zip(matrices, orthogonalised(directions, self._dtype), strict=True):
                matrix.sub_(step, alpha=step_size)

    def _direction(self, matrix: torch.nn.Parameter, momentum: float) -> torch.Tensor:
        """The running mean of the gradient, and this step's once more (Nesterov)."""
        assert matrix.grad is not None
        gradient, state = matrix.grad.float(), self.state[matrix]
        if "mean_gradient" not in state:
            state["mean_gradient"] = torch.zeros_like(gradient)
        mean = state["mean_gradient"].lerp_(gradient, 1.0 - momentum)
        return gradient.lerp(mean, momentum)


def orthogonalised(matrices: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """(num_matrices, num_rows, num_columns), with all singular values set to about 1; those that are tiny beside the
    largest stay below that. Zeros stay zeros. `dtype` is that of the last product, and of the result.
    """
    # Each iteration multiplies X by a polynomial of its Gram matrix, which has the smaller side's size. The product of
    # these polynomials follows from the first one alone, and is multiplied by X once. All of them are symmetric, so X
    # is never transposed or divided by its norm: both would be passes over memory that take as long as the products.
    is_tall = matrices.size(-2) > matrices.size(-1)
    gram = matrices.mT @ matrices if is_tall else matrices @ matrices.mT
    square_norm = gram.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None].clamp(min=1e-30)
    gram /= square_norm
    factor = _polynomial(gram)
    product = factor / square_norm.sqrt()
    for _ in range(_NUM_ITERATIONS - 1):
        gram = factor @ gram @ factor
        factor = _polynomial(gram)
        product = factor @ product
    matrices, product = matrices.to(dtype), product.to(dtype)
    return matrices @ product if is_tall else product @ matrices


def _polynomial(gram: torch.Tensor) -> torch.Tensor:
    """What X is multiplied by in an iteration: a + b G + c G^2, of its Gram matrix G."""
    first, third, fifth = _QUINTIC
    factor = torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth)
    factor.diagonal(dim1=-2, dim2=-1).add_(first)
    return factor


def _of_one_shape(matrices: Iterable[torch.nn.Parameter]) -> Iterable[List[torch.nn.Parameter]]:
    """Those that have a gradient, by shape and device."""
    alike = defaultdict(list)
    for matrix in matrices:
        if matrix.grad is not None:
            alike[matrix.shape, matrix.device].append(matrix)
    return alike.values()


def _check_matrices(patterns: List[str], parameters: List[Tuple[str, torch.nn.Parameter]]) -> None:
    for pattern in patterns:
        named = [(name, parameter) for name, parameter in parameters if re.search(pattern, name)]
        if not named:
            matrices = ", ".join(name for name, parameter in parameters if parameter.dim() == 2)
            raise ConfigurationError(
                f"optimizer elmo::muon: '{pattern}' in matrices names no parameter that is trained; the model's "
                f"matrices are {matrices or 'none'}"
            )
        others = [f"{name} {tuple(parameter.shape)}" for name, parameter in named if parameter.dim() != 2]
        if others:
            raise ConfigurationError(
                f"optimizer elmo::muon: '{pattern}' in matrices names what isn't a matrix: {', '.join(others)}. Narrow "
                "it down; whatever it doesn't name is trained by Adam."
            )
