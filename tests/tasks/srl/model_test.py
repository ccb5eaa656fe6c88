import pytest
import torch
from allennlp.common.checks import ConfigurationError
from model_contract import ModelContract

from elmo_plugin.tasks.common.ensemble import Ensemble
from elmo_plugin.tasks.common.spans import tags_to_spans

PREDICATES = [
    ("Ada says Bo left", 1, "B-ARG0 B-V B-ARG1 I-ARG1"),
    ("Ada says Bo left", 3, "O O B-ARG0 B-V"),
    ("Run", 0, "B-V"),
    ("the old boat , Cy thinks , sank", 5, "B-ARG1 I-ARG1 I-ARG1 O B-ARG0 B-V O B-C-ARG1"),
]
UNTAGGED = [(text, index) for text, index, _ in PREDICATES]
MODEL = {
    "type": "elmo::srl",
    "text_embedder": {
        "words": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 5}}},
        "contextual": {"type": "test_numbers", "dim": 3, "placements": ["input"]},
    },
    "encoder": {"type": "elmo::alternating_lstm", "hidden_size": 16, "num_layers": 2, "recurrent_dropout": 0.0},
    "predicate_dim": 4,
}


@pytest.fixture(scope="module")
def task(make_task):
    return make_task(MODEL, PREDICATES, lambda text, index, tags=None: (text.split(), index, tags and tags.split()))


class TestContract(ModelContract):
    name = "elmo::srl"


def test_the_loss_is_the_mean_over_predicates_of_the_mean_over_words(task):
    model = task.build()
    batch = task.tensors(model)
    loss, scores = model(**batch)["loss"], model.scores(batch["tokens"], batch["predicate_indicator"])
    by_row = []
    for row, (_, _, tags) in enumerate(PREDICATES):
        tag_ids = [model.vocab.get_token_index(tag, "labels") for tag in tags.split()]
        log_probabilities = [scores["log_probabilities"][row, step, tag_id] for step, tag_id in enumerate(tag_ids)]
        by_row.append(-sum(log_probabilities) / len(log_probabilities))
    assert loss.item() == pytest.approx((sum(by_row) / len(by_row)).item(), rel=1e-5)
    torch.testing.assert_close(scores["log_probabilities"].exp().sum(dim=-1), torch.ones(4, 8))


