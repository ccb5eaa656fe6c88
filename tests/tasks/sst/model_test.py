import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from model_contract import ModelContract

import elmo_plugin.tasks.sst  # noqa: F401

SENTENCES = [
    ("A lovely film , and a long one at that .", "very positive"),
    ("Dull .", "negative"),
    ("It runs ninety minutes .", "neutral"),
    ("A dreadful film .", "very negative"),
    ("Lovely", "positive"),
]
MODEL = {
    "type": "elmo::sst",
    "text_embedder": {"words": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 6}}}},
    "token_feedforward": {"num_layers": 1, "hidden_dims": 5, "activations": "relu"},
    "encoder": {"type": "lstm", "hidden_size": 4, "bidirectional": True},
    "integrator": {"type": "lstm", "hidden_size": 3, "bidirectional": True},
    "feedforward": {"num_layers": 2, "hidden_dims": [7, 6], "activations": "relu"},
}
ALL = ("input", "output", "integrated")


@pytest.fixture(scope="module")
def task(make_task):
    return make_task(MODEL, SENTENCES, lambda text, label=None: (text.split(), label))


class TestContract(ModelContract):
    name = "elmo::sst"


@pytest.fixture
def elmo_at(bilm_files):
    """Makes the config of a biLM's vectors at the given placements."""

    def make(*placements, bilm=bilm_files):
        source = {"type": "files", "options_file": bilm.options_file, "weight_file": bilm.weight_file}
        return {"type": "elmo", "bilm": source, "placements": placements}

    return make


def probabilities(task, model, sentences=SENTENCES):
    return model(**task.tensors(model, sentences))["probabilities"]


def test_a_sentence_gets_a_distribution_over_the_labels(task, elmo_at):
    distribution = probabilities(task, task.build(elmo_at(*ALL)))
    assert distribution.shape == (5, 5)
    torch.testing.assert_close(distribution.sum(dim=-1), torch.ones(5))


@pytest.mark.parametrize("placements", [("input",), ("output",), ("integrated",), ("input", "output"), ALL])
def test_the_widths_follow_the_placements(task, elmo_at, placements):
    model, baseline, bilm_dim = task.build(elmo_at(*placements)), task.build(), 16
    grown = {name: bilm_dim if name in placements else 0 for name in ALL}
    assert model.token_feedforward.get_input_dim() == 6 + grown["input"]
    assert model.integrator.get_input_dim() == 3 * (8 + grown["output"])
    assert model.output_layers.get_input_dim() == 4 * (6 + grown["integrated"])
    assert baseline.integrator.get_input_dim() == 3 * 8
    assert probabilities(task, model).shape == (5, 5)


@pytest.mark.parametrize("placement", ALL)
def test_the_vectors_of_each_placement_reach_the_prediction(task, elmo_at, placement):
    model = task.build(elmo_at(placement))
    before = probabilities(task, model)
    with torch.no_grad():
        model.text_embedder.contextual.mixes[placement].gamma.fill_(0.0)
    assert not torch.allclose(before, probabilities(task, model))


def test_the_widths_follow_the_bilm(task, elmo_at, make_bilm_files):
    wider = make_bilm_files(lstm={"projection_dim": 12}, name="wider")
    model = task.build(elmo_at(*ALL, bilm=wider))
    assert model.text_embedder.contextual.get_output_dim() == 24
    assert model.token_feedforward.get_input_dim() == 6 + 24
    assert probabilities(task, model).shape == (5, 5)


def test_padding_batch_size_and_order_dont_change_a_prediction(task, elmo_at):
    model = task.build(elmo_at(*ALL))
    together = probabilities(task, model)
    alone = torch.cat([probabilities(task, model, [sentence]) for sentence in SENTENCES])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(together, probabilities(task, model, SENTENCES[::-1]).flip(0))


def test_every_parameter_but_the_frozen_bilm_gets_a_gradient(task, elmo_at):
    model = task.build(elmo_at(*ALL)).train()
    model(**task.tensors(model))["loss"].backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            # Each token's score is shifted by the same bias, which a softmax doesn't see.
            assert name.endswith("score.bias") or (parameter.grad is not None and parameter.grad.abs().sum() > 0), name
        else:
            assert "bilm" in name


