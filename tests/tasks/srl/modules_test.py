import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import Seq2SeqEncoder
from allennlp.modules.seq2seq_encoders import PytorchSeq2SeqWrapper
from allennlp.modules.stacked_alternating_lstm import StackedAlternatingLstm

from elmo_plugin.tasks.srl import AlternatingLstm, HighwayLstm

INPUT_DIM, HIDDEN_DIM, NUM_LAYERS = 5, 4, 3
# AllenNLP's order of the gates; the rows of the highway's W_h come last in both.
THEIR_GATES = ("input", "forget", "candidate", "output", "highway")


def in_their_order(blocks: torch.Tensor) -> torch.Tensor:
    """Rows in AllenNLP's order."""
    by_gate = dict(zip(HighwayLstm.GATES, blocks.split(HIDDEN_DIM), strict=False))
    rest = blocks[len(HighwayLstm.GATES) * HIDDEN_DIM :]
    return torch.cat([*(by_gate[gate] for gate in THEIR_GATES), rest])


@pytest.fixture
def ours():
    torch.manual_seed(0)
    encoder = AlternatingLstm(INPUT_DIM, HIDDEN_DIM, NUM_LAYERS, recurrent_dropout=0.0)
    for layer in encoder.layers:
        torch.nn.init.normal_(layer.bias)
    return encoder


@pytest.fixture
def theirs(ours):
    lstm = StackedAlternatingLstm(INPUT_DIM, HIDDEN_DIM, NUM_LAYERS, use_input_projection_bias=False)
    for own, layer in zip(ours.layers, lstm.lstm_layers, strict=True):
        layer.cell.input_linearity.weight.data = in_their_order(own.input_weight.data.t())
        layer.cell.state_linearity.weight.data = in_their_order(own.state_weight.data.t())
        layer.cell.state_linearity.bias.data = in_their_order(own.bias.data)
    return PytorchSeq2SeqWrapper(lstm)


@pytest.fixture
def batch():
    torch.manual_seed(1)
    # Neither the first nor the last sentence is the longest.
    mask = torch.arange(6) < torch.tensor([3, 6, 1, 4]).unsqueeze(-1)
    return torch.randn(4, 6, INPUT_DIM), mask


def test_it_equals_allennlps_with_the_same_weights(ours, theirs, batch):
    torch.testing.assert_close(ours(*batch), theirs(*batch))


def test_so_do_its_gradients(ours, theirs, batch):
    inputs, mask = batch
    gradients = []
    for encoder in (ours, theirs):
        leaf = inputs.clone().requires_grad_()
        (encoder(leaf, mask) * torch.linspace(-1, 1, HIDDEN_DIM)).sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)
    for own, layer in zip(ours.layers, theirs._module.lstm_layers, strict=True):
        torch.testing.assert_close(in_their_order(own.input_weight.grad.t()), layer.cell.input_linearity.weight.grad)
        torch.testing.assert_close(in_their_order(own.state_weight.grad.t()), layer.cell.state_linearity.weight.grad)
        torch.testing.assert_close(in_their_order(own.bias.grad), layer.cell.state_linearity.bias.grad)


@pytest.mark.parametrize("go_forward", [True, False])
def test_the_backward_pass_is_right_with_dropout_too(go_forward, assert_gradients_are_finite_differences):
    layer = HighwayLstm(3, 2, go_forward, dropout=0.5).double().train()
    packed = torch.nn.utils.rnn.pack_sequence([torch.randn(length, 3) for length in (4, 3, 1)])
    data = torch.randn(8, 3, dtype=torch.double, requires_grad=True)

    weights = torch.randn(8, 2, dtype=torch.double)

    def loss():
        torch.manual_seed(5)  # the same units are dropped each time
        return (layer(packed._replace(data=data)).data * weights).sum()

    assert_gradients_are_finite_differences(loss, (data, *layer.parameters()))


def test_a_second_backward_pass_through_the_same_graph_is_refused(ours, batch):
    loss = ours(*batch).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_it_runs_in_mixed_precision(ours, batch):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = ours(*batch)
    outputs.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in ours.parameters())
    torch.testing.assert_close(outputs.float(), ours(*batch), atol=0.05, rtol=0.05)


def test_directions_alternate(batch):
    inputs, mask = torch.randn(1, 6, INPUT_DIM), torch.ones(1, 6, dtype=torch.bool)
    changed = inputs.clone()
    changed[0, 3] += 1.0
    first, second = HighwayLstm(INPUT_DIM, HIDDEN_DIM), HighwayLstm(INPUT_DIM, HIDDEN_DIM, go_forward=False)
    for layer, reached in ((first, [3, 4, 5]), (second, [0, 1, 2, 3])):
        encoder = AlternatingLstm(INPUT_DIM, HIDDEN_DIM, num_layers=1)
        encoder.layers[0] = layer
        differs = (encoder.eval()(inputs, mask) != encoder(changed, mask)).any(dim=-1)[0]
        assert differs.nonzero().flatten().tolist() == reached
    layers = AlternatingLstm(INPUT_DIM, HIDDEN_DIM, num_layers=4).layers
    assert [layer.go_forward for layer in layers] == [True, False, True, False]


