import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Vocabulary
from allennlp.models import Model

from elmo_plugin.tasks.common.ensemble import Ensemble
from elmo_plugin.tasks.common.spans import tags_to_spans
from elmo_plugin.tasks.srl import SrlReader, SrlTagger
from elmo_plugin.text import ContextualEmbedder

PREDICATES = [
    ("Ada says Bo left", 1, "B-ARG0 B-V B-ARG1 I-ARG1"),
    ("Ada says Bo left", 3, "O O B-ARG0 B-V"),
    ("Run", 0, "B-V"),
    ("the old boat , Cy thinks , sank", 5, "B-ARG1 I-ARG1 I-ARG1 O B-ARG0 B-V O B-C-ARG1"),
]


@ContextualEmbedder.register("srl_test_numbers", exist_ok=True)
class Numbers(ContextualEmbedder):
    """Gives each token the number of its word, in every dimension, at the placements asked for."""

    indexers = ("numbers",)

    def __init__(self, dim: int, placements: list) -> None:
        super().__init__()
        self.dim, self.placements = dim, tuple(placements)

    def get_output_dim(self):
        return self.dim

    def forward(self, text):
        numbers = text["numbers"]["tokens"].float().unsqueeze(-1).expand(-1, -1, self.dim)
        return {placement: numbers for placement in self.placements}


def make_instances(predicates=PREDICATES, tagged=True):
    indexers = {"tokens": {"type": "single_id"}, "numbers": {"type": "single_id"}}
    reader = SrlReader.from_params(Params({"token_indexers": indexers}))
    instances = [
        reader.text_to_instance(text.split(), index, tags.split() if tagged else None)
        for text, index, tags in predicates
    ]
    for instance in instances:
        reader.apply_token_indexers(instance)
    return instances


@pytest.fixture(scope="module")
def vocab():
    return Vocabulary.from_instances(make_instances())


def make_model(vocab, contextual=None, seed=0, recurrent_dropout=0.0, **kwargs):
    torch.manual_seed(seed)
    text_embedder = {"words": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 5}}}}
    text_embedder["contextual"] = contextual or {"type": "srl_test_numbers", "dim": 3, "placements": ["input"]}
    encoder = {"type": "elmo::alternating_lstm", "hidden_size": 16, "num_layers": 2}
    params = {
        "type": "elmo::srl",
        "text_embedder": text_embedder,
        "encoder": {**encoder, "recurrent_dropout": recurrent_dropout},
        "predicate_dim": 4,
        **kwargs,
    }
    return Model.from_params(vocab=vocab, params=Params(params)).eval()


def tensors(instances, vocab):
    batch = Batch(instances)
    batch.index_instances(vocab)
    return batch.as_tensor_dict()


def test_the_loss_is_the_mean_over_predicates_of_the_mean_over_words(vocab):
    model = make_model(vocab)
    batch = tensors(make_instances(), vocab)
    loss, scores = model(**batch)["loss"], model.scores(batch["tokens"], batch["predicate_indicator"])
    by_row = []
    for row, (_, _, tags) in enumerate(PREDICATES):
        tag_ids = [vocab.get_token_index(tag, "labels") for tag in tags.split()]
        log_probabilities = [scores["log_probabilities"][row, step, tag_id] for step, tag_id in enumerate(tag_ids)]
        by_row.append(-sum(log_probabilities) / len(log_probabilities))
    assert loss.item() == pytest.approx((sum(by_row) / len(by_row)).item(), rel=1e-5)
    torch.testing.assert_close(scores["log_probabilities"].exp().sum(dim=-1), torch.ones(4, 8))


