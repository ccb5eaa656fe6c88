import pytest
import torch
from model_contract import ModelContract

from elmo_plugin.tasks.coref import CoreferenceResolver, modules
from elmo_plugin.tasks.coref import model as model_module

# The sentences, speakers of the sentences, and clusters of each document.
DOCUMENTS = [
    (
        ["Ada Byron lost a hat", "She found it", "Ada wore it"],
        "a b a",
        [[(0, 1), (5, 5), (8, 8)], [(3, 4), (7, 7), (10, 10)]],
    ),
    (["Bo left"], "a", []),
    (["the old ferry sank in the dark cold harbour", "It was Bo 's"], "b b", [[(0, 2), (9, 9)]]),
]
WITHOUT_CLUSTERS = [document[:2] for document in DOCUMENTS]
MODEL = {
    "type": "elmo::coref",
    "text_embedder": {
        "words": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 5}}},
        "contextual": {"type": "test_numbers", "dim": 3, "placements": ["input"]},
    },
    "encoder": {"type": "lstm", "hidden_size": 4, "bidirectional": True},
    "hidden_dim": 6,
    "feature_dim": 2,
    "max_span_width": 4,
}


def arguments_of(sentences, speakers, clusters=None):
    words = [sentence.split() for sentence in sentences]
    of_words = [[name] * len(sentence) for name, sentence in zip(speakers.split(), words, strict=True)]
    return words, of_words, "bc", clusters


@pytest.fixture(scope="module")
def task(make_task):
    return make_task(MODEL, DOCUMENTS, arguments_of)


class TestContract(ModelContract):
    name = "elmo::coref"


def scores_of(model, batch):
    return model.scores(batch["text"], batch["speaker_ids"], batch["genre"])


def test_the_loss_is_the_probability_of_all_gold_antecedents_together(task):
    model = task.build(spans_per_word=2.0)
    batch = task.tensors(model, DOCUMENTS[:1])
    with torch.no_grad():
        scores, loss = scores_of(model, batch), model(**batch)["loss"]
    (spans,), (antecedent_scores,) = scores["spans"], scores["antecedent_scores"]
    cluster_of = {span: number for number, cluster in enumerate(DOCUMENTS[0][2]) for span in cluster}
    expected, num_linked = 0.0, 0
    for place, span in enumerate(spans):
        probabilities = antecedent_scores[place].softmax(0)
        gold = [
            before
            for before in range(1, place + 1)
            if span in cluster_of and cluster_of.get(spans[place - before]) == cluster_of[span]
        ]
        num_linked += bool(gold)
        expected -= sum(probabilities[before] for before in gold or [0]).log().item()
    assert num_linked > 1  # or this shows nothing
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_scores_are_those_of_mentions_and_pairs_and_nothing_scores_zero(task):
    model = task.build(spans_per_word=1.0)
    batch = task.tensors(model, DOCUMENTS[:1])
    seen = {}
    model.pair_scorer.register_forward_hook(lambda module, args, output: seen.update(spans=args[0], pairs=output))
    (antecedent_scores,) = scores_of(model, batch)["antecedent_scores"]
    mentions, pairs = model.mention_scorer(seen["spans"]), seen["pairs"]
    assert antecedent_scores[:, 0].tolist() == [0.0] * len(mentions)
    torch.testing.assert_close(antecedent_scores[5, 2], mentions[5] + mentions[3] + pairs[5, 1])
    assert antecedent_scores[1, 2] == -torch.inf


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision_adds_up_scores_in_single_precision(dtype):
    span_scores, pair_scores = torch.full((3,), 1000.0, dtype=dtype), torch.full((3, 2), 0.25, dtype=dtype)
    total = model_module._antecedent_scores(span_scores, pair_scores)
    assert total.dtype == torch.float32 and (total[:, 1:] == 2000.25).all()


def test_the_loss_of_a_batch_is_the_mean_of_its_documents(task):
    model = task.build()
    alone = [model(**task.tensors(model, [document]))["loss"].item() for document in DOCUMENTS]
    assert model(**task.tensors(model))["loss"].item() == pytest.approx(sum(alone) / len(alone), rel=1e-5)


