import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training.learning_rate_schedulers import LearningRateScheduler

from elmo_plugin.tasks.coref import Staircase


@pytest.fixture
def optimizer():
    return torch.optim.Adam([torch.nn.Parameter(torch.zeros(()))], lr=0.5)


def rate(optimizer):
    return optimizer.param_groups[0]["lr"]


def test_the_rate_falls_after_so_many_updates_whatever_the_epochs(optimizer):
    params = Params({"type": "elmo::staircase", "factor": 0.1, "num_steps": 3})
    scheduler = LearningRateScheduler.from_params(optimizer=optimizer, params=params)
    rates = []
    for update in range(1, 8):
        scheduler.step_batch(update)
        scheduler.step()  # as at the end of an epoch
        rates.append(rate(optimizer))
    assert rates == pytest.approx([0.5, 0.5, 0.05, 0.05, 0.05, 0.005, 0.005])


def test_it_goes_on_where_it_was_saved(optimizer):
    scheduler = Staircase(optimizer, factor=0.1, num_steps=1)
    scheduler.step_batch(2)
    again = Staircase(optimizer, factor=0.1, num_steps=1)
    again.load_state_dict(scheduler.state_dict())
    again.step()
    assert rate(optimizer) == pytest.approx(0.005)


@pytest.mark.parametrize("kwargs", [{"factor": 0.0}, {"factor": 1.1}, {"num_steps": 0}])
def test_other_settings_are_refused(optimizer, kwargs):
    with pytest.raises(ConfigurationError, match="elmo::staircase: factor must be"):
        Staircase(optimizer, **kwargs)
