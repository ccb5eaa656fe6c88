import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Vocabulary
from allennlp.models import Model

from elmo_plugin.tasks.coref import CoreferenceReader, CoreferenceResolver, modules
from elmo_plugin.tasks.coref import model as model_module
from elmo_plugin.text import ContextualEmbedder

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


@ContextualEmbedder.register("coref_test_numbers", exist_ok=True)
class Numbers(ContextualEmbedder):
    """Gives each token a tenth of its word's number, in every dimension, at the placements asked for."""

    indexers = ("numbers",)

    def __init__(self, dim: int, placements: list) -> None:
        super().__init__()
        self.dim, self.placements = dim, tuple(placements)
        self.shapes = []

    def get_output_dim(self):
        return self.dim

    def forward(self, text):
        numbers = text["numbers"]["tokens"] / 10
        self.shapes.append(tuple(numbers.shape))
        return {placement: numbers.unsqueeze(-1).expand(-1, -1, self.dim) for placement in self.placements}


def make_instances(documents=DOCUMENTS, gold=True):
    indexers = {"tokens": {"type": "single_id"}, "numbers": {"type": "single_id"}}
    reader = CoreferenceReader.from_params(Params({"token_indexers": indexers}))
    instances = []
    for sentences, speakers, clusters in documents:
        words = [sentence.split() for sentence in sentences]
        of_words = [[name] * len(sentence) for name, sentence in zip(speakers.split(), words, strict=True)]
        instances.append(reader.text_to_instance(words, of_words, "bc", clusters if gold else None))
        reader.apply_token_indexers(instances[-1])
    return instances


@pytest.fixture(scope="module")
def vocab():
    return Vocabulary.from_instances(make_instances())


def numbers_at(*placements, dim=3):
    return {"type": "coref_test_numbers", "dim": dim, "placements": list(placements)}


def make_model(vocab, contextual=None, seed=0, **kwargs):
    torch.manual_seed(seed)
    text_embedder = {"words": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 5}}}}
    text_embedder["contextual"] = contextual or numbers_at("input")
    params = {
        "type": "elmo::coref",
        "text_embedder": text_embedder,
        "encoder": {"type": "lstm", "hidden_size": 4, "bidirectional": True},
        "hidden_dim": 6,
        "feature_dim": 2,
        "max_span_width": 4,
        **kwargs,
    }
    return Model.from_params(vocab=vocab, params=Params(params)).eval()


def tensors(instances, vocab):
    batch = Batch(instances)
    batch.index_instances(vocab)
    return batch.as_tensor_dict()


def scores_of(model, batch):
    return model.scores(batch["text"], batch["speaker_ids"], batch["genre"])


def test_the_loss_is_the_probability_of_all_gold_antecedents_together(vocab):
    model = make_model(vocab, spans_per_word=2.0)
    batch = tensors(make_instances(DOCUMENTS[:1]), vocab)
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


def test_scores_are_those_of_mentions_and_pairs_and_nothing_scores_zero(vocab):
    model = make_model(vocab, spans_per_word=1.0)
    batch = tensors(make_instances(DOCUMENTS[:1]), vocab)
    seen = {}
    model.pair_scorer.register_forward_hook(lambda module, args, output: seen.update(spans=args[0], pairs=output))
    (antecedent_scores,) = scores_of(model, batch)["antecedent_scores"]
    mentions, pairs = model.mention_scorer(seen["spans"]), seen["pairs"]
    assert antecedent_scores[:, 0].tolist() == [0.0] * len(mentions)
    torch.testing.assert_close(antecedent_scores[5, 2], mentions[5] + mentions[3] + pairs[5, 1])
    assert antecedent_scores[1, 2] == -torch.inf


def test_the_loss_of_a_batch_is_the_mean_of_its_documents(vocab):
    model = make_model(vocab)
    instances = make_instances()
    alone = [model(**tensors([instance], vocab))["loss"].item() for instance in instances]
    assert model(**tensors(instances, vocab))["loss"].item() == pytest.approx(sum(alone) / len(alone), rel=1e-5)