def test_padding_batch_mates_and_order_change_nothing(task):
    model = task.build(task.numbers("input", "output"))
    together = scores_of(model, task.tensors(model, WITHOUT_CLUSTERS))
    flipped = scores_of(model, task.tensors(model, WITHOUT_CLUSTERS[::-1]))
    for row, document in enumerate(WITHOUT_CLUSTERS):
        alone = scores_of(model, task.tensors(model, [document]))
        assert alone["spans"][0] == together["spans"][row] == flipped["spans"][-1 - row]
        for other in (together["antecedent_scores"][row], flipped["antecedent_scores"][-1 - row]):
            torch.testing.assert_close(other, alone["antecedent_scores"][0])
    assert "loss" not in model(**task.tensors(model, WITHOUT_CLUSTERS))


def test_small_blocks_change_nothing(task, monkeypatch):
    model = task.build(task.numbers("input", "output"))
    batch = task.tensors(model)
    at_once = scores_of(model, batch)
    monkeypatch.setattr(model_module, "_WORD_BLOCK", 6)
    monkeypatch.setattr(model_module, "SPAN_BLOCK", 3)
    monkeypatch.setattr(modules, "TARGET_BLOCK", 2)
    in_blocks = scores_of(model, batch)
    assert in_blocks["spans"] == at_once["spans"]
    for left, right in zip(in_blocks["antecedent_scores"], at_once["antecedent_scores"], strict=True):
        torch.testing.assert_close(left, right)


def test_contextual_vectors_run_over_sentences_without_others_padding(task, monkeypatch):
    monkeypatch.setattr(model_module, "_WORD_BLOCK", 12)
    model = task.build()
    shapes = []
    model.text_embedder.contextual.register_forward_hook(
        lambda module, args, output: shapes.append(tuple(output["input"].shape[:2]))
    )
    scores_of(model, task.tensors(model))
    # Two sentences and one of the first document, the second document, and each sentence of the third.
    assert shapes == [(2, 5), (1, 3), (1, 2), (1, 9), (1, 4)]


def test_spans_are_kept_by_the_number_of_words_and_dont_cross(task):
    model = task.build(spans_per_word=0.4)
    scores = scores_of(model, task.tensors(model))
    # Of 11, 2 and 13 words; at least one.
    assert [len(spans) for spans in scores["spans"]] == [4, 1, 5]
    assert [tuple(each.shape) for each in scores["antecedent_scores"]] == [(4, 4), (1, 1), (5, 5)]
    for spans in scores["spans"]:
        assert spans == sorted(spans)


def test_antecedents_are_the_nearest_so_many(task):
    model = task.build(max_antecedents=2)
    assert scores_of(model, task.tensors(model))["antecedent_scores"][2].shape == (5, 3)


def test_training_takes_a_window_of_sentences_and_evaluation_does_not(task):
    model = task.build(training_metrics=True, max_training_sentences=1, spans_per_word=1.0)
    batch = task.tensors(model, DOCUMENTS[:1])
    assert scores_of(model, batch)["windows"] == [(0, 10)]
    model.train()
    seen = set()
    for _ in range(20):
        scores = scores_of(model, batch)
        ((first, last),) = scores["windows"]
        assert all(first <= span.first and span.last <= last for span in scores["spans"][0])
        seen.add((first, last))
    assert seen == {(0, 4), (5, 7), (8, 10)}
    output = model(**batch)
    assert output["loss"].isfinite()
    assert len(output["gold_clusters"][0]) == 2 and all(len(cluster) == 1 for cluster in output["gold_clusters"][0])


def test_the_window_has_its_own_speakers(task):
    batch = task.tensors(task.build(), [(["Ada left", "Bo left"], "a b", [])])
    (whole,) = model_module._documents(*(batch[name] for name in ("text", "speaker_ids", "genre")))
    windows = [model_module._window(whole, 1) for _ in range(20)]
    assert {window.first_word for window in windows} == {0, 2}
    for window in windows:
        assert window.speaker_ids.tolist() == ([0, 0] if window.first_word == 0 else [1, 1])


def test_speakers_and_genres_matter(task):
    model = task.build(spans_per_word=1.0)
    batch = task.tensors(model, DOCUMENTS[:1])
    (before,) = scores_of(model, batch)["antecedent_scores"]
    for name, other in {"speaker_ids": torch.zeros(1, 11), "genre": torch.ones(1)}.items():
        (after,) = scores_of(model, {**batch, name: other.long()})["antecedent_scores"]
        assert not torch.allclose(before, after), name


