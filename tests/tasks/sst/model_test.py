import copy
from typing import Any, Dict, List, Optional, Sequence

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, DatasetReader, Instance, Vocabulary
from allennlp.models import Model

import elmo_plugin.tasks.sst  # noqa: F401

WORDS = {"type": "single_id"}
CHARACTERS = {"type": "elmo::characters"}
SENTENCES = [
    ("A lovely film , and a long one at that .", "very positive"),
    ("Dull .", "negative"),
    ("It runs ninety minutes .", "neutral"),
    ("A dreadful film .", "very negative"),
    ("Lovely", "positive"),
]

MODEL: Dict[str, Any] = {
    "type": "elmo::sst",
    "text_embedder": {"words": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 6}}}},
    "token_feedforward": {"num_layers": 1, "hidden_dims": 5, "activations": "relu"},
    "encoder": {"type": "lstm", "hidden_size": 4, "bidirectional": True},
    "integrator": {"type": "lstm", "hidden_size": 3, "bidirectional": True},
    "feedforward": {"num_layers": 2, "hidden_dims": [7, 6], "activations": "relu"},
}


def instances(sentences: Sequence, contextual: bool = True) -> List[Instance]:
    indexers = {"tokens": WORDS, **({"elmo": CHARACTERS} if contextual else {})}
    reader = DatasetReader.from_params(Params({"type": "elmo::sst", "token_indexers": copy.deepcopy(indexers)}))
    made = [reader.text_to_instance(text.split(), label) for text, label in sentences]
    for instance in made:
        reader.apply_token_indexers(instance)
    return made


@pytest.fixture
def build(bilm_files):
    """Builds a small model, with vectors in context at the given placements and the given changes."""

    def build_model(placements: Sequence[str] = (), bilm: Optional[Any] = None, **changes) -> Model:
        torch.manual_seed(0)
        params = {**copy.deepcopy(MODEL), **changes}
        if placements:
            options_file, weight_file = bilm or bilm_files
            params["text_embedder"]["contextual"] = {
                "type": "elmo",
                "bilm": {"type": "files", "options_file": options_file, "weight_file": weight_file},
                "placements": list(placements),
            }
        vocab = Vocabulary.from_instances(instances(SENTENCES, contextual=bool(placements)))
        return Model.from_params(Params(params), vocab=vocab).eval()

    return build_model


def tensors(model: Model, sentences: Sequence = SENTENCES, contextual: bool = True) -> Dict[str, Any]:
    batch = Batch(instances(sentences, contextual))
    batch.index_instances(model.vocab)
    return batch.as_tensor_dict()


def probabilities(model: Model, sentences: Sequence = SENTENCES) -> torch.Tensor:
    return model(**tensors(model, sentences))["probabilities"]


ALL = ("input", "output", "integrated")


def test_a_sentence_gets_a_distribution_over_the_labels(build):
    distribution = probabilities(build(ALL))
    assert distribution.shape == (5, 5)
    torch.testing.assert_close(distribution.sum(dim=-1), torch.ones(5))


@pytest.mark.parametrize("placements", [("input",), ("output",), ("integrated",), ("input", "output"), ALL])
def test_the_widths_follow_the_placements(build, placements):
    model, baseline, bilm_dim = build(placements), build(), 16
    grown = {name: bilm_dim if name in placements else 0 for name in ALL}
    assert model.token_feedforward.get_input_dim() == 6 + grown["input"]
    assert model.integrator.get_input_dim() == 3 * (8 + grown["output"])
    assert model.output_layers.get_input_dim() == 4 * (6 + grown["integrated"])
    assert baseline.integrator.get_input_dim() == 3 * 8
    assert probabilities(model).shape == (5, 5)


@pytest.mark.parametrize("placement", ALL)
def test_the_vectors_of_each_placement_reach_the_prediction(build, placement):
    model = build([placement])
    before = probabilities(model)
    with torch.no_grad():
        model.text_embedder.contextual.mixes[placement].gamma.fill_(0.0)
    assert not torch.allclose(before, probabilities(model))


def test_the_widths_follow_the_bilm(build, make_bilm_files):
    wider = make_bilm_files(lstm={"projection_dim": 12}, name="wider")
    model = build(ALL, bilm=wider)
    assert model.text_embedder.contextual.get_output_dim() == 24
    assert model.token_feedforward.get_input_dim() == 6 + 24
    assert probabilities(model).shape == (5, 5)


def test_an_unknown_placement_is_refused(build):
    with pytest.raises(ConfigurationError, match="no placement 'pooled' here; this model has 'input', 'output', 'inte"):
        build(["input", "pooled"])