def test_tags_that_arent_in_the_vocabulary_have_no_loss_but_are_missed(task):
    model = task.build()
    known, partly_new = ([("Ada left", 1, tags)] for tags in ("B-ARG0 B-V", "B-ARGM-COM B-V"))
    batch, batch_with_new = (task.tensors(model, each) for each in (known, partly_new))
    log_probabilities = model.scores(batch["tokens"], batch["predicate_indicator"])["log_probabilities"]
    model.get_metrics(reset=True)
    expected = -log_probabilities[0, 1, model.vocab.get_token_index("B-V", "labels")]
    assert model(**batch_with_new)["loss"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert model.get_metrics()["f1-ARGM-COM"] == 0.0


def test_the_predicate_makes_a_difference(task):
    model = task.build()
    batch = task.tensors(model)
    first, second = model.scores(batch["tokens"], batch["predicate_indicator"])["log_probabilities"][:2]
    assert not torch.allclose(first[:4], second[:4])


@pytest.mark.parametrize("seed", range(5))
def test_untrained_models_give_well_formed_tags(task, seed):
    model = task.build(seed=seed)
    output = model(**task.tensors(model, UNTAGGED))
    assert [len(tags) for tags in output["tags"]] == [4, 4, 1, 8]
    for tags in output["tags"]:
        tags_to_spans(tags, "BIO")
    assert "loss" not in output and "gold_tags" not in output


def test_padding_batch_mates_and_order_change_nothing(task):
    model = task.build(task.numbers("input", "output"))

    def log_probabilities(predicates):
        return model.scores(**task.tensors(model, predicates))["log_probabilities"]

    together = log_probabilities(UNTAGGED)
    torch.testing.assert_close(log_probabilities(UNTAGGED[::-1]).flip(0), together)
    for row, predicate in enumerate(UNTAGGED):
        alone = log_probabilities([predicate])[0]
        torch.testing.assert_close(alone, together[row, : len(alone)])
    instances = task.instances(model, UNTAGGED)
    assert model.forward_on_instances(instances)[0]["tags"] == model.forward_on_instance(instances[0])["tags"]


def test_each_sentence_is_embedded_once_and_scores_the_same(task):
    model = task.build(task.numbers("input", "output"))
    num_rows = []
    model.text_embedder.contextual.register_forward_hook(
        lambda module, args, output: num_rows.append(len(output["input"]))
    )
    order = [0, 2, 1, 3, 2]
    batch = task.tensors(model, [UNTAGGED[index] for index in order])
    shared = model.scores(**batch)
    separate = model.scores(batch["tokens"], batch["predicate_indicator"])
    assert num_rows == [3, 5]
    torch.testing.assert_close(shared["log_probabilities"], separate["log_probabilities"])
    assert torch.equal(shared["mask"], separate["mask"])


@pytest.mark.parametrize("dim", [2, 9])
@pytest.mark.parametrize("placements", [["input"], ["output"], ["input", "output"]])
def test_widths_follow_the_embedder(task, dim, placements):
    model = task.build(task.numbers(*placements, dim=dim))
    # Word vectors of 5, and 4 for the predicate.
    assert model.encoder.get_input_dim() == 9 + dim * ("input" in placements)
    assert model.output_layer.in_features == 16 + dim * ("output" in placements)
    assert model(**task.tensors(model))["loss"].isfinite()


def test_the_output_layer_begins_orthogonal(task):
    weight = task.build().output_layer.weight
    torch.testing.assert_close(weight @ weight.t(), torch.eye(len(weight)), atol=1e-5, rtol=0)
    assert (task.build().output_layer.bias == 0).all()


def test_a_gradient_reaches_every_parameter(task):
    model = task.build().train()
    model(**task.tensors(model))["loss"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_nothing_is_decoded_while_training(task):
    model = task.build().train()
    assert model(**task.tensors(model)).keys() == {"loss"}
    assert model.get_metrics() == {}


def test_a_few_sentences_can_be_learned_by_heart(task):
    model = task.build()
    output = task.learn(model, learning_rate=0.03, num_updates=60)
    assert output["tags"] == output["gold_tags"] == [tags.split() for _, _, tags in PREDICATES]
    assert output["predicate_index"] == [1, 3, 0, 5]
    metrics = model.get_metrics(reset=True)
    assert metrics["f1"] == metrics["f1-ARG1"] == metrics["perfect"] == 1.0
    assert model.get_metrics() == {}


def test_an_ensemble_decodes_the_mean_of_log_probabilities(task):
    members = [task.build(seed=seed) for seed in (1, 2)]
    batch = task.tensors(members[0])
    ensemble = Ensemble(members[0].vocab, members).eval()
    tags = ensemble(**batch)["tags"]
    first, second = (
        member.scores(batch["tokens"], batch["predicate_indicator"])["log_probabilities"] for member in members
    )
    mask = batch["tokens"]["tokens"]["tokens"] != 0
    assert tags == members[1].decode({"log_probabilities": (first + second) / 2, "mask": mask})["tags"]
    assert "f1" in ensemble.get_metrics()


def test_a_vocabulary_without_tags_is_refused(task):
    with pytest.raises(ConfigurationError, match="'labels' holds 0 labels"):
        task.build(vocab=task.vocabulary(UNTAGGED))


def test_a_sentence_of_2000_tokens_is_tagged(task):
    model = task.build()
    output = model(**task.tensors(model, [("Ada left " * 1000, 1, "B-ARG0 B-V" + " O" * 1998)]))
    assert output["loss"].isfinite() and len(output["tags"][0]) == 2000
