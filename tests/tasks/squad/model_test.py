import pytest
import torch
from allennlp.common.checks import ConfigurationError
from model_contract import ModelContract
from torch.testing import assert_close

from elmo_plugin.tasks.common.ensemble import Ensemble
from elmo_plugin.tasks.squad import ChainedHeads, LinearHeads
from elmo_plugin.tasks.squad.reader import Answer

EXAMPLES = [
    ("Who painted it ?", "Ida painted a red boat .", [Answer("Ida", 0)]),
    ("What did Ida paint in the spring ?", "Ida painted a red boat in the spring .", [Answer("a red boat", 12)]),
    ("Who ?", "Bo .", [Answer("Bo", 0)]),
    ("When did it rain ?", "It rained in the spring , when Bo painted .", [Answer("in the spring", 10)]),
]
BIGRU = {"type": "gru", "hidden_size": 4, "bidirectional": True}
MODEL = {
    "type": "elmo::squad",
    "text_embedder": {"words": {"token_embedders": {"tokens": {"embedding_dim": 6, "vocab_namespace": "tokens"}}}},
    "encoder": BIGRU,
    "projection": {"num_layers": 1, "hidden_dims": 5, "activations": "relu"},
    "modeling": BIGRU,
}
CHAINED = {"type": "chained", "encoder": BIGRU}


@pytest.fixture(scope="module")
def task(make_task):
    return make_task(MODEL, EXAMPLES)


class TestContract(ModelContract):
    name = "elmo::squad"


def probabilities(task, model, examples=EXAMPLES):
    """P(start) and P(end) of each example, without padding."""
    batch = task.tensors(model, examples)
    scores = model.scores(batch["passage"], batch["question"])
    both = torch.stack([scores["start_probabilities"], scores["end_probabilities"]], dim=1)
    return [row[:, : mask.sum()] for row, mask in zip(both, scores["mask"], strict=True)]


def test_heads_are_linear_unless_others_are_asked_for(task):
    assert isinstance(task.build().heads, LinearHeads)
    assert isinstance(task.build(heads=CHAINED).heads, ChainedHeads)


@pytest.mark.parametrize(
    "placements, input_size, encoding_dim",
    [(["input"], 6 + 6, 8), (["output"], 6, 8 + 6), (["input", "output"], 6 + 6, 8 + 6)],
)
def test_widths_follow_the_placements(task, placements, input_size, encoding_dim):
    model = task.build(task.elmo(*placements))
    assert model.encoder.get_input_dim() == input_size
    assert model.projection.get_input_dim() == 4 * encoding_dim
    assert model(**task.tensors(model))["loss"].isfinite()


def test_widths_follow_the_bilm(task):
    model = task.build(task.elmo("input", "output", projection_dim=5))
    assert model.encoder.get_input_dim() == 6 + 10
    assert model(**task.tensors(model))["loss"].isfinite()


@pytest.mark.parametrize("name", ["max_span_tokens", "num_best"])
def test_options_that_mean_nothing_are_refused(task, name):
    with pytest.raises(ConfigurationError, match=f"{name} must be 1 or more, not 0"):
        task.build(**{name: 0})


def test_forward_is_the_papers_equations(task):
    model = task.build()
    batch = task.tensors(model, EXAMPLES[:1])
    passage, question = (model.text_embedder.words(batch[name]) for name in ("passage", "question"))
    passage, question = (model.encoder._module(text)[0] for text in (passage, question))
    passage_mask, question_mask = (torch.ones(text.shape[:2]).bool() for text in (passage, question))
    attended = model.attention(passage, passage_mask, question, question_mask)
    projected = torch.relu(model.projection._linear_layers[0](attended))
    modeled = model.self_attention(model.modeling._module(projected)[0], passage_mask)
    projected = projected + torch.relu(model.self_projection._linear_layers[0](modeled))
    ((start, end),) = probabilities(task, model, EXAMPLES[:1])
    assert_close(start, torch.softmax(model.heads.start(projected).flatten(), dim=0))
    assert_close(end, torch.softmax(model.heads.end(projected).flatten(), dim=0))


@pytest.mark.parametrize("heads", [{"type": "linear"}, CHAINED], ids=["linear", "chained"])
@pytest.mark.parametrize("with_elmo", [False, True], ids=["baseline", "elmo"])
def test_batch_mates_padding_and_order_change_nothing(task, with_elmo, heads):
    model = task.build(task.elmo("input", "output") if with_elmo else None, heads=heads)
    together = probabilities(task, model, EXAMPLES)
    reversed_ = probabilities(task, model, EXAMPLES[::-1])[::-1]
    alone = [probabilities(task, model, [example])[0] for example in EXAMPLES]
    assert_close(together, alone)
    assert_close(together, reversed_)


def test_output_placement_reaches_the_answer(task):
    model = task.build(task.elmo("output"))
    before = probabilities(task, model)
    with torch.no_grad():
        model.text_embedder.contextual.mixes["output"].gamma.fill_(50.0)
    after = probabilities(task, model)
    assert not torch.allclose(before[0], after[0], atol=1e-4)


def test_loss_is_the_negative_log_probability_of_start_and_end(task):
    model = task.build()
    batch = task.tensors(model)
    expected = [
        -(start[first] * end[last]).log()
        for (start, end), (first, last) in zip(probabilities(task, model), batch["answer_span"].tolist(), strict=True)
    ]
    assert_close(model(**batch)["loss"], torch.stack(expected).mean())


