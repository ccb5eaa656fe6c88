import json

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Vocabulary
from allennlp.models import Model
from torch.testing import assert_close

import elmo_plugin  # noqa: F401
from elmo_plugin.tasks.common.ensemble import Ensemble
from elmo_plugin.tasks.squad import BidafSelfAttention, ChainedHeads, LinearHeads, SquadReader
from elmo_plugin.tasks.squad.reader import Answer

EXAMPLES = [
    ("Who painted it ?", "Ida painted a red boat .", [Answer("Ida", 0)]),
    ("What did Ida paint in the spring ?", "Ida painted a red boat in the spring .", [Answer("a red boat", 12)]),
    ("Who ?", "Bo .", [Answer("Bo", 0)]),
    ("When did it rain ?", "It rained in the spring , when Bo painted .", [Answer("in the spring", 10)]),
]
BILM = {"type": "random", "projection_dim": 3, "cell_dim": 5, "char_dim": 2, "filters": [[1, 3], [2, 3]]}
CHAINED = {"type": "chained", "encoder": {"type": "gru", "hidden_size": 4, "bidirectional": True}}


def elmo(**changes):
    return {"type": "elmo", "bilm": BILM, "placements": ["input", "output"], "dropout": 0.0, **changes}


def model_params(contextual=None, **changes):
    bigru = {"type": "gru", "hidden_size": 4, "bidirectional": True}
    return {
        "type": "elmo::squad",
        "text_embedder": {
            "words": {"token_embedders": {"tokens": {"embedding_dim": 6, "vocab_namespace": "tokens"}}},
            **({"contextual": contextual} if contextual else {}),
        },
        "encoder": bigru,
        "projection": {"num_layers": 1, "hidden_dims": 5, "activations": "relu"},
        "modeling": bigru,
        **changes,
    }


def read(examples=EXAMPLES, with_elmo=False):
    indexers = {"tokens": {"type": "single_id"}}
    if with_elmo:
        indexers["elmo"] = {"type": "elmo::characters"}
    reader = SquadReader.from_params(Params({"token_indexers": indexers}))
    instances = [reader.text_to_instance(*example) for example in examples]
    for instance in instances:
        reader.apply_token_indexers(instance)
    return instances


def build(contextual=None, seed=0, **changes):
    vocab = Vocabulary.from_instances(read())
    torch.manual_seed(seed)
    # A copy: FromParams empties what it is given.
    return Model.from_params(vocab=vocab, params=Params(json.loads(json.dumps(model_params(contextual, **changes)))))


def tensors(model, examples=EXAMPLES, with_elmo=False):
    batch = Batch(read(examples, with_elmo))
    batch.index_instances(model.vocab)
    return batch.as_tensor_dict()


def probabilities(model, examples=EXAMPLES, with_elmo=False):
    """P(start) and P(end) of each example, without padding."""
    batch = tensors(model, examples, with_elmo)
    scores = model.scores(batch["passage"], batch["question"])
    both = torch.stack([scores["start_probabilities"], scores["end_probabilities"]], dim=1)
    return [row[:, : mask.sum()] for row, mask in zip(both, scores["mask"], strict=True)]


def test_model_is_registered_with_its_predictor_and_has_linear_heads():
    model = build()
    assert isinstance(model, BidafSelfAttention)
    assert BidafSelfAttention.default_predictor == "elmo::squad"
    assert isinstance(model.heads, LinearHeads)
    assert isinstance(build(heads=CHAINED).heads, ChainedHeads)


@pytest.mark.parametrize(
    "placements, input_size, encoding_dim",
    [(["input"], 6 + 6, 8), (["output"], 6, 8 + 6), (["input", "output"], 6 + 6, 8 + 6)],
)
def test_widths_follow_the_placements(placements, input_size, encoding_dim):
    model = build(elmo(placements=placements))
    assert model.encoder.get_input_dim() == input_size
    assert model.projection.get_input_dim() == 4 * encoding_dim
    assert model(**tensors(model, with_elmo=True))["loss"].isfinite()


def test_widths_follow_the_bilm():
    model = build(elmo(bilm={**BILM, "projection_dim": 5}))
    assert model.encoder.get_input_dim() == 6 + 10
    assert model(**tensors(model, with_elmo=True))["loss"].isfinite()