def test_tags_that_arent_in_the_vocabulary_have_no_loss_but_are_missed(vocab):
    model = make_model(vocab)
    known, partly_new = ([("Ada left", 1, tags)] for tags in ("B-ARG0 B-V", "B-ARGM-COM B-V"))
    batch, batch_with_new = (tensors(make_instances(each), vocab) for each in (known, partly_new))
    log_probabilities = model.scores(batch["tokens"], batch["predicate_indicator"])["log_probabilities"]
    model.get_metrics(reset=True)
    expected = -log_probabilities[0, 1, vocab.get_token_index("B-V", "labels")]
    assert model(**batch_with_new)["loss"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert model.get_metrics()["f1-ARGM-COM"] == 0.0


def test_the_predicate_makes_a_difference(vocab):
    model = make_model(vocab)
    batch = tensors(make_instances(), vocab)
    first, second = model.scores(batch["tokens"], batch["predicate_indicator"])["log_probabilities"][:2]
    assert not torch.allclose(first[:4], second[:4])


@pytest.mark.parametrize("seed", range(5))
def test_untrained_models_give_well_formed_tags(vocab, seed):
    output = make_model(vocab, seed=seed)(**tensors(make_instances(tagged=False), vocab))
    assert [len(tags) for tags in output["tags"]] == [4, 4, 1, 8]
    for tags in output["tags"]:
        tags_to_spans(tags, "BIO")
    assert "loss" not in output and "gold_tags" not in output


def test_padding_batch_mates_and_order_change_nothing(vocab):
    model = make_model(vocab, contextual={"type": "srl_test_numbers", "dim": 3, "placements": ["input", "output"]})
    instances = make_instances(tagged=False)

    def log_probabilities(some):
        return model.scores(**tensors(some, vocab))["log_probabilities"]

    together = log_probabilities(instances)
    torch.testing.assert_close(log_probabilities(instances[::-1]).flip(0), together)
    for row, instance in enumerate(instances):
        alone = log_probabilities([instance])[0]
        torch.testing.assert_close(alone, together[row, : len(alone)])
    assert model.forward_on_instances(instances)[0]["tags"] == model.forward_on_instance(instances[0])["tags"]


def test_each_sentence_is_embedded_once_and_scores_the_same(vocab):
    model = make_model(vocab, contextual={"type": "srl_test_numbers", "dim": 3, "placements": ["input", "output"]})
    num_rows = []
    model.text_embedder.contextual.register_forward_hook(
        lambda module, args, output: num_rows.append(len(output["input"]))
    )
    order = [0, 2, 1, 3, 2]
    batch = tensors([make_instances(tagged=False)[index] for index in order], vocab)
    shared = model.scores(**batch)
    separate = model.scores(batch["tokens"], batch["predicate_indicator"])
    assert num_rows == [3, 5]
    torch.testing.assert_close(shared["log_probabilities"], separate["log_probabilities"])
    assert torch.equal(shared["mask"], separate["mask"])


@pytest.mark.parametrize("dim", [2, 9])
@pytest.mark.parametrize("placements", [["input"], ["output"], ["input", "output"]])
def test_widths_follow_the_embedder(vocab, dim, placements):
    model = make_model(vocab, contextual={"type": "srl_test_numbers", "dim": dim, "placements": placements})
    # Word vectors of 5, and 4 for the predicate.
    assert model.encoder.get_input_dim() == 9 + dim * ("input" in placements)
    assert model.output_layer.in_features == 16 + dim * ("output" in placements)
    assert model(**tensors(make_instances(), vocab))["loss"].isfinite()


def test_a_placement_it_doesnt_have_is_refused(vocab):
    with pytest.raises(ConfigurationError, match="no placement 'integrated' here; this model has 'input', 'output'"):
        make_model(vocab, contextual={"type": "srl_test_numbers", "dim": 3, "placements": ["integrated"]})


def test_a_baseline_has_no_contextual_parameter(vocab):
    names = [name for name, _ in make_model(vocab, contextual={"type": "none"}).named_parameters()]
    assert names and not any("contextual" in name for name in names)


def test_the_output_layer_begins_orthogonal(vocab):
    weight = make_model(vocab).output_layer.weight
    torch.testing.assert_close(weight @ weight.t(), torch.eye(len(weight)), atol=1e-5, rtol=0)
    assert (make_model(vocab).output_layer.bias == 0).all()


def test_a_gradient_reaches_every_parameter(vocab):
    model = make_model(vocab).train()
    model(**tensors(make_instances(), vocab))["loss"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_nothing_is_decoded_while_training(vocab):
    model = make_model(vocab).train()
    assert model(**tensors(make_instances(), vocab)).keys() == {"loss"}
    assert model.get_metrics() == {}


def test_a_few_sentences_can_be_learned_by_heart(vocab):
    model = make_model(vocab).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    batch = tensors(make_instances(), vocab)
    for _ in range(60):
        optimizer.zero_grad()
        model(**batch)["loss"].backward()
        optimizer.step()
    output = model.eval()(**batch)
    assert output["tags"] == output["gold_tags"] == [tags.split() for _, _, tags in PREDICATES]
    assert output["predicate_index"] == [1, 3, 0, 5]
    metrics = model.get_metrics(reset=True)
    assert metrics["f1"] == metrics["f1-ARG1"] == metrics["perfect"] == 1.0
    assert model.get_metrics() == {}


def test_an_ensemble_decodes_the_mean_of_log_probabilities(vocab):
    members = [make_model(vocab, seed=seed) for seed in (1, 2)]
    batch = tensors(make_instances(), vocab)
    ensemble = Ensemble(vocab, members).eval()
    tags = ensemble(**batch)["tags"]
    first, second = (
        member.scores(batch["tokens"], batch["predicate_indicator"])["log_probabilities"] for member in members
    )
    mask = batch["tokens"]["tokens"]["tokens"] != 0
    assert tags == members[1].decode({"log_probabilities": (first + second) / 2, "mask": mask})["tags"]
    assert "f1" in ensemble.get_metrics()


def test_a_vocabulary_without_tags_is_refused():
    with pytest.raises(ConfigurationError, match="'labels' holds no tags"):
        make_model(Vocabulary.from_instances(make_instances(tagged=False)))


def test_it_is_registered_with_its_predictor():
    assert Model.by_name("elmo::srl") is SrlTagger
    assert SrlTagger.default_predictor == "elmo::srl"
