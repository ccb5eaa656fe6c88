import math
import re

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from model_contract import ModelContract
from torch.testing import assert_close

from elmo_plugin.tasks.snli.modules import align

PAIRS = [
    ("A girl paints a red boat .", "A child paints .", "entailment"),
    ("A girl .", "Nobody paints a boat at all .", "contradiction"),
    ("A red boat .", "A boat .", "neutral"),
    ("Paint !", "A child in a red boat paints an old boat .", "neutral"),
]
UNLABELLED = [pair[:2] for pair in PAIRS]
BILSTM = {"type": "lstm", "hidden_size": 4, "bidirectional": True}
MODEL = {
    "type": "elmo::snli",
    "text_embedder": {"words": {"token_embedders": {"tokens": {"embedding_dim": 6, "vocab_namespace": "tokens"}}}},
    "encoder": BILSTM,
    "projection": {"num_layers": 1, "hidden_dims": 5, "activations": "relu"},
    "composition": BILSTM,
    "classifier": {"num_layers": 1, "hidden_dims": 7, "activations": "relu"},
}


@pytest.fixture(scope="module")
def task(make_task):
    return make_task(MODEL, PAIRS)


class TestContract(ModelContract):
    name = "elmo::snli"


@pytest.mark.parametrize(
    "placements, input_size, encoding_dim",
    [(["input"], 6 + 6, 8), (["output"], 6, 8 + 6), (["input", "output"], 6 + 6, 8 + 6)],
)
def test_widths_follow_the_placements(task, placements, input_size, encoding_dim):
    model = task.build(task.elmo(*placements))
    assert model.encoder.get_input_dim() == input_size
    assert model.projection.get_input_dim() == 4 * encoding_dim
    assert model(**task.tensors(model))["probabilities"].shape == (4, 3)


def test_widths_follow_the_bilm(task):
    model = task.build(task.elmo("input", "output", projection_dim=5))
    assert model.encoder.get_input_dim() == 6 + 10
    assert model(**task.tensors(model))["loss"].isfinite()


def test_vocabulary_without_labels_is_refused(task):
    with pytest.raises(ConfigurationError, match="'labels' holds 0 labels"):
        task.build(vocab=task.vocabulary(UNLABELLED))


def test_forward_is_the_papers_equations(task):
    model = task.build()
    batch = task.tensors(model, PAIRS[:1])

    def encode(sentence):
        embedded = model.text_embedder.words(sentence)
        return model.encoder._module(embedded)[0]

    def compose(encoded, aligned):
        enhanced = torch.cat([encoded, aligned, encoded - aligned, encoded * aligned], dim=-1)
        linear = model.projection._linear_layers[0]
        composed = model.composition._module(torch.relu(linear(enhanced)))[0]
        return torch.cat([composed.mean(dim=1), composed.max(dim=1).values], dim=-1)

    a, b = encode(batch["premise"]), encode(batch["hypothesis"])
    alignment = align(a, torch.ones(a.shape[:2]).bool(), b, torch.ones(b.shape[:2]).bool())
    pooled = torch.cat([compose(a, alignment.premise), compose(b, alignment.hypothesis)], dim=-1)
    hidden = torch.relu(model.classifier._linear_layers[0](pooled))
    expected = torch.softmax(model.output_layer(hidden), dim=-1)
    assert_close(model(**batch)["probabilities"], expected)


@pytest.mark.parametrize("with_elmo", [False, True], ids=["baseline", "elmo"])
def test_batch_mates_padding_and_order_change_nothing(task, with_elmo):
    model = task.build(task.elmo("input", "output") if with_elmo else None)
    together = model(**task.tensors(model, PAIRS))["probabilities"]
    reversed_ = model(**task.tensors(model, PAIRS[::-1]))["probabilities"].flip(0)
    alone = torch.cat([model(**task.tensors(model, [pair]))["probabilities"] for pair in PAIRS])
    assert_close(together, alone)
    assert_close(together, reversed_)


def test_premise_and_hypothesis_are_not_alike(task):
    model = task.build()
    swapped = [(hypothesis, premise, label) for premise, hypothesis, label in PAIRS]
    there, back = (model(**task.tensors(model, pairs))["probabilities"] for pairs in (PAIRS, swapped))
    assert not torch.allclose(there, back, atol=1e-4)


def test_loss_is_the_negative_log_probability_of_the_label(task):
    model = task.build()
    batch = task.tensors(model)
    output = model(**batch)
    gold = output["probabilities"].gather(1, batch["label"].unsqueeze(1))
    assert_close(output["loss"], -gold.log().mean())


def test_accuracy_is_counted_over_batches_and_reset(task):
    model = task.build()
    best = model(**task.tensors(model))["probabilities"].argmax(dim=-1)
    model.get_metrics(reset=True)
    labels = best.clone()
    labels[0] = (labels[0] + 1) % 3
    for rows in ([0, 1], [2, 3]):
        batch = task.tensors(model, [PAIRS[row] for row in rows])
        model(**{**batch, "label": labels[rows]})
    assert model.get_metrics(reset=True) == {"accuracy": 0.75}
    assert model.get_metrics() == {"accuracy": 0.0}


def test_no_label_no_loss(task):
    model = task.build()
    output = model(**task.tensors(model, UNLABELLED))
    assert "loss" not in output
    assert model.get_metrics() == {"accuracy": 0.0}


