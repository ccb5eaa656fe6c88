"""That the pretend GPU refuses what a GPU refuses, and counts what a GPU would do."""

import copy

import numpy
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

HERE = "AllenNLP and torch"  # nothing in the package asked for it


def test_tensors_are_where_they_were_put(gpu):
    on_gpu = torch.ones(2, 3).cuda()
    for tensor in (on_gpu, on_gpu[0], on_gpu.t() + 1, torch.zeros_like(on_gpu), torch.arange(3, device="cuda:0")):
        assert tensor.is_cuda and not tensor.is_cpu and tensor.device == torch.device("cuda", 0)
    for tensor in (torch.ones(2), on_gpu.cpu(), on_gpu.to("cpu"), torch.tensor(on_gpu.tolist())):
        assert tensor.is_cpu and tensor.device.type == "cpu"
    assert copy.deepcopy(on_gpu).is_cuda
    assert on_gpu.get_device() == 0 and torch.ones(2).get_device() == -1


@pytest.mark.skipif(torch.version.cuda is not None, reason="autograd in a CUDA build of torch asks the driver")
def test_modules_move_with_their_gradients(gpu):
    module = torch.nn.Linear(2, 2).cuda()
    module(torch.ones(1, 2).cuda()).sum().backward()
    assert module.weight.is_cuda and module.weight.grad.is_cuda
    torch.optim.Adam(module.parameters()).step()
    assert module.cpu().weight.is_cpu


@pytest.mark.parametrize(
    "mistake",
    [
        lambda here, there: here + there,
        lambda here, there: torch.cat([here, there]),
        lambda here, there: there @ here.t(),
        lambda here, there: torch.nn.functional.embedding(torch.tensor([0, 1]), there),
        lambda here, there: there.index_select(0, torch.tensor([0])),
        lambda here, there: here[torch.tensor([0], device="cuda")],
        lambda here, there: torch.where(there > 0, there, here),
        lambda here, there: pack_padded_sequence(there.unsqueeze(2), torch.tensor([2, 2]).cuda(), batch_first=True),
    ],
)
def test_both_devices_in_one_operation_are_refused(gpu, mistake):
    with pytest.raises(RuntimeError, match="device|CPU|cpu"):
        mistake(torch.ones(2, 2), torch.ones(2, 2).cuda())


def test_what_a_gpu_takes_from_the_host_is_taken(gpu):
    there = torch.ones(2, 2).cuda()
    assert (there * torch.tensor(2.0)).tolist() == [[2, 2], [2, 2]]
    assert there[torch.tensor([1])].is_cuda
    there[0] = torch.zeros(2)
    assert there.tolist() == [[0, 0], [1, 1]]


def test_numpy_does_not_see_a_gpu_s_memory(gpu):
    with pytest.raises(TypeError, match="numpy"):
        torch.ones(2).cuda().numpy()
    with pytest.raises(TypeError, match="numpy"):
        numpy.asarray(torch.ones(2).cuda())


def test_launches_are_operations_without_views(gpu):
    matrix = torch.ones(4, 4).cuda()
    with gpu.counted() as counts:
        (matrix.t()[:2].unsqueeze(0) @ matrix).relu()
    assert counts.launches == {HERE: 2} and not counts.waits


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.sum().item(),
        lambda t: bool((t > 0).all()),
        lambda t: t.tolist(),
        lambda t: t.cpu(),
        lambda t: t[t > 0],
        lambda t: t.nonzero(),
        lambda t: torch.unique(t),
        lambda t: torch.empty(3).copy_(t),
    ],
)
def test_the_host_waits_for_what_it_asks(gpu, ask):
    tensor = torch.ones(3).cuda()
    with gpu.counted() as counts:
        ask(tensor)
    assert counts.waits == {HERE: 1}


@pytest.mark.parametrize(
    "go_on",
    [
        lambda t: t.sum(),
        lambda t: torch.zeros(3).to(t.device, non_blocking=True) + t,
        lambda t: t.masked_fill(t > 0, 0.0),
        lambda t: t.clone().__setitem__(t > 0, 0.0),
    ],
)
def test_the_host_does_not_wait_otherwise(gpu, go_on):
    tensor = torch.ones(3).cuda()
    with gpu.counted() as counts:
        go_on(tensor)
    assert not counts.waits


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU])
def test_a_recurrent_layer_is_one_launch_each_way_with_the_cpu_s_numbers(layer, gpu):
    torch.manual_seed(0)
    module, inputs = layer(3, 4, num_layers=2, bidirectional=True), torch.randn(5, 2, 3)
    expected, _ = module(inputs)
    expected.sum().backward()
    gradient, module.weight_hh_l1.grad = module.weight_hh_l1.grad, None
    module, inputs = module.cuda(), inputs.cuda()
    with gpu.counted() as forward:
        outputs, _ = module(inputs)
    total = outputs.sum()
    with gpu.counted() as backward:
        torch.autograd.grad(total, module.weight_hh_l1)
    assert forward.launches[HERE] <= 5 and backward.launches[HERE] <= 5  # with the states and gradients it starts from
    torch.testing.assert_close(outputs.cpu(), expected)
    module(inputs)[0].sum().backward()
    torch.testing.assert_close(module.weight_hh_l1.grad.cpu(), gradient)


def test_autocast_is_float16(gpu):
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled("cuda")
        assert (torch.ones(2, 2).cuda() @ torch.ones(2, 2).cuda()).dtype == torch.float16
    assert not torch.is_autocast_enabled("cuda")


def test_without_it_torch_is_as_before():
    assert not torch.cuda.is_available() or torch.version.cuda
    assert torch.ones(1).is_cpu and "device" not in vars(torch.Tensor)