def test_padding_batch_mates_and_order_change_nothing(vocab):
    model = make_model(vocab, numbers_at("input", "output"))
    instances = make_instances(gold=False)
    together = scores_of(model, tensors(instances, vocab))
    flipped = scores_of(model, tensors(instances[::-1], vocab))
    for row, instance in enumerate(instances):
        alone = scores_of(model, tensors([instance], vocab))
        assert alone["spans"][0] == together["spans"][row] == flipped["spans"][-1 - row]
        for other in (together["antecedent_scores"][row], flipped["antecedent_scores"][-1 - row]):
            torch.testing.assert_close(other, alone["antecedent_scores"][0])
    assert "loss" not in model(**tensors(instances, vocab))


def test_small_blocks_change_nothing(vocab, monkeypatch):
    model = make_model(vocab, numbers_at("input", "output"))
    batch = tensors(make_instances(), vocab)
    at_once = scores_of(model, batch)
    monkeypatch.setattr(model_module, "_WORD_BLOCK", 6)
    monkeypatch.setattr(model_module, "SPAN_BLOCK", 3)
    monkeypatch.setattr(modules, "TARGET_BLOCK", 2)
    in_blocks = scores_of(model, batch)
    assert in_blocks["spans"] == at_once["spans"]
    for left, right in zip(in_blocks["antecedent_scores"], at_once["antecedent_scores"], strict=True):
        torch.testing.assert_close(left, right)


def test_contextual_vectors_run_over_sentences_without_others_padding(vocab, monkeypatch):
    monkeypatch.setattr(model_module, "_WORD_BLOCK", 12)
    model = make_model(vocab)
    scores_of(model, tensors(make_instances(), vocab))
    # Two sentences and one of the first document, the second document, and each sentence of the third.
    assert model.text_embedder.contextual.shapes == [(2, 5), (1, 3), (1, 2), (1, 9), (1, 4)]


def test_spans_are_kept_by_the_number_of_words_and_dont_cross(vocab):
    model = make_model(vocab, spans_per_word=0.4)
    scores = scores_of(model, tensors(make_instances(), vocab))
    # Of 11, 2 and 13 words; at least one.
    assert [len(spans) for spans in scores["spans"]] == [4, 1, 5]
    assert [tuple(each.shape) for each in scores["antecedent_scores"]] == [(4, 4), (1, 1), (5, 5)]
    for spans in scores["spans"]:
        assert spans == sorted(spans)


def test_antecedents_are_the_nearest_so_many(vocab):
    model = make_model(vocab, max_antecedents=2)
    assert scores_of(model, tensors(make_instances(), vocab))["antecedent_scores"][2].shape == (5, 3)


def test_training_takes_a_window_of_sentences_and_evaluation_does_not(vocab):
    model = make_model(vocab, max_training_sentences=1, spans_per_word=1.0)
    batch = tensors(make_instances(DOCUMENTS[:1]), vocab)
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


def test_the_window_has_its_own_speakers(vocab):
    instances = make_instances([(["Ada left", "Bo left"], "a b", [])])
    (whole,) = model_module._documents(*(tensors(instances, vocab)[name] for name in ("text", "speaker_ids", "genre")))
    windows = [model_module._window(whole, 1) for _ in range(20)]
    assert {window.first_word for window in windows} == {0, 2}
    for window in windows:
        assert window.speaker_ids.tolist() == ([0, 0] if window.first_word == 0 else [1, 1])


def test_speakers_and_genres_matter(vocab):
    model = make_model(vocab, spans_per_word=1.0)
    batch = tensors(make_instances(DOCUMENTS[:1]), vocab)
    (before,) = scores_of(model, batch)["antecedent_scores"]
    for name, other in {"speaker_ids": torch.zeros(1, 11), "genre": torch.ones(1)}.items():
        (after,) = scores_of(model, {**batch, name: other.long()})["antecedent_scores"]
        assert not torch.allclose(before, after), name