@pytest.mark.parametrize("dim", [2, 9])
@pytest.mark.parametrize("placements", [["input"], ["output"], ["input", "output"]])
def test_widths_follow_the_embedder(task, dim, placements):
    model = task.build(task.numbers(*placements, dim=dim))
    # Word vectors of 5, and two directions of 4.
    input_dim, encoded_dim = 5 + dim * ("input" in placements), 8 + dim * ("output" in placements)
    assert model.encoder.get_input_dim() == input_dim
    # Two ends, the head over all of the input, and the width.
    assert model.span_embedder.get_output_dim() == 2 * encoded_dim + input_dim + 2
    assert model(**task.tensors(model))["loss"].isfinite()


def test_lexical_dropout_is_on_word_vectors_and_not_on_contextual_ones(task):
    model = task.build(lexical_dropout=0.9, dropout=0.0).train()
    seen = []
    model.encoder.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    scores_of(model, task.tensors(model, DOCUMENTS[:1]))
    words, contextual = seen[0].split([5, 3], dim=-1)
    assert (words == 0).float().mean() > 0.5
    assert (contextual[0] > 0).all()


def test_a_gradient_reaches_every_parameter(task):
    model = task.build(spans_per_word=1.0, lexical_dropout=0.0, dropout=0.0).train()
    model(**task.tensors(model))["loss"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_a_few_documents_can_be_learned_by_heart(task):
    # Of so few words so few spans are usually kept that a gold one may never be among them; here most are kept.
    kwargs = {"lexical_dropout": 0.0, "dropout": 0.0, "hidden_dim": 20, "spans_per_word": 2.0, "max_span_width": 3}
    model = task.build(**kwargs)
    output = task.learn(model, learning_rate=0.03, num_updates=80)
    assert output["clusters"] == [clusters for _, _, clusters in DOCUMENTS]
    metrics = model.get_metrics(reset=True)
    assert metrics["f1"] == metrics["muc_f1"] == metrics["mention_recall"] == pytest.approx(1.0)
    assert model.get_metrics()["f1"] == 0.0


def test_outputs_name_the_document(task):
    model = task.build()
    output = model(**task.tensors(model))
    assert output["document_id"] == ["document"] * 3
    assert output["sentences"][1] == [["Bo", "left"]]
    assert output["gold_clusters"] == [clusters for _, _, clusters in DOCUMENTS]


def test_several_models_prune_once_and_average_what_they_score(task):
    members = [task.build(seed=seed) for seed in (1, 2)]
    batch = task.tensors(members[0], DOCUMENTS[:1])
    arguments = [batch[name] for name in ("text", "speaker_ids", "genre")]
    joint = CoreferenceResolver.joint_scores(members, *arguments)
    assert {len(spans) for spans in joint["spans"]} == {4}
    # Keeping the same spans, each member's own scores are those that are averaged.
    (document,) = model_module._documents(*arguments)
    candidates = modules.candidate_spans(document.lengths, 4)
    places = {span: place for place, span in enumerate(zip(*(words.tolist() for words in candidates), strict=True))}
    kept = candidates.take(torch.tensor([places[span] for span in joint["spans"][0]]))
    features = modules.PairFeatures(document.speaker_ids[kept.firsts], document.genre)
    mentions, pairs = [], []
    for member in members:
        words = member._encode(document)
        mentions.append(member._mention_scores(words, candidates))
        pairs.append(member._pair_scores(words, kept, features))
    mention, pair = torch.stack(mentions).mean(0), torch.stack(pairs).mean(0)
    best = modules.keep_best(candidates, mention, 4)
    assert candidates.take(best).firsts.tolist() == kept.firsts.tolist()
    mention = mention[best]
    torch.testing.assert_close(joint["antecedent_scores"][0][3, 2], mention[3] + mention[1] + pair[3, 1])
    assert members[0].decode(joint, batch["metadata"])["clusters"] is not None
    # Neither member alone says the same, or this shows nothing.
    alone = [scores_of(member, batch)["spans"] for member in members]
    assert alone[0] != alone[1]


def test_a_document_of_5000_words_is_read_whole(task):
    document = (["Ada wore the old hat to town and lost it"] * 500, "a " * 500, [[(0, 0), (10, 10)]])
    model = task.build()
    with torch.no_grad():
        output = model(**task.tensors(model, [document]))
    assert output["loss"].isfinite()
    assert max(last for cluster in output["clusters"][0] for _, last in cluster) < 5000
