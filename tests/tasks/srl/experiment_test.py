import json
import math

import pytest
import torch
from allennlp.commands import main as run_allennlp
from allennlp.common import Params
from allennlp.data import Batch, DatasetReader, Vocabulary
from allennlp.models import Model
from contract import check_experiment

import elmo_plugin.tasks.srl  # noqa: F401  (registers it)
from elmo_plugin.tasks.srl.srl_eval import score_file

INPUTS = [
    {"sentence": "Ada sold the boat that Bo bought.", "predicate_indices": [1, 6]},
    {"tokens": ["Bo", "left"], "predicate_indices": [1]},
    {"sentence": "Unbekanntes – straße 東京 !", "predicate_indices": [0, 2, 3]},
    {"sentence": "Nothing here.", "predicate_indices": []},
]


@pytest.fixture(autouse=True)
def at_the_root(root, monkeypatch):
    monkeypatch.chdir(root)


@pytest.mark.parametrize("config", ["baseline", "elmo"])
def test_the_fixture_is_trained_evaluated_predicted_from_and_moved(config, tmp_path, monkeypatch):
    experiment = check_experiment(f"fixtures/srl/{config}.jsonnet", tmp_path, INPUTS)
    metrics = experiment.metrics
    assert math.isfinite(metrics["loss"])
    assert {"precision", "recall", "f1", "perfect", "f1-ARG0", "f1-ARG1", "f1-R-ARG1"} <= metrics.keys()
    assert not {"f1-V", "f1-C-ARG1"} & metrics.keys()
    assert [len(prediction["frames"]) for prediction in experiment.predictions] == [2, 1, 3, 0]

    # Predictions written for srl-eval score the same as in `allennlp evaluate`.
    output_file = str(tmp_path / "predictions.jsonl")
    arguments = [str(experiment.archive_file), "fixtures/data/srl/dev.gold_conll", "--use-dataset-reader", "--silent"]
    monkeypatch.setattr(
        "sys.argv", ["allennlp", "predict", *arguments, "--output-file", output_file, "--batch-size", "2"]
    )
    run_allennlp()
    gold_props, predicted_props = tmp_path / "gold.txt", tmp_path / "predicted.txt"
    report = score_file(output_file, str(gold_props), str(predicted_props))
    assert "Number of Sentences    :           3\nNumber of Propositions :           5\n" in report
    overall = next(line.split() for line in report.splitlines() if line.split()[:1] == ["Overall"])
    assert float(overall[-1]) == pytest.approx(100 * metrics["f1"], abs=0.01)
    assert gold_props.read_text().split("\n\n")[1] == "- (ARG0*)\ngave (V*\n- *)\n- *"
    assert [len(text.splitlines()) for text in predicted_props.read_text().split("\n\n")] == [8, 4, 9, 0]
    with open(output_file) as file:
        assert json.loads(file.readline())["tokens"][:2] == ["Cy", "sold"]


class Fixture:
    """The model of a fixture config, untrained."""

    def __init__(self, config):
        params = Params.from_file(f"fixtures/srl/{config}.jsonnet")
        self.reader = DatasetReader.from_params(params["dataset_reader"])
        self.vocab = Vocabulary.from_instances(map(self._index, self.reader.read("fixtures/data/srl/train")))
        torch.manual_seed(0)
        self.model = Model.from_params(vocab=self.vocab, params=params["model"]).eval()

    def scores(self, *predicates):
        instances = [self._index(self.reader.text_to_instance(text.split(), index)) for text, index in predicates]
        batch = Batch(instances)
        batch.index_instances(self.vocab)
        return self.model.scores(**batch.as_tensor_dict())["log_probabilities"].detach()

    def _index(self, instance):
        self.reader.apply_token_indexers(instance)
        return instance


@pytest.mark.parametrize("config", ["baseline", "elmo"])
def test_batch_mates_dont_change_the_scores_of_a_short_sentence(config):
    fixture = Fixture(config)
    alone = fixture.scores(("Bo left", 1))[0]
    beside = fixture.scores(("Unbekanntes was incomprehensible to us", 1), ("Bo left", 0), ("Bo left", 1))[2]
    torch.testing.assert_close(beside[: len(alone)], alone)


def test_the_predicates_of_a_sentence_share_one_pass_of_the_bilm():
    fixture = Fixture("elmo")
    num_rows = []
    fixture.model.text_embedder.contextual.register_forward_pre_hook(
        lambda module, args: num_rows.append(args[0]["elmo"]["elmo_tokens"].size(0))
    )
    fixture.scores(("Ada says Bo left", 1), ("Bo left", 1), ("Ada says Bo left", 3))
    assert num_rows == [2]


def test_the_baseline_and_elmo_differ_by_elmo_alone():
    baseline, elmo = (Params.from_file(f"fixtures/srl/{config}.jsonnet").as_dict() for config in ("baseline", "elmo"))
    del elmo["dataset_reader"]["token_indexers"]["elmo"]
    del elmo["validation_dataset_reader"]["token_indexers"]["elmo"]
    del elmo["model"]["text_embedder"]["contextual"]
    del elmo["model"]["regularizer"]
    assert elmo == baseline


def test_only_training_sentences_are_limited_in_length(monkeypatch):
    monkeypatch.setenv("ELMO_ABLATION", "fraction")
    monkeypatch.setenv("ELMO_TRAIN_FRACTION", "0.5")
    for name in ("BILM", "SRL_TRAIN", "SRL_DEV"):
        monkeypatch.setenv(f"ELMO_{name}", "anything")
    for config in ("elmo", "ablation"):
        params = Params.from_file(f"training_configs/srl/{config}.jsonnet").as_dict(quiet=True)
        reader = params["dataset_reader"]
        assert reader.get("reader", reader)["max_tokens"] == 100
        assert params["validation_dataset_reader"]["type"] == "elmo::srl"
        assert params["validation_dataset_reader"].get("max_tokens") is None


def test_gradients_are_clipped_by_value_or_by_norm(monkeypatch):
    monkeypatch.setenv("ELMO_ABLATION", "clip_by_norm")
    for name in ("BILM", "SRL_TRAIN", "SRL_DEV"):
        monkeypatch.setenv(f"ELMO_{name}", "anything")
    trainers = [
        Params.from_file(f"training_configs/srl/{config}.jsonnet")["trainer"] for config in ("elmo", "ablation")
    ]
    assert [(trainer.get("grad_clipping"), trainer.get("grad_norm")) for trainer in trainers] == [
        (1.0, None),
        (None, 1.0),
    ]


def test_the_predicate_embedding_starts_within_glorots_bounds():
    weight = Fixture("baseline").model.predicate_embedding.weight
    assert 0 < weight.abs().max() <= math.sqrt(6 / sum(weight.shape))