def test_baseline_has_no_contextual_parameter():
    assert not [name for name, _ in build().named_parameters() if "contextual" in name]


def test_unknown_placement_is_refused():
    with pytest.raises(ConfigurationError, match="no placement 'attention' here; this model has 'input', 'output'"):
        build(elmo(placements=["input", "attention"]))


@pytest.mark.parametrize("name", ["max_span_tokens", "num_best"])
def test_options_that_mean_nothing_are_refused(name):
    with pytest.raises(ConfigurationError, match=f"{name} must be 1 or more, not 0"):
        build(**{name: 0})


def test_forward_is_the_papers_equations():
    model = build().eval()
    batch = tensors(model, EXAMPLES[:1])
    passage, question = (model.text_embedder.words(batch[name]) for name in ("passage", "question"))
    passage, question = (model.encoder._module(text)[0] for text in (passage, question))
    passage_mask, question_mask = (torch.ones(text.shape[:2]).bool() for text in (passage, question))
    attended = model.attention(passage, passage_mask, question, question_mask)
    projected = torch.relu(model.projection._linear_layers[0](attended))
    modeled = model.self_attention(model.modeling._module(projected)[0], passage_mask)
    projected = projected + torch.relu(model.self_projection._linear_layers[0](modeled))
    ((start, end),) = probabilities(model, EXAMPLES[:1])
    assert_close(start, torch.softmax(model.heads.start(projected).flatten(), dim=0))
    assert_close(end, torch.softmax(model.heads.end(projected).flatten(), dim=0))


@pytest.mark.parametrize("heads", [{"type": "linear"}, CHAINED], ids=["linear", "chained"])
@pytest.mark.parametrize("contextual", [None, elmo()], ids=["baseline", "elmo"])
def test_batch_mates_padding_and_order_change_nothing(contextual, heads):
    model = build(contextual, heads=heads).eval()
    with_elmo = contextual is not None
    together = probabilities(model, EXAMPLES, with_elmo)
    reversed_ = probabilities(model, EXAMPLES[::-1], with_elmo)[::-1]
    alone = [probabilities(model, [example], with_elmo)[0] for example in EXAMPLES]
    assert_close(together, alone)
    assert_close(together, reversed_)


def test_output_placement_reaches_the_answer():
    model = build(elmo(placements=["output"])).eval()
    before = probabilities(model, with_elmo=True)
    with torch.no_grad():
        model.text_embedder.contextual.mixes["output"].gamma.fill_(50.0)
    after = probabilities(model, with_elmo=True)
    assert not torch.allclose(before[0], after[0], atol=1e-4)


def test_loss_is_the_negative_log_probability_of_start_and_end():
    model = build().eval()
    batch = tensors(model)
    expected = [
        -(start[first] * end[last]).log()
        for (start, end), (first, last) in zip(probabilities(model), batch["answer_span"].tolist(), strict=True)
    ]
    assert_close(model(**batch)["loss"], torch.stack(expected).mean())


def test_question_without_an_answer_to_learn_from_changes_no_loss():
    model = build().eval()
    lost = ("Who ?", "Bo rained .", [Answer("Nobody", 0)])
    with_it, without = (model(**tensors(model, examples))["loss"] for examples in ([*EXAMPLES, lost], EXAMPLES))
    assert_close(with_it, without)


def test_batch_without_an_answer_to_learn_from_has_no_loss_and_a_gradient():
    model = build()
    loss = model(**tensors(model, [("Who ?", "Bo rained .", [Answer("Nobody", 0)])]))["loss"]
    loss.backward()
    assert loss.item() == 0
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_scores_count_every_question_with_an_answer():
    model = build().eval()
    batch = tensors(model, [*EXAMPLES, ("Who ?", "Bo rained .", [Answer("Nobody", 0)])])
    scores = model.scores(batch["passage"], batch["question"])
    for name, place in (("start_probabilities", 0), ("end_probabilities", 1)):
        gold = batch["answer_span"][:, place].clamp(min=0)
        scores[name] = torch.nn.functional.one_hot(gold, scores["mask"].size(1)).float()
    model.decode(scores, batch["metadata"])
    assert model.get_metrics(reset=True) == {"em": 4 / 5, "f1": 4 / 5}
    assert model.get_metrics() == {"em": 0, "f1": 0}


