import math

import pytest
import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model
from torch.testing import assert_close

from elmo_plugin.tasks.coref.lstm import CoupledLstm

MASK = torch.tensor([[True] * 5, [True] * 2 + [False] * 3, [True] * 4 + [False]])


@pytest.fixture
def lstm():
    torch.manual_seed(0)
    return CoupledLstm(input_size=4, hidden_size=3, recurrent_dropout=0.5).double().eval()


@pytest.fixture
def inputs():
    return torch.randn(3, 5, 4, dtype=torch.double)


def one_direction(lstm, direction, sentence):
    """The equations, word by word, in the order of reading."""
    weights = torch.cat([lstm.input_weight, lstm.state_weight], dim=1)[direction]
    hidden, cell = lstm.first_hidden[direction, 0], lstm.first_cell[direction, 0]
    outputs = []
    for word in sentence:
        i, o, g = (torch.cat([word, hidden]) @ weights + lstm.bias[direction, 0]).chunk(3)
        cell = i.sigmoid() * g.tanh() + (1 - i.sigmoid()) * cell
        hidden = o.sigmoid() * cell.tanh()
        outputs.append(hidden)
    return torch.stack(outputs)


def test_the_outputs_are_those_of_the_equations_and_zeros_at_padding(lstm, inputs):
    outputs = lstm(inputs, MASK)
    for row, length in enumerate(MASK.sum(dim=1).tolist()):
        sentence = inputs[row, :length]
        forward, backward = one_direction(lstm, 0, sentence), one_direction(lstm, 1, sentence.flip(0)).flip(0)
        assert_close(outputs[row, :length], torch.cat([forward, backward], dim=1))
    assert not outputs[~MASK].any()


def test_nothing_in_the_padding_matters(lstm, inputs):
    spoilt = inputs.masked_fill(~MASK.unsqueeze(-1), math.nan)
    assert_close(lstm(spoilt, MASK), lstm(inputs, MASK))


def test_dropout_is_on_the_state_and_the_same_at_all_steps(lstm, inputs):
    lstm.train()
    first_words = [lstm(inputs, MASK)[:, 0, :3] for _ in range(8)]
    assert len({words.sum().item() for words in first_words}) > 1  # even the first state is dropped
    lstm.state_weight.data.zero_()
    assert_close(lstm(inputs, MASK), lstm(inputs, MASK), rtol=0, atol=0)


def test_gates_start_orthogonal_and_first_states_differ_from_zero():
    lstm = CoupledLstm(input_size=8, hidden_size=4)
    for direction in range(2):
        for gate in torch.cat([lstm.input_weight, lstm.state_weight], dim=1)[direction].split(4, dim=1):
            assert_close(gate.T @ gate, torch.eye(4), rtol=0, atol=1e-5)
    assert lstm.first_hidden.abs().min() > 0 and lstm.first_cell.abs().max() <= math.sqrt(6 / 5)


def test_gradients_reach_every_parameter(lstm, inputs):
    lstm(inputs, MASK).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in lstm.parameters())


def test_the_experiment_has_lees_encoder_and_initialisation(root, monkeypatch, tmp_path):
    monkeypatch.chdir(root)
    (tmp_path / "vectors.txt").write_text("Ada 3 4 0 0 0 0\n", encoding="utf-8")
    monkeypatch.setenv("ELMO_WORD_VECTORS", str(tmp_path / "vectors.txt"))
    params = Params.from_file("fixtures/coref/baseline.jsonnet")
    reader = DatasetReader.from_params(params["dataset_reader"])
    instances = list(reader.read(params["train_data_path"]))
    for instance in instances:
        reader.apply_token_indexers(instance)
    vocab = Vocabulary.from_instances(instances)
    model = Model.from_params(vocab=vocab, params=params["model"])
    assert isinstance(model.encoder, CoupledLstm) and model.encoder.recurrent_dropout == 0.2
    weight = model.text_embedder.words.token_embedder_tokens.weight
    lengths = weight.norm(dim=1)
    assert lengths.max() == pytest.approx(1.0) and lengths.min() == 0.0
    distances = model.pair_scorer.distance_embedding.weight
    assert distances.abs().max() <= math.sqrt(6 / sum(distances.shape))
    genres = model.pair_scorer.genre_embedding
    assert not genres.weight[genres.padding_idx].any()
