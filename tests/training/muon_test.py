import copy

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from allennlp.training.optimizers import DenseSparseAdam, Optimizer

from elmo_plugin.training.muon import orthogonalised

SHAPES = {"tall": (8, 3), "wide": (3, 8), "other": (5, 3), "bias": (4,), "words": (6, 2)}


def parameters(seed=0):
    torch.manual_seed(seed)
    return {name: torch.nn.Parameter(torch.randn(shape)) for name, shape in SHAPES.items()}


def give_gradients(named, seed=1):
    torch.manual_seed(seed)
    for parameter in named.values():
        parameter.grad = torch.randn_like(parameter)


def muon(named, **settings):
    config = {"type": "elmo::muon", "matrices": ["^tall$", "^wide$"], "matrices_lr": 0.5, "lr": 0.1, **settings}
    return Optimizer.from_params(Params(config), model_parameters=list(named.items()))


def changes(named, optimizer):
    before = {name: parameter.detach().clone() for name, parameter in named.items()}
    optimizer.step()
    return {name: parameter.detach() - before[name] for name, parameter in named.items()}


@pytest.mark.parametrize("shape", [(2, 40, 7), (2, 7, 40), (1, 16, 16)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape):
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalised(1e-4 * torch.randn(shape)))
    assert 0.6 < values.min() and values.max() < 1.2


def test_orthogonalising_keeps_the_singular_vectors():
    torch.manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(9, 4))
    right, _ = torch.linalg.qr(torch.randn(4, 4))
    matrix = left @ torch.diag(torch.tensor([5.0, 1.0, 0.3, 0.1])) @ right
    found = left.mT @ orthogonalised(matrix.unsqueeze(0))[0] @ right.mT
    off_diagonal = found - torch.diag(found.diagonal())
    assert off_diagonal.abs().max() < 1e-4
    assert found.diagonal().min() > 0.6


def test_a_gradient_of_zeros_gives_a_step_of_zeros():
    assert orthogonalised(torch.zeros(1, 3, 2)).equal(torch.zeros(1, 3, 2))