@pytest.mark.parametrize("dim", [2, 9])
@pytest.mark.parametrize("placements", [["input"], ["output"], ["input", "output"]])
def test_widths_follow_the_embedder(vocab, dim, placements):
    model = make_model(vocab, numbers_at(*placements, dim=dim))
    # Word vectors of 5, and two directions of 4.
    input_dim, encoded_dim = 5 + dim * ("input" in placements), 8 + dim * ("output" in placements)
    assert model.encoder.get_input_dim() == input_dim
    # Two ends, the head over all of the input, and the width.
    assert model.span_embedder.get_output_dim() == 2 * encoded_dim + input_dim + 2
    assert model(**tensors(make_instances(), vocab))["loss"].isfinite()


def test_a_placement_it_doesnt_have_is_refused(vocab):
    with pytest.raises(ConfigurationError, match="no placement 'integrated' here; this model has 'input', 'output'"):
        make_model(vocab, numbers_at("integrated"))


def test_a_baseline_has_no_contextual_parameter(vocab):
    names = [name for name, _ in make_model(vocab, {"type": "none"}).named_parameters()]
    assert names and not any("contextual" in name for name in names)


def test_lexical_dropout_is_on_word_vectors_and_not_on_contextual_ones(vocab):
    model = make_model(vocab, lexical_dropout=0.9, dropout=0.0).train()
    seen = []
    model.encoder.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    scores_of(model, tensors(make_instances(DOCUMENTS[:1]), vocab))
    words, contextual = seen[0].split([5, 3], dim=-1)
    assert (words == 0).float().mean() > 0.5
    assert (contextual[0] > 0).all()


def test_a_gradient_reaches_every_parameter(vocab):
    model = make_model(vocab, spans_per_word=1.0, lexical_dropout=0.0, dropout=0.0).train()
    model(**tensors(make_instances(), vocab))["loss"].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_a_few_documents_can_be_learned_by_heart(vocab):
    # Of so few words so few spans are usually kept that a gold one may never be among them; here most are kept.
    kwargs = {"lexical_dropout": 0.0, "dropout": 0.0, "hidden_dim": 20, "spans_per_word": 2.0, "max_span_width": 3}
    model = make_model(vocab, numbers_at("input"), **kwargs).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    batch = tensors(make_instances(), vocab)
    for _ in range(80):
        optimizer.zero_grad()
        model(**batch)["loss"].backward()
        optimizer.step()
    model.eval().get_metrics(reset=True)
    output = model(**batch)
    assert output["clusters"] == [clusters for _, _, clusters in DOCUMENTS]
    metrics = model.get_metrics(reset=True)
    assert metrics["f1"] == metrics["muc_f1"] == metrics["mention_recall"] == pytest.approx(1.0)
    assert model.get_metrics()["f1"] == 0.0


def test_outputs_name_the_document(vocab):
    output = make_model(vocab)(**tensors(make_instances(), vocab))
    assert output["document_id"] == ["document"] * 3
    assert output["sentences"][1] == [["Bo", "left"]]
    assert output["gold_clusters"] == [clusters for _, _, clusters in DOCUMENTS]


def test_several_models_prune_once_and_average_what_they_score(vocab):
    members = [make_model(vocab, seed=seed) for seed in (1, 2)]
    batch = tensors(make_instances(DOCUMENTS[:1]), vocab)
    arguments = [batch[name] for name in ("text", "speaker_ids", "genre")]
    joint = CoreferenceResolver.joint_scores(members, *arguments)
    assert {len(spans) for spans in joint["spans"]} == {4}
    # Keeping the same spans, each member's own scores are those that are averaged.
    (document,) = model_module._documents(*arguments)
    candidates = modules.candidate_spans(document.lengths, 4, torch.device("cpu"))
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


def test_it_is_registered_with_its_predictor():
    assert Model.by_name("elmo::coref") is CoreferenceResolver
    assert CoreferenceResolver.default_predictor == "elmo::coref"
