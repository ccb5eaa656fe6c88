import pytest
import torch

from elmo_plugin.bilm import BiLm, BiLmOptions, BiLmState, directions
from elmo_plugin.bilm.lstm_cell import LstmState


@pytest.fixture
def bilm():
    torch.manual_seed(0)
    options = BiLmOptions(
        projection_dim=4, cell_dim=6, char_dim=3, filters=((1, 4),), cell_clip=0.3, projection_clip=0.1
    )
    bilm = BiLm(options)
    for parameter in bilm.parameters():
        torch.nn.init.normal_(parameter)
    return bilm


@pytest.fixture
def together(monkeypatch):
    """Runs the directions on a CPU as they are run on a GPU."""
    seen = []

    def run_both(run, forward, backward, num_active, may_thread):
        seen.append(num_active)
        return directions._run_together(run, forward, backward)

    return lambda: monkeypatch.setattr(directions, "_run_both", run_both) or seen


@pytest.mark.parametrize("with_resets", [False, True])
@pytest.mark.parametrize("with_gradients", [False, True])
def test_run_together_the_directions_give_what_they_give_apart(bilm, together, with_resets, with_gradients):
    inputs = torch.randn(2, 3, 5, 4)
    resets = torch.rand(3, 5) < 0.4 if with_resets else None
    states = torch.randn(2, 2, 3, 4), torch.randn(2, 2, 3, 6)

    def run():
        leaves = [tensor.clone().requires_grad_(with_gradients) for tensor in (inputs, *states)]
        given, hidden, cell = leaves
        pairs = [[LstmState(*pair) for pair in zip(*both, strict=True)] for both in zip(hidden, cell, strict=True)]
        output = bilm.run(*given, state=BiLmState(*pairs), resets=resets)
        results = [*output.forward, *output.backward, *(part for layer in output.state.forward for part in layer)]
        if with_gradients:
            bilm.zero_grad()
            sum((result * result).sum() for result in results if result.requires_grad).backward()
            results += [tensor.grad for tensor in (*leaves, *bilm.forward_layers.parameters())]
            results += [parameter.grad for parameter in bilm.backward_layers.parameters()]
        return results

    with torch.set_grad_enabled(with_gradients):
        apart = run()
        seen = together()
        torch.testing.assert_close(run(), apart)
    assert seen == [[3] * 5]