def test_decode_decides_by_the_probabilities_it_is_given(task):
    model = task.build()
    batch = task.tensors(model)
    scores = {**model.scores(batch["premise"], batch["hypothesis"]), "probabilities": torch.eye(3)[[2, 0, 1, 2]]}
    readable = model.make_output_human_readable(model.decode(scores, torch.tensor([2, 0, 1, 0]), batch["metadata"]))
    assert readable["label"] == [model.vocab.get_token_from_index(index, "labels") for index in (2, 0, 1, 2)]
    assert model.get_metrics() == {"accuracy": 0.75}


def test_readable_output_names_labels_and_has_a_row_a_token(task):
    model = task.build()
    outputs = model.forward_on_instances(task.instances(model, UNLABELLED))
    for output in outputs:
        assert set(output["probabilities"]) == {"entailment", "neutral", "contradiction"}
        assert math.isclose(sum(output["probabilities"].values()), 1, rel_tol=1e-5)
        assert output["label"] == max(output["probabilities"], key=output["probabilities"].get)
        for rows, columns in (("premise", "hypothesis"), ("hypothesis", "premise")):
            attention = output[f"{rows}_attention"]
            assert len(attention) == len(output[f"{rows}_tokens"])
            assert all(len(row) == len(output[f"{columns}_tokens"]) for row in attention)
            assert all(math.isclose(sum(row), 1, rel_tol=1e-5) for row in attention)


def test_every_parameter_but_the_frozen_bilm_gets_a_gradient(task):
    model = task.build(task.elmo("input", "output"), dropout=0.0).train()
    model(**task.tensors(model))["loss"].backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert without == {name for name, _ in model.named_parameters() if ".bilm." in name}


def inputs_of(module, run):
    """What a module is given while `run` runs."""
    seen = []
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    run()
    handle.remove()
    return seen


@pytest.mark.parametrize("name", ["encoder", "composition"])
def test_dropout_at_lstm_inputs_is_the_same_at_every_token(task, name):
    # Linear, since a ReLU has zeros of its own.
    projection = {"num_layers": 1, "hidden_dims": 20, "activations": "linear"}
    model = task.build(dropout=0.5, projection=projection).train()
    for inputs in inputs_of(getattr(model, name), lambda: model(**task.tensors(model, PAIRS[:1]))):
        dropped = inputs[0].eq(0)
        assert dropped.any() and not dropped.all()
        assert dropped.eq(dropped[0]).all()


@pytest.mark.parametrize("name", ["classifier", "output_layer"])
def test_dropout_is_at_the_inputs_of_the_last_two_layers(task, name):
    model = task.build(dropout=0.99).train()
    (inputs,) = inputs_of(getattr(model, name), lambda: model(**task.tensors(model)))
    assert inputs.eq(0).float().mean() > 0.8


def test_attention_dropout_is_at_the_projection_only_if_asked_for(task):
    for rate, expected in ((0.0, 0.0), (0.5, 0.5)):
        model = task.build(dropout=0.0, attention_dropout=rate).train()
        for inputs in inputs_of(model.projection, lambda model=model: model(**task.tensors(model, PAIRS[:1]))):
            assert abs(inputs.eq(0).float().mean() - expected) < 0.2


def test_no_dropout_in_evaluation(task):
    model = task.build(dropout=0.9, attention_dropout=0.9)
    batch = task.tensors(model)
    assert_close(model(**batch)["probabilities"], model(**batch)["probabilities"], rtol=0, atol=0)


def test_model_learns(task):
    model = task.build(dropout=0.0, projection={"num_layers": 1, "hidden_dims": 30, "activations": "relu"})
    task.learn(model, learning_rate=0.02, num_updates=60)
    assert model.get_metrics() == {"accuracy": 1.0}


def test_l2_of_the_elmo_config_is_on_weight_matrices_and_layer_weights_only(task, root, monkeypatch):
    for name in ("ELMO_SNLI_TRAIN", "ELMO_SNLI_DEV", "ELMO_BILM"):
        monkeypatch.setenv(name, "unused")
    config = Params.from_file(root / "training_configs" / "snli" / "elmo.jsonnet").as_dict(quiet=True)
    regexes = {regex: regularizer["alpha"] for regex, regularizer in config["model"]["regularizer"]["regexes"]}
    strengths = {
        name: [alpha for regex, alpha in regexes.items() if re.search(regex, name)]
        for name, _ in task.build(task.elmo("input", "output")).named_parameters()
    }
    lstm = ["weight_ih_l0", "weight_hh_l0", "weight_ih_l0_reverse", "weight_hh_l0_reverse"]
    matrices = {f"{encoder}._module.{weight}" for encoder in ("encoder", "composition") for weight in lstm}
    matrices |= {"projection._linear_layers.0.weight", "classifier._linear_layers.0.weight", "output_layer.weight"}
    assert {name for name, alphas in strengths.items() if alphas == [0.0001]} == matrices
    layer_weights = {name for name, alphas in strengths.items() if alphas == [0.001]}
    assert layer_weights == {name for name in strengths if "scalar_parameters" in name} != set()
    assert all(len(alphas) < 2 for alphas in strengths.values())


def test_a_sentence_of_2000_tokens_is_classified(task):
    model = task.build()
    output = model(**task.tensors(model, [("cat " * 2000, "It purrs .", "neutral"), ("It", "cat " * 2000, "neutral")]))
    assert output["loss"].isfinite()


def test_attention_beyond_the_limit_is_refused_with_the_remedy(task):
    model = task.build(max_attention_weights=5)
    with pytest.raises(
        ConfigurationError, match="up to 2 tokens .* up to 3 in a batch of 1 has 6 weights.*limit is 5.*max_att"
    ):
        model(**task.tensors(model, [("A cat", "It purrs .", "neutral")]))