def test_question_without_an_answer_to_learn_from_changes_no_loss(task):
    model = task.build()
    lost = ("Who ?", "Bo rained .", [Answer("Nobody", 0)])
    with_it, without = (model(**task.tensors(model, examples))["loss"] for examples in ([*EXAMPLES, lost], EXAMPLES))
    assert_close(with_it, without)


def test_batch_without_an_answer_to_learn_from_has_no_loss_and_a_gradient(task):
    model = task.build().train()
    loss = model(**task.tensors(model, [("Who ?", "Bo rained .", [Answer("Nobody", 0)])]))["loss"]
    loss.backward()
    assert loss.item() == 0
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_scores_count_every_question_with_an_answer(task):
    model = task.build()
    batch = task.tensors(model, [*EXAMPLES, ("Who ?", "Bo rained .", [Answer("Nobody", 0)])])
    scores = model.scores(batch["passage"], batch["question"])
    for name, place in (("start_probabilities", 0), ("end_probabilities", 1)):
        gold = batch["answer_span"][:, place].clamp(min=0)
        scores[name] = torch.nn.functional.one_hot(gold, scores["mask"].size(1)).float()
    model.decode(scores, batch["metadata"])
    assert model.get_metrics(reset=True) == {"em": 4 / 5, "f1": 4 / 5}
    assert model.get_metrics() == {"em": 0, "f1": 0}


def test_no_answer_no_loss_and_nothing_counted(task):
    model = task.build()
    assert "loss" not in model(**task.tensors(model, [example[:2] for example in EXAMPLES]))
    assert model.get_metrics() == {"em": 0, "f1": 0}


def test_decode_decides_by_the_probabilities_it_is_given(task):
    model = task.build(num_best=1)
    batch = task.tensors(model, EXAMPLES[1:2])
    scores = model.scores(batch["passage"], batch["question"])
    scores["start_probabilities"], scores["end_probabilities"] = torch.eye(9)[[3]], torch.eye(9)[[4]]
    readable = model.make_output_human_readable(model.decode(scores, batch["metadata"]))
    assert readable["answer"] == ["red boat"]
    assert readable["probability"] == pytest.approx([1.0])


@pytest.mark.parametrize("max_span_tokens", [1, 3])
def test_answers_are_of_limited_length(task, max_span_tokens):
    model = task.build(max_span_tokens=max_span_tokens, num_best=100)
    spans = [
        answer["last_token"] - answer["first_token"] + 1
        for output in model.forward_on_instances(task.instances(model))
        for answer in output["n_best"]
    ]
    assert set(spans) == set(range(1, max_span_tokens + 1))


def test_default_length_of_answers_is_the_papers(task):
    words = " ".join(["boat"] * 30)
    model = task.build(num_best=1000)
    (output,) = model.forward_on_instances(task.instances(model, [("Who ?", words)]))
    assert max(answer["last_token"] - answer["first_token"] + 1 for answer in output["n_best"]) == 17


def test_every_parameter_but_the_frozen_bilm_gets_a_gradient(task):
    model = task.build(task.elmo("input", "output"), dropout=0.0, heads=CHAINED).train()
    model(**task.tensors(model))["loss"].backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert without == {name for name, _ in model.named_parameters() if ".bilm." in name}


@pytest.mark.parametrize("name", ["encoder", "projection", "modeling", "self_projection", "heads.start", "heads.end"])
def test_dropout_is_the_same_at_every_token_of_each_layers_input(task, name):
    # Linear, since a ReLU has zeros of its own.
    projection = {"num_layers": 1, "hidden_dims": 20, "activations": "linear"}
    model = task.build(dropout=0.5, projection=projection).train()
    seen = []
    model.get_submodule(name).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(**task.tensors(model, EXAMPLES[:1]))
    dropped = [inputs[0].eq(0) for inputs in seen]
    assert any(each.any() for each in dropped)
    for each in dropped:
        assert each.eq(each[0]).all() and not each.all()


def test_dropout_of_the_model_is_not_that_of_the_chained_encoders(task):
    assert task.build(heads=CHAINED, dropout=0.3).heads.start_encoder._module.dropout == 0


def test_no_dropout_in_evaluation(task):
    model = task.build(dropout=0.9)
    assert_close(probabilities(task, model), probabilities(task, model), rtol=0, atol=0)


def test_ensemble_answers_by_the_mean_of_its_members_distributions(task):
    members = [task.build(seed=seed) for seed in (0, 1)]
    ensemble = Ensemble(members[0].vocab, members).eval()
    batch = task.tensors(members[0])
    by_member = (probabilities(task, member) for member in members)
    mean = [(first + second) / 2 for first, second in zip(*by_member, strict=True)]
    outputs = ensemble.make_output_human_readable(ensemble(**batch))
    for probability, (start, end), first, last in zip(
        outputs["probability"], mean, outputs["first_token"], outputs["last_token"], strict=True
    ):
        assert probability == pytest.approx((start[first] * end[last]).item(), rel=1e-4)
    assert 0 <= ensemble.get_metrics()["f1"] <= 1


@pytest.mark.parametrize("heads", [{"type": "linear"}, CHAINED], ids=["linear", "chained"])
def test_model_learns(task, heads):
    model = task.build(dropout=0.0, heads=heads, projection={"num_layers": 1, "hidden_dims": 20, "activations": "relu"})
    task.learn(model, learning_rate=0.02, num_updates=60)
    assert model.get_metrics() == {"em": 1.0, "f1": 1.0}
