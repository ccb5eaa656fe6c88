import itertools

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Vocabulary
from allennlp.models import Model

from elmo_plugin.tasks.common.ensemble import Ensemble
from elmo_plugin.tasks.common.spans import tags_to_spans
from elmo_plugin.tasks.ner import NerReader, NerTagger
from elmo_plugin.text import ContextualEmbedder

SENTENCES = [
    ("Ada Byron met Bo", "B-PER L-PER O U-PER"),
    ("Oslo", "U-LOC"),
    ("the Brass Band Trust left Lower Quay today", "O B-ORG I-ORG L-ORG O B-LOC L-LOC O"),
]


@ContextualEmbedder.register("ner_test_numbers", exist_ok=True)
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


def make_reader(**kwargs):
    indexers = {"tokens": {"type": "single_id"}, "numbers": {"type": "single_id"}}
    return NerReader.from_params(Params({"token_indexers": indexers, **kwargs}))


def make_instances(sentences=SENTENCES, tagged=True):
    reader = make_reader()
    instances = [reader.text_to_instance(text.split(), tags.split() if tagged else None) for text, tags in sentences]
    for instance in instances:
        reader.apply_token_indexers(instance)
    return instances


@pytest.fixture(scope="module")
def vocab():
    return Vocabulary.from_instances(make_instances())


def make_model(vocab, contextual=None, seed=0, **kwargs):
    torch.manual_seed(seed)
    text_embedder = {"words": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 5}}}}
    text_embedder["contextual"] = contextual or {"type": "ner_test_numbers", "dim": 3, "placements": ["input"]}
    params = {
        "type": "elmo::ner",
        "text_embedder": text_embedder,
        "lower_encoder": {"type": "lstm", "hidden_size": 4, "bidirectional": True},
        "upper_encoder": {"type": "lstm", "hidden_size": 6, "bidirectional": True},
        **kwargs,
    }
    return Model.from_params(vocab=vocab, params=Params(params)).eval()


def tensors(instances, vocab):
    batch = Batch(instances)
    batch.index_instances(vocab)
    return batch.as_tensor_dict()


def test_the_loss_is_the_log_probability_of_the_gold_tags_among_all_sequences(vocab):
    model = make_model(vocab)
    batch = tensors(make_instances([("Ada met Oslo", "U-PER O U-LOC")]), vocab)
    with torch.no_grad():
        scores, loss = model.scores(batch["tokens"]), model(**batch)["loss"]
    num_tags = vocab.get_vocab_size("labels")

    def score(tag_ids):
        emitted = sum(scores["emissions"][0, step, tag_id] for step, tag_id in enumerate(tag_ids))
        moved = sum(scores["transitions"][pair] for pair in itertools.pairwise(tag_ids))
        return emitted + moved + scores["start_transitions"][tag_ids[0]] + scores["end_transitions"][tag_ids[-1]]

    of_all = torch.stack([score(tag_ids) for tag_ids in itertools.product(range(num_tags), repeat=3)])
    of_gold = score(batch["tags"][0].tolist())
    assert loss.item() == pytest.approx((of_all.logsumexp(0) - of_gold).item(), abs=1e-4)