def test_matrices_take_steps_of_the_stated_size_against_the_gradient():
    named = parameters()
    give_gradients(named)
    changed = changes(named, muon(named))
    for name in ("tall", "wide"):
        root_mean_square = changed[name].pow(2).mean().sqrt().item()
        # An orthogonal matrix of this shape, with singular values of about 1.
        assert root_mean_square == pytest.approx(0.5 * 0.2, rel=0.3)
        assert (changed[name] * named[name].grad).sum() < 0.0


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch before 2.9")
@pytest.mark.parametrize("shape", [(40, 7), (7, 40)])
def test_steps_are_those_of_torchs_own_muon(shape):
    torch.manual_seed(0)
    start = torch.randn(shape)
    own, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    optimizers = [
        muon({"matrix": own}, matrices=["matrix"]),
        torch.optim.Muon([theirs], lr=0.5, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
    ]
    for seed in range(3):
        for matrix, optimizer in zip((own, theirs), optimizers, strict=True):
            give_gradients({"matrix": matrix}, seed)
            optimizer.step()
    # torch's are computed in bfloat16.
    assert (own - theirs).norm() < 0.02 * (theirs - start).norm()


def test_bfloat16_takes_nearly_the_same_steps():
    steps = []
    for precision in ("float32", "bfloat16"):
        named = parameters()
        give_gradients(named)
        steps.append(changes(named, muon(named, precision=precision))["tall"])
    difference = (steps[1] - steps[0]).norm() / steps[0].norm()
    assert 0.0 < difference < 0.01


def test_bfloat16_steps_stay_bounded_where_a_gradient_has_one_direction():
    torch.manual_seed(0)
    matrix = torch.randn(200, 1) @ torch.randn(1, 64) + 0.05 * torch.randn(200, 64)
    assert torch.linalg.svdvals(orthogonalised(matrix.unsqueeze(0), torch.bfloat16).float()).max() < 1.4


def test_matrices_of_one_shape_step_as_each_would_alone():
    together = {"first": torch.nn.Parameter(torch.zeros(4, 3)), "second": torch.nn.Parameter(torch.zeros(4, 3))}
    give_gradients(together)
    changed = changes(together, muon(together, matrices=["."]))
    for name, parameter in together.items():
        alone = {name: torch.nn.Parameter(torch.zeros(4, 3))}
        alone[name].grad = parameter.grad.clone()
        torch.testing.assert_close(changes(alone, muon(alone, matrices=["."]))[name], changed[name])


def test_everything_else_is_adams():
    named, expected = parameters(), parameters()
    optimizers = muon(named), DenseSparseAdam(list(expected.items()), lr=0.1)
    for seed in range(3):
        for own, optimizer in zip((named, expected), optimizers, strict=True):
            give_gradients(own, seed)
            own["words"].grad = own["words"].grad.to_sparse(1)
            optimizer.step()
    for name in ("other", "bias", "words"):
        assert named[name].equal(expected[name])
    assert not named["tall"].equal(expected["tall"])


def test_momentum_averages_over_steps():
    """After a step along one gradient, a step along another is still drawn to the first."""
    named = {"matrix": torch.nn.Parameter(torch.zeros(2, 2))}
    optimizer = muon(named, matrices=["matrix"], momentum=0.9)
    named["matrix"].grad = torch.tensor([[1.0, 0.0], [0.0, 0.0]])
    optimizer.step()
    named["matrix"].grad = torch.tensor([[0.0, 0.0], [0.0, 1.0]])
    change = changes(named, optimizer)["matrix"]
    assert change[0, 0] < -0.01 and change[1, 1] < -0.01


def test_a_learning_rate_schedule_reaches_the_matrices():
    named = parameters()
    optimizer = muon(named)
    schedule = LearningRateScheduler.from_params(
        Params({"type": "linear_with_warmup", "warmup_steps": 2}),
        optimizer=optimizer,
        num_epochs=1,
        num_steps_per_epoch=4,
    )
    rates = []
    for step in range(1, 5):
        schedule.step_batch(step)
        rates.append(sorted({group["lr"] for group in optimizer.param_groups}))
    assert rates == [pytest.approx(pair) for pair in ([0.05, 0.25], [0.1, 0.5], [0.05, 0.25], [0.0])]


def test_a_restored_optimizer_goes_on_alike():
    named, restored = parameters(), parameters()
    optimizer = muon(named)
    give_gradients(named)
    optimizer.step()
    for name, parameter in named.items():
        restored[name].data.copy_(parameter.data)
    other = muon(restored)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # torch would share the tensors
    for own, each in ((named, optimizer), (restored, other)):
        give_gradients(own, seed=2)
        each.step()
    for name, parameter in named.items():
        assert restored[name].equal(parameter)


def test_a_parameter_without_a_gradient_stays():
    named = parameters()
    give_gradients(named)
    named["tall"].grad = None
    changed = changes(named, muon(named))
    assert changed["tall"].count_nonzero() == 0
    assert changed["wide"].count_nonzero() > 0


@pytest.mark.parametrize(
    "settings, complaint",
    [
        ({"matrices": ["nothing"]}, r"'nothing' in matrices names no parameter.*tall, wide, other, words"),
        ({"matrices": ["bias"]}, r"'bias' in matrices names what isn't a matrix: bias \(4,\)"),
        ({"momentum": 1.0}, r"momentum at least 0 and below 1, not 0.5 and 1.0"),
        ({"matrices_lr": -1.0}, r"matrices_lr must be 0 or more"),
        ({"precision": "tf32"}, r"precision must be one of float32, bfloat16, not 'tf32'"),
        ({"parameter_groups": [[["bias"], {"momentum": 0.5}]]}, r"parameter_groups are Adam's"),
    ],
)
def test_unusable_settings_are_refused(settings, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        muon(parameters(), **settings)
