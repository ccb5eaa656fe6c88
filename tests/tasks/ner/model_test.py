import itertools

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from model_contract import ModelContract

from elmo_plugin.tasks.common.ensemble import Ensemble
from elmo_plugin.tasks.common.spans import tags_to_spans

SENTENCES = [
    ("Ada Byron met Bo", "B-PER L-PER O U-PER"),
    ("Oslo", "U-LOC"),
    ("the Brass Band Trust left Lower Quay today", "O B-ORG I-ORG L-ORG O B-LOC L-LOC O"),
]
UNTAGGED = [(text,) for text, _ in SENTENCES]
MODEL = {
    "type": "elmo::ner",
    "text_embedder": {
        "words": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 5}}},
        "contextual": {"type": "test_numbers", "dim": 3, "placements": ["input"]},
    },
    "lower_encoder": {"type": "lstm", "hidden_size": 4, "bidirectional": True},
    "upper_encoder": {"type": "lstm", "hidden_size": 6, "bidirectional": True},
}


@pytest.fixture(scope="module")
def task(make_task):
    return make_task(MODEL, SENTENCES, lambda text, tags=None: (text.split(), tags and tags.split()))


class TestContract(ModelContract):
    name = "elmo::ner"


def test_the_loss_is_the_log_probability_of_the_gold_tags_among_all_sequences(task):
    model = task.build()
    batch = task.tensors(model, [("Ada met Oslo", "U-PER O U-LOC")])
    with torch.no_grad():
        scores, loss = model.scores(batch["tokens"]), model(**batch)["loss"]
    num_tags = model.vocab.get_vocab_size("labels")

    def score(tag_ids):
        emitted = sum(scores["emissions"][0, step, tag_id] for step, tag_id in enumerate(tag_ids))
        moved = sum(scores["transitions"][pair] for pair in itertools.pairwise(tag_ids))
        return emitted + moved + scores["start_transitions"][tag_ids[0]] + scores["end_transitions"][tag_ids[-1]]

    of_all = torch.stack([score(tag_ids) for tag_ids in itertools.product(range(num_tags), repeat=3)])
    of_gold = score(batch["tags"][0].tolist())
    assert loss.item() == pytest.approx((of_all.logsumexp(0) - of_gold).item(), abs=1e-4)