def test_a_baseline_has_no_contextual_parameter(build):
    model = build()
    assert not [name for name, _ in model.named_parameters() if "contextual" in name]
    assert model(**tensors(model, contextual=False))["probabilities"].shape == (5, 5)


def test_padding_batch_size_and_order_dont_change_a_prediction(build):
    model = build(ALL)
    together = probabilities(model)
    alone = torch.cat([probabilities(model, [sentence]) for sentence in SENTENCES])
    torch.testing.assert_close(together, alone)
    torch.testing.assert_close(together, probabilities(model, SENTENCES[::-1]).flip(0))


def test_every_parameter_but_the_frozen_bilm_gets_a_gradient(build):
    model = build(ALL).train()
    model(**tensors(model))["loss"].backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            # Each token's score is shifted by the same bias, which a softmax doesn't see.
            assert name.endswith("score.bias") or (parameter.grad is not None and parameter.grad.abs().sum() > 0), name
        else:
            assert "bilm" in name


def test_the_loss_is_the_cross_entropy_and_accuracy_counts_the_most_probable_label(build):
    model = build(["input"])
    batch = tensors(model)
    output = model(**batch)
    rows = torch.arange(len(SENTENCES))
    torch.testing.assert_close(output["loss"], -output["probabilities"][rows, batch["label"]].log().mean())
    right = (output["probabilities"].argmax(dim=-1) == batch["label"]).float().mean()
    assert model.get_metrics(reset=True)["accuracy"] == pytest.approx(right.item())
    assert model.get_metrics()["accuracy"] == 0.0


def test_without_labels_there_is_no_loss_and_nothing_is_counted(build):
    model = build(["input"])
    output = model(**tensors(model, [(text, None) for text, _ in SENTENCES]))
    assert "loss" not in output
    assert model._accuracy.total_count == 0


def test_scores_and_decode_make_the_output_and_decode_takes_the_mean_of_several(build):
    model = build(["input"])
    batch = tensors(model)
    scores = model.scores(batch["tokens"])
    torch.testing.assert_close(scores["probabilities"], model(**batch)["probabilities"])
    sure = torch.eye(5)[batch["label"]]
    model.get_metrics(reset=True)
    output = model.decode({"probabilities": sure}, batch["label"], batch["metadata"])
    assert output["tokens"] == [text.split() for text, _ in SENTENCES]
    assert model.make_output_human_readable(output)["label"] == [label for _, label in SENTENCES]
    assert model.get_metrics()["accuracy"] == 1.0


def test_readable_output_names_the_labels(build):
    model = build(["input"])
    output = model.forward_on_instances(instances(SENTENCES))[0]
    assert output["probabilities"].keys() == {label for _, label in SENTENCES}
    assert output["label"] == max(output["probabilities"], key=output["probabilities"].get)
    assert output["tokens"] == SENTENCES[0][0].split()


def test_maxout_layers_can_stand_in_place_of_the_relu_layers(build):
    maxout = {"num_layers": 2, "output_dims": [7, 6], "pool_sizes": 4}
    model = build(ALL, feedforward=None, maxout=maxout)
    assert type(model.output_layers).__name__ == "Maxout"
    assert probabilities(model).shape == (5, 5)


@pytest.mark.parametrize("maxout, found", [(None, "neither is"), ({"num_layers": 1}, "both are")])
def test_either_relu_or_maxout_layers_have_to_be_given(build, maxout, found):
    feedforward = MODEL["feedforward"] if maxout else None
    with pytest.raises(ConfigurationError, match=f"either 'feedforward'.* or 'maxout'.*{found} there"):
        build(feedforward=feedforward, maxout=maxout)


def test_a_vocabulary_without_labels_is_refused():
    with pytest.raises(ConfigurationError, match="namespace 'labels' holds 0 labels"):
        Model.from_params(Params(copy.deepcopy(MODEL)), vocab=Vocabulary())


@pytest.mark.parametrize("name", ["embedding_dropout", "encoded_dropout", "pooled_dropout"])
def test_each_dropout_works_in_training_only(build, name):
    model = build(["output"], **{name: 0.5})
    model.text_embedder.contextual.dropout.p = 0.0
    batch = tensors(model)
    assert torch.equal(model(**batch)["probabilities"], model(**batch)["probabilities"])
    model.train()
    assert not torch.equal(model(**batch)["probabilities"], model(**batch)["probabilities"])


def test_a_regularizer_is_taken_from_the_config(build):
    regularizer = {"regexes": [["scalar_parameters", {"type": "l2", "alpha": 1.0}]]}
    model = build(["input"], regularizer=regularizer)
    with torch.no_grad():
        for parameter in model.text_embedder.contextual.mixes["input"].parameters():
            parameter.fill_(1.0)
    assert model.get_regularization_penalty().item() == pytest.approx(3.0)
