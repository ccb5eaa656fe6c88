import math

import pytest
import torch

from elmo_plugin.training.progress import Losses


def test_the_mean_loss_is_that_of_steps_not_of_batches():
    losses = Losses()
    losses.add([torch.tensor(1.0), torch.tensor(3.0)], [])
    losses.add([torch.tensor(5.0)], [])
    assert losses.means() == {"loss": 3.5}
    assert losses.last() == {"batch_loss": 5.0}


def test_regularization_is_summed_apart_and_survives_saving():
    losses, resumed = Losses(), Losses()
    losses.add([torch.tensor(1.0)], [torch.tensor(0.25)])
    resumed.load_state_dict(losses.state_dict())
    for each in (losses, resumed):
        each.add([torch.tensor(2.0)], [torch.tensor(0.75)])
    assert resumed.means() == losses.means() == {"loss": 1.5, "reg_loss": 0.5}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_the_first_step_without_a_finite_loss_is_found(value):
    losses = Losses()
    for loss in (1.0, 2.0, value, 1.0, value):
        losses.add([torch.tensor(loss)], [])
    assert losses.first_not_finite() == 3


def test_the_means_of_several_processes_are_one():
    losses = Losses()
    losses.add([torch.tensor(4.0)], [])
    assert losses.means(reduce=lambda value: value * 2)["loss"] == 4.0