def test_the_loss_of_a_batch_is_the_mean_of_its_sentences(task):
    model = task.build()
    alone = [model(**task.tensors(model, [sentence]))["loss"].item() for sentence in SENTENCES]
    assert model(**task.tensors(model))["loss"].item() == pytest.approx(sum(alone) / len(alone), rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_untrained_models_give_well_formed_tags(task, seed):
    model = task.build(seed=seed)
    with torch.no_grad():
        model.crf.transitions.mul_(20)
    output = model(**task.tensors(model, UNTAGGED))
    assert [len(tags) for tags in output["tags"]] == [4, 1, 8]
    for tags in output["tags"]:
        tags_to_spans(tags, "BIOUL")
    assert "loss" not in output


def test_padding_batch_mates_and_order_change_nothing(task):
    model = task.build(task.numbers("input", "output"))

    def emissions(sentences):
        return model.scores(task.tensors(model, sentences)["tokens"])["emissions"]

    together = emissions(UNTAGGED)
    torch.testing.assert_close(emissions(UNTAGGED[::-1]).flip(0), together)
    for row, sentence in enumerate(UNTAGGED):
        alone = emissions([sentence])[0]
        torch.testing.assert_close(alone, together[row, : len(alone)])
    instances = task.instances(model, UNTAGGED)
    assert model.forward_on_instances(instances)[0]["tags"] == model.forward_on_instance(instances[0])["tags"]


@pytest.mark.parametrize("dim", [2, 9])
@pytest.mark.parametrize("placements", [["input"], ["output"], ["input", "output"]])
def test_widths_follow_the_embedder(task, dim, placements):
    model = task.build(task.numbers(*placements, dim=dim))
    # Word vectors of 5, and two directions of 4.
    assert model.lower_encoder.get_input_dim() == 5 + dim * ("input" in placements)
    assert model.upper_encoder.get_input_dim() == 8 + dim * ("output" in placements)
    assert model(**task.tensors(model))["loss"].isfinite()


def test_output_vectors_stand_beside_what_the_lower_encoder_gives(task):
    model = task.build(task.numbers("output"))
    seen = {}
    model.lower_encoder.register_forward_hook(lambda module, args, output: seen.update(lower=output))
    model.upper_encoder.register_forward_hook(lambda module, args, output: seen.update(upper=args[0]))
    batch = task.tensors(model)
    model.scores(batch["tokens"])
    numbers = (batch["tokens"]["numbers"]["tokens"] / 10).unsqueeze(-1).expand(-1, -1, 3)
    assert torch.equal(seen["upper"], torch.cat([seen["lower"], numbers], dim=-1))


def test_dropout_is_one_mask_a_sentence_at_the_input_of_both_encoders(task):
    model = task.build(dropout=0.5).train()
    seen = []
    for encoder in (model.lower_encoder, model.upper_encoder):
        encoder.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model.scores(task.tensors(model, [SENTENCES[2]] * 2)["tokens"])
    assert len(seen) == 2
    for inputs in seen:
        # Shape: (batch_size, num_tokens, dim)
        dropped = inputs == 0
        assert dropped.any() and not dropped.all()
        assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert not torch.equal(seen[0][0] == 0, seen[0][1] == 0)


def test_a_gradient_reaches_every_parameter(task):
    model = task.build().train()
    model(**task.tensors(model))["loss"].backward()
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {"crf.transitions", "output_layer.weight"} < trained.keys()
    for name, parameter in trained.items():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_a_few_sentences_can_be_learned_by_heart(task):
    model = task.build(dropout=0.0)
    output = task.learn(model, learning_rate=0.05, num_updates=40)
    assert output["tags"] == [tags.split() for _, tags in SENTENCES]
    metrics = model.get_metrics()
    assert metrics["f1"] == metrics["f1-ORG"] == metrics["accuracy"] == 1.0


def test_outputs_name_tokens_and_gold_tags(task):
    model = task.build()
    output = model(**task.tensors(model))
    assert output["tokens"] == [text.split() for text, _ in SENTENCES]
    assert output["gold_tags"] == [tags.split() for _, tags in SENTENCES]


def test_metrics_start_anew_after_a_reset(task):
    model = task.build()
    model(**task.tensors(model))
    assert "f1-PER" in model.get_metrics(reset=True)
    assert "f1-PER" not in model.get_metrics()


def test_an_ensemble_decodes_the_mean_of_emissions_and_transitions(task):
    members = [task.build(seed=seed) for seed in (1, 2)]
    batch = task.tensors(members[0])
    ensemble = Ensemble(members[0].vocab, members).eval()
    ensemble_tags = ensemble(**batch)["tags"]
    first, second = (member.scores(batch["tokens"]) for member in members)
    mean = {name: (first[name] + second[name]) / 2 for name in first.keys() - {"mask"}}
    assert ensemble_tags == members[1].decode({**mean, "mask": first["mask"]})["tags"]
    assert "f1" in ensemble.get_metrics()
    # Neither member alone says the same, or this shows nothing.
    assert all(ensemble_tags != member.decode(member.scores(batch["tokens"]))["tags"] for member in members)


def test_a_scheme_that_isnt_the_readers_is_refused(task):
    with pytest.raises(ConfigurationError, match="isn't a tag of the scheme BIO.*does the dataset reader convert"):
        task.build(coding_scheme="BIO")


def test_a_vocabulary_without_tags_is_refused(task):
    with pytest.raises(ConfigurationError, match="'labels' holds 0 labels"):
        task.build(vocab=task.vocabulary(UNTAGGED))


def test_a_tag_that_only_test_data_have_is_missed_and_left_out_of_the_loss(task, caplog):
    model = task.build()
    known = ("Ada met Oslo", "U-PER O U-LOC")
    alone = model(**task.tensors(model, [known]))["loss"].item()
    model.get_metrics(reset=True)
    output = model(**task.tensors(model, [known, ("the Fell Race", "O B-EVENT L-EVENT")]))
    assert output["loss"].item() == pytest.approx(alone, rel=1e-5)
    assert output["gold_tags"][1] == ["O", "B-EVENT", "L-EVENT"]
    metrics = model.get_metrics()
    assert metrics["recall-EVENT"] == 0.0 and "f1-EVENT" in metrics
    assert "'B-EVENT', which the model has never seen" in caplog.text


def test_a_batch_of_tags_that_are_all_new_has_no_loss(task):
    model = task.build()
    loss = model(**task.tensors(model, [("the Fell Race", "O B-FAIR L-FAIR")]))["loss"]
    loss.backward()
    assert loss.item() == 0.0


def test_a_sentence_of_2000_tokens_is_tagged(task):
    model = task.build()
    output = model(**task.tensors(model, [("Ada met " * 1000, "U-PER O " * 1000)]))
    assert output["loss"].isfinite() and len(output["tags"][0]) == 2000