def test_padding_is_neither_read_nor_written(ours, batch):
    inputs, mask = batch
    outputs = ours(inputs.masked_fill(~mask.unsqueeze(-1), float("nan")), mask)
    assert outputs.shape == (4, 6, HIDDEN_DIM)
    assert (outputs[~mask] == 0).all() and outputs.isfinite().all()
    torch.testing.assert_close(outputs[:1, :3], ours(inputs[:1, :3], mask[:1, :3]))


def test_a_row_without_tokens_gives_zeros(ours):
    mask = torch.tensor([[True, True], [False, False]])
    assert (ours(torch.ones(2, 2, INPUT_DIM), mask)[1] == 0).all()


def test_a_hand_worked_step():
    layer = HighwayLstm(1, 1)
    with torch.no_grad():
        layer.input_weight.copy_(torch.tensor([[2.0, 1.0, 0.0, 0.0, 0.0, 3.0]]))
        layer.state_weight.zero_()
        layer.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 1.0, -1.0]))
    packed = torch.nn.utils.rnn.pack_sequence([torch.tensor([[0.5]])])
    sigmoid, tanh = torch.sigmoid, torch.tanh
    cell = sigmoid(torch.tensor(0.5)) * tanh(torch.tensor(1.0))
    gate = sigmoid(torch.tensor(-1.0))
    expected = gate * sigmoid(torch.tensor(1.0)) * tanh(cell) + (1 - gate) * 1.5
    assert layer(packed).data.item() == pytest.approx(expected.item())


def test_dropout_is_one_mask_a_sentence_and_layer(batch):
    torch.manual_seed(0)
    encoder = AlternatingLstm(INPUT_DIM, 50, num_layers=2, recurrent_dropout=0.5).train()
    seen = []
    for layer in encoder.layers:
        layer.register_forward_hook(lambda module, args, output: seen.append(output))
    inputs, mask = torch.randn(2, 6, INPUT_DIM), torch.ones(2, 6, dtype=torch.bool)
    encoder(inputs, mask)
    dropped = [torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0] == 0 for output in seen]
    for layer_mask in dropped:
        assert 0.3 < layer_mask.float().mean() < 0.7
        assert torch.equal(layer_mask, layer_mask[:, :1].expand_as(layer_mask))
        assert not torch.equal(layer_mask[0], layer_mask[1])
    assert not torch.equal(*dropped)
    assert torch.equal(encoder.eval()(inputs, mask), encoder(inputs, mask))


def test_gates_begin_orthogonal_and_the_forget_gate_open():
    layer = HighwayLstm(6, 4)
    for weight in (layer.input_weight, layer.state_weight):
        for block in weight.t().split(4):
            torch.testing.assert_close(block @ block.t(), torch.eye(4), atol=1e-5, rtol=0)
    assert dict(zip(layer.GATES, layer.bias.view(5, 4).mean(dim=1).tolist(), strict=True)) == {
        "input": 0.0,
        "forget": 1.0,
        "output": 0.0,
        "highway": 0.0,
        "candidate": 0.0,
    }


@pytest.mark.parametrize("transposed", [False, True], ids=["as today", "one row per output"])
def test_weights_of_either_orientation_load(ours, batch, transposed):
    state = {
        name: weight.t() if transposed and weight.dim() == 2 else weight for name, weight in ours.state_dict().items()
    }
    loaded = AlternatingLstm(INPUT_DIM, HIDDEN_DIM, NUM_LAYERS, recurrent_dropout=0.0)
    loaded.load_state_dict(state)
    assert torch.equal(loaded(*batch), ours(*batch))


def test_it_is_built_from_a_config():
    params = {"type": "elmo::alternating_lstm", "input_size": 3, "hidden_size": 5, "num_layers": 2}
    encoder = Seq2SeqEncoder.from_params(Params(params))
    assert (encoder.get_input_dim(), encoder.get_output_dim(), encoder.is_bidirectional()) == (3, 5, False)


@pytest.mark.parametrize("wrong", [{"num_layers": 0}, {"hidden_size": 0}, {"recurrent_dropout": 1.0}])
def test_impossible_sizes_are_refused(wrong):
    with pytest.raises(ConfigurationError, match="elmo::alternating_lstm"):
        AlternatingLstm(**{"input_size": 2, "hidden_size": 2, **wrong})