def test_the_loss_of_a_batch_is_the_mean_of_its_sentences(vocab):
    model = make_model(vocab)
    instances = make_instances()
    alone = [model(**tensors([instance], vocab))["loss"].item() for instance in instances]
    assert model(**tensors(instances, vocab))["loss"].item() == pytest.approx(sum(alone) / len(alone), rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_untrained_models_give_well_formed_tags(vocab, seed):
    model = make_model(vocab, seed=seed)
    with torch.no_grad():
        model.crf.transitions.mul_(20)
    output = model(**tensors(make_instances(tagged=False), vocab))
    assert [len(tags) for tags in output["tags"]] == [4, 1, 8]
    for tags in output["tags"]:
        tags_to_spans(tags, "BIOUL")
    assert "loss" not in output


def test_padding_batch_mates_and_order_change_nothing(vocab):
    model = make_model(vocab, contextual={"type": "ner_test_numbers", "dim": 3, "placements": ["input", "output"]})
    instances = make_instances(tagged=False)
    together = model.scores(tensors(instances, vocab)["tokens"])["emissions"]
    flipped = model.scores(tensors(instances[::-1], vocab)["tokens"])["emissions"].flip(0)
    torch.testing.assert_close(flipped, together)
    for row, instance in enumerate(instances):
        alone = model.scores(tensors([instance], vocab)["tokens"])["emissions"][0]
        torch.testing.assert_close(alone, together[row, : len(alone)])
    assert model.forward_on_instances(instances)[0]["tags"] == model.forward_on_instance(instances[0])["tags"]


@pytest.mark.parametrize("dim", [2, 9])
@pytest.mark.parametrize("placements", [["input"], ["output"], ["input", "output"]])
def test_widths_follow_the_embedder(vocab, dim, placements):
    model = make_model(vocab, contextual={"type": "ner_test_numbers", "dim": dim, "placements": placements})
    # Word vectors of 5, and two directions of 4.
    assert model.lower_encoder.get_input_dim() == 5 + dim * ("input" in placements)
    assert model.upper_encoder.get_input_dim() == 8 + dim * ("output" in placements)
    assert model(**tensors(make_instances(), vocab))["loss"].isfinite()


def test_output_vectors_stand_beside_what_the_lower_encoder_gives(vocab):
    model = make_model(vocab, contextual={"type": "ner_test_numbers", "dim": 3, "placements": ["output"]})
    seen = {}
    model.lower_encoder.register_forward_hook(lambda module, args, output: seen.update(lower=output))
    model.upper_encoder.register_forward_hook(lambda module, args, output: seen.update(upper=args[0]))
    batch = tensors(make_instances(), vocab)
    model.scores(batch["tokens"])
    numbers = batch["tokens"]["numbers"]["tokens"].float().unsqueeze(-1).expand(-1, -1, 3)
    assert torch.equal(seen["upper"], torch.cat([seen["lower"], numbers], dim=-1))


def test_a_placement_it_doesnt_have_is_refused(vocab):
    with pytest.raises(ConfigurationError, match="no placement 'integrated' here; this model has 'input', 'output'"):
        make_model(vocab, contextual={"type": "ner_test_numbers", "dim": 3, "placements": ["integrated"]})


def test_a_baseline_has_no_contextual_parameter(vocab):
    names = [name for name, _ in make_model(vocab, contextual={"type": "none"}).named_parameters()]
    assert names and not any("contextual" in name for name in names)


def test_dropout_is_one_mask_a_sentence_at_the_input_of_both_encoders(vocab):
    model = make_model(vocab, dropout=0.5).train()
    seen = []
    for encoder in (model.lower_encoder, model.upper_encoder):
        encoder.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model.scores(tensors(make_instances([SENTENCES[2]] * 2), vocab)["tokens"])
    assert len(seen) == 2
    for inputs in seen:
        # Shape: (batch_size, num_tokens, dim)
        dropped = inputs == 0
        assert dropped.any() and not dropped.all()
        assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert not torch.equal(seen[0][0] == 0, seen[0][1] == 0)


def test_a_gradient_reaches_every_parameter(vocab):
    model = make_model(vocab).train()
    model(**tensors(make_instances(), vocab))["loss"].backward()
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {"crf.transitions", "output_layer.weight"} < trained.keys()
    for name, parameter in trained.items():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_a_few_sentences_can_be_learned_by_heart(vocab):
    model = make_model(vocab, dropout=0.0).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    batch = tensors(make_instances(), vocab)
    for _ in range(40):
        optimizer.zero_grad()
        model(**batch)["loss"].backward()
        optimizer.step()
    model.eval().get_metrics(reset=True)
    output = model(**batch)
    assert output["tags"] == [tags.split() for _, tags in SENTENCES]
    metrics = model.get_metrics()
    assert metrics["f1"] == metrics["f1-ORG"] == metrics["accuracy"] == 1.0
    assert model.conll_report().startswith("processed 13 tokens with 5 phrases; found: 5 phrases; correct: 5.\n")


def test_outputs_name_tokens_and_gold_tags(vocab):
    output = make_model(vocab)(**tensors(make_instances(), vocab))
    assert output["tokens"] == [text.split() for text, _ in SENTENCES]
    assert output["gold_tags"] == [tags.split() for _, tags in SENTENCES]


def test_metrics_start_anew_after_a_reset(vocab):
    model = make_model(vocab)
    model(**tensors(make_instances(), vocab))
    assert "f1-PER" in model.get_metrics(reset=True)
    assert "f1-PER" not in model.get_metrics()


def test_an_ensemble_decodes_the_mean_of_emissions_and_transitions(vocab):
    members = [make_model(vocab, seed=seed) for seed in (1, 2)]
    batch = tensors(make_instances(), vocab)
    ensemble = Ensemble(vocab, members).eval()
    ensemble_tags = ensemble(**batch)["tags"]
    first, second = (member.scores(batch["tokens"]) for member in members)
    mean = {name: (first[name] + second[name]) / 2 for name in first.keys() - {"mask"}}
    assert ensemble_tags == members[1].decode({**mean, "mask": first["mask"]})["tags"]
    assert "f1" in ensemble.get_metrics()
    # Neither member alone says the same, or this shows nothing.
    assert all(ensemble_tags != member.decode(member.scores(batch["tokens"]))["tags"] for member in members)


def test_a_scheme_that_isnt_the_readers_is_refused(vocab):
    with pytest.raises(ConfigurationError, match="isn't a tag of the scheme BIO.*does the dataset reader convert"):
        make_model(vocab, coding_scheme="BIO")


def test_a_vocabulary_without_tags_is_refused():
    with pytest.raises(ConfigurationError, match="'labels' holds no tags"):
        make_model(Vocabulary.from_instances(make_instances(tagged=False)))


def test_it_is_registered_with_its_predictor():
    assert Model.by_name("elmo::ner") is NerTagger
    assert NerTagger.default_predictor == "elmo::ner"
