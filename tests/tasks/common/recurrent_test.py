import pytest
import torch
from allennlp.common import Params
from allennlp.modules import Seq2SeqEncoder

from elmo_plugin.tasks.common.recurrent import LongestFirst

SIZES = {"input_size": 5, "hidden_size": 4}


@pytest.fixture(params=["lstm", "gru"])
def name(request):
    return request.param


def build(name, **changes):
    return Seq2SeqEncoder.from_params(Params({"type": name, **SIZES, **changes}))


@pytest.fixture(
    params=[{}, {"bidirectional": True}, {"bidirectional": True, "num_layers": 3}], ids=["one way", "both", "deep"]
)
def pair(name, request):
    """Ours, and AllenNLP's with the same weights."""
    torch.manual_seed(0)
    ours, theirs = build(f"elmo::{name}", **request.param), build(name, **request.param)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.fixture
def batch():
    torch.manual_seed(1)
    # Neither the first nor the last sentence is the longest.
    return torch.randn(4, 6, 5), torch.arange(6) < torch.tensor([3, 6, 1, 4]).unsqueeze(-1)


def test_it_equals_allennlps_with_the_same_weights(pair, batch):
    ours, theirs = pair
    torch.testing.assert_close(ours(*batch), theirs(*batch))
    assert ours.get_input_dim() == theirs.get_input_dim() and ours.get_output_dim() == theirs.get_output_dim()
    assert ours.is_bidirectional() == theirs.is_bidirectional()


def test_so_do_its_gradients(pair, batch):
    inputs, mask = batch
    weights = torch.randn(4, 6, pair[0].get_output_dim())
    gradients = []
    for encoder in pair:
        leaf = inputs.clone().requires_grad_()
        (encoder(leaf, mask) * weights).sum().backward()
        gradients.append([leaf.grad, *(weight.grad for weight in encoder.parameters())])
    for own, their in zip(*gradients, strict=True):
        torch.testing.assert_close(own, their)


def test_what_a_gpu_would_do_is_the_same(pair, batch):
    ours, _ = pair
    inputs, mask = batch
    packed = ours._packed(inputs, mask).masked_fill(~mask.unsqueeze(-1), 0.0)
    torch.testing.assert_close(packed, ours(inputs, mask))


def test_on_a_gpu_the_host_waits_for_lengths_once_a_batch(pair, batch, gpu):
    ours, _ = pair
    inputs, mask = batch
    expected = ours(inputs, mask)
    ours.cuda()
    on_gpu = inputs.cuda(), mask.cuda()
    with gpu.counted() as counts:
        outputs = [ours(*on_gpu) for _ in range(3)]
    assert counts.waits == {"tasks/common/recurrent.py LongestFirst.of": 1}
    for output in outputs:
        torch.testing.assert_close(output.cpu(), expected)


def test_lengths_that_are_known_are_not_waited_for(batch, gpu):
    _, mask = batch
    mask = mask.cuda()
    with gpu.counted() as counts:
        rows = LongestFirst.of(mask, [3, 6, 1, 4])
    assert not counts.waits
    assert rows.lengths.tolist() == [6, 4, 3, 1] and rows.order.tolist() == [1, 3, 0, 2]


def test_padding_is_neither_read_nor_written(pair, batch):
    ours, _ = pair
    inputs, mask = batch
    outputs = ours(inputs.masked_fill(~mask.unsqueeze(-1), float("nan")), mask)
    assert (outputs[~mask] == 0).all()
    outputs.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in ours.parameters())
    torch.testing.assert_close(outputs[:1, :3], ours(inputs[:1, :3], mask[:1, :3]))


def test_a_row_without_tokens_gives_zeros(pair):
    mask = torch.tensor([[True, True], [False, False]])
    outputs = pair[0](torch.ones(2, 2, 5), mask)
    assert (outputs[1] == 0).all() and (outputs[0] != 0).all()


def test_dropout_is_between_the_layers(name, batch):
    torch.manual_seed(0)
    encoder = build(f"elmo::{name}", num_layers=2, dropout=0.9).train()
    assert not torch.equal(encoder(*batch), encoder(*batch))
    assert torch.equal(encoder.eval()(*batch), encoder(*batch))
    one_layer = build(f"elmo::{name}").train()
    assert torch.equal(one_layer(*batch), one_layer(*batch))