def test_the_loss_is_the_cross_entropy_and_accuracy_counts_the_most_probable_label(task, elmo_at):
    model = task.build(elmo_at("input"))
    batch = task.tensors(model)
    output = model(**batch)
    rows = torch.arange(len(SENTENCES))
    torch.testing.assert_close(output["loss"], -output["probabilities"][rows, batch["label"]].log().mean())
    right = (output["probabilities"].argmax(dim=-1) == batch["label"]).float().mean()
    assert model.get_metrics(reset=True)["accuracy"] == pytest.approx(right.item())
    assert model.get_metrics()["accuracy"] == 0.0


def test_without_labels_there_is_no_loss_and_nothing_is_counted(task, elmo_at):
    model = task.build(elmo_at("input"))
    output = model(**task.tensors(model, [(text, None) for text, _ in SENTENCES]))
    assert "loss" not in output
    assert model.get_metrics() == {"accuracy": 0.0}


def test_scores_and_decode_make_the_output_and_decode_takes_the_mean_of_several(task, elmo_at):
    model = task.build(elmo_at("input"))
    batch = task.tensors(model)
    scores = model.scores(batch["tokens"])
    torch.testing.assert_close(scores["probabilities"], model(**batch)["probabilities"])
    sure = torch.eye(5)[batch["label"]]
    model.get_metrics(reset=True)
    output = model.decode({"probabilities": sure}, batch["label"], batch["metadata"])
    assert output["tokens"] == [text.split() for text, _ in SENTENCES]
    assert model.make_output_human_readable(output)["label"] == [label for _, label in SENTENCES]
    assert model.get_metrics()["accuracy"] == 1.0


def test_readable_output_names_the_labels(task, elmo_at):
    model = task.build(elmo_at("input"))
    output = model.forward_on_instances(task.instances(model))[0]
    assert output["probabilities"].keys() == {label for _, label in SENTENCES}
    assert output["label"] == max(output["probabilities"], key=output["probabilities"].get)
    assert output["tokens"] == SENTENCES[0][0].split()


def test_maxout_layers_can_stand_in_place_of_the_relu_layers(task, elmo_at):
    maxout = {"num_layers": 2, "output_dims": [7, 6], "pool_sizes": 4}
    model = task.build(elmo_at(*ALL), feedforward=None, maxout=maxout)
    assert type(model.output_layers).__name__ == "Maxout"
    assert probabilities(task, model).shape == (5, 5)


@pytest.mark.parametrize("maxout, found", [(None, "neither is"), ({"num_layers": 1}, "both are")])
def test_either_relu_or_maxout_layers_have_to_be_given(task, maxout, found):
    feedforward = MODEL["feedforward"] if maxout else None
    with pytest.raises(ConfigurationError, match=f"either 'feedforward'.* or 'maxout'.*{found} given"):
        task.build(feedforward=feedforward, maxout=maxout)


def test_a_vocabulary_without_labels_is_refused(task):
    with pytest.raises(ConfigurationError, match="namespace 'labels' holds 0 labels"):
        task.build(vocab=Vocabulary())


@pytest.mark.parametrize("name", ["embedding_dropout", "encoded_dropout", "pooled_dropout"])
def test_each_dropout_works_in_training_only(task, elmo_at, name):
    model = task.build(elmo_at("output"), **{name: 0.5})
    model.text_embedder.contextual.dropout.p = 0.0
    batch = task.tensors(model)
    assert torch.equal(model(**batch)["probabilities"], model(**batch)["probabilities"])
    model.train()
    assert not torch.equal(model(**batch)["probabilities"], model(**batch)["probabilities"])


def test_a_regularizer_is_taken_from_the_config(task, elmo_at):
    regularizer = {"regexes": [["scalar_parameters", {"type": "l2", "alpha": 1.0}]]}
    model = task.build(elmo_at("input"), regularizer=regularizer)
    with torch.no_grad():
        for parameter in model.text_embedder.contextual.mixes["input"].parameters():
            parameter.fill_(1.0)
    assert model.get_regularization_penalty().item() == pytest.approx(3.0)