def test_no_answer_no_loss_and_nothing_counted():
    model = build().eval()
    assert "loss" not in model(**tensors(model, [example[:2] for example in EXAMPLES]))
    assert model.get_metrics() == {"em": 0, "f1": 0}


def test_decode_decides_by_the_probabilities_it_is_given():
    model = build(num_best=1).eval()
    batch = tensors(model, EXAMPLES[1:2])
    scores = model.scores(batch["passage"], batch["question"])
    scores["start_probabilities"], scores["end_probabilities"] = torch.eye(9)[[3]], torch.eye(9)[[4]]
    readable = model.make_output_human_readable(model.decode(scores, batch["metadata"]))
    assert readable["answer"] == ["red boat"]
    assert readable["probability"] == pytest.approx([1.0])


@pytest.mark.parametrize("max_span_tokens", [1, 3])
def test_answers_are_of_limited_length(max_span_tokens):
    model = build(max_span_tokens=max_span_tokens, num_best=100).eval()
    spans = [
        answer["last_token"] - answer["first_token"] + 1
        for output in model.forward_on_instances(read())
        for answer in output["n_best"]
    ]
    assert set(spans) == set(range(1, max_span_tokens + 1))


def test_default_length_of_answers_is_the_papers():
    words = " ".join(["boat"] * 30)
    model = build(num_best=1000).eval()
    (output,) = model.forward_on_instances(read([("Who ?", words)]))
    assert max(answer["last_token"] - answer["first_token"] + 1 for answer in output["n_best"]) == 17


def test_every_parameter_but_the_frozen_bilm_gets_a_gradient():
    model = build(elmo(), dropout=0.0, heads=CHAINED)
    model(**tensors(model, with_elmo=True))["loss"].backward()
    without = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert without == {name for name, _ in model.named_parameters() if ".bilm." in name}


@pytest.mark.parametrize("name", ["encoder", "projection", "modeling", "self_projection", "heads.start", "heads.end"])
def test_dropout_is_the_same_at_every_token_of_each_layers_input(name):
    # Linear, since a ReLU has zeros of its own.
    projection = {"num_layers": 1, "hidden_dims": 20, "activations": "linear"}
    model = build(dropout=0.5, projection=projection).train()
    seen = []
    model.get_submodule(name).register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(**tensors(model, EXAMPLES[:1]))
    dropped = [inputs[0].eq(0) for inputs in seen]
    assert any(each.any() for each in dropped)
    for each in dropped:
        assert each.eq(each[0]).all() and not each.all()


def test_dropout_of_the_model_is_not_that_of_the_chained_encoders():
    assert build(heads=CHAINED, dropout=0.3).heads.start_encoder._module.dropout == 0


def test_no_dropout_in_evaluation():
    model = build(dropout=0.9).eval()
    assert_close(probabilities(model), probabilities(model), rtol=0, atol=0)


def test_ensemble_answers_by_the_mean_of_its_members_distributions():
    members = [build(seed=seed).eval() for seed in (0, 1)]
    ensemble = Ensemble(members[0].vocab, members).eval()
    batch = tensors(members[0])
    mean = [(first + second) / 2 for first, second in zip(*map(probabilities, members), strict=True)]
    outputs = ensemble.make_output_human_readable(ensemble(**batch))
    for probability, (start, end), first, last in zip(
        outputs["probability"], mean, outputs["first_token"], outputs["last_token"], strict=True
    ):
        assert probability == pytest.approx((start[first] * end[last]).item(), rel=1e-4)
    assert 0 <= ensemble.get_metrics()["f1"] <= 1


@pytest.mark.parametrize("heads", [{"type": "linear"}, CHAINED], ids=["linear", "chained"])
def test_model_learns(heads):
    model = build(dropout=0.0, heads=heads, projection={"num_layers": 1, "hidden_dims": 20, "activations": "relu"})
    batch = tensors(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        model(**batch)["loss"].backward()
        optimizer.step()
    model.get_metrics(reset=True)
    model(**batch)
    assert model.get_metrics() == {"em": 1.0, "f1": 1.0}
