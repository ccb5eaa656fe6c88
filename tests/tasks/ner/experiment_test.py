import math

import pytest
import torch
from allennlp.commands import main as run_allennlp
from allennlp.common import Params
from allennlp.data import Batch, DatasetReader, Vocabulary
from allennlp.models import Model
from contract import check_experiment

import elmo_plugin.tasks.ner  # noqa: F401  (registers it)
from elmo_plugin.tasks.ner.conlleval import count_file

INPUTS = [
    {"sentence": "Ada Byron lives in Oslo, not in London."},
    {"tokens": ["Bo", "left"]},
    {"sentence": "Unbekanntes – straße 東京 !"},
]


@pytest.fixture(autouse=True)
def at_the_root(root, monkeypatch):
    monkeypatch.chdir(root)


@pytest.mark.parametrize("config", ["baseline", "elmo"])
def test_the_fixture_is_trained_evaluated_predicted_from_and_moved(config, tmp_path, monkeypatch):
    experiment = check_experiment(f"fixtures/ner/{config}.jsonnet", tmp_path, INPUTS)
    metrics = experiment.metrics
    assert math.isfinite(metrics["loss"])
    assert {"accuracy", "precision", "recall", "f1", "f1-PER", "f1-LOC", "f1-ORG", "f1-MISC"} <= metrics.keys()
    for prediction in experiment.predictions:
        assert len(prediction["tags"]) == len(prediction["tokens"])

    # Predictions written for conlleval score the same as in `allennlp evaluate`.
    output_file = str(tmp_path / "predictions.txt")
    arguments = [str(experiment.archive_file), "fixtures/data/ner/dev.txt", "--use-dataset-reader", "--silent"]
    arguments += ["--predictor-args", '{"output_format": "conll"}', "--output-file", output_file, "--batch-size", "2"]
    monkeypatch.setattr("sys.argv", ["allennlp", "predict", *arguments])
    run_allennlp()
    counts = count_file(output_file)
    assert counts.num_tokens == 29
    assert counts.gold == {"PER": 4, "LOC": 3, "ORG": 2, "MISC": 1}
    assert counts.scores().f1 == pytest.approx(metrics["f1"])
    assert counts.accuracy == pytest.approx(metrics["accuracy"])


class Fixture:
    """The model of a fixture config, untrained."""

    def __init__(self, config):
        params = Params.from_file(f"fixtures/ner/{config}.jsonnet")
        self.reader = DatasetReader.from_params(params["dataset_reader"])
        self.vocab = Vocabulary.from_instances(map(self._index, self.reader.read("fixtures/data/ner/train.txt")))
        torch.manual_seed(0)
        self.model = Model.from_params(vocab=self.vocab, params=params["model"]).eval()

    def tokens(self, *sentences):
        batch = Batch([self._index(self.reader.text_to_instance(sentence.split())) for sentence in sentences])
        batch.index_instances(self.vocab)
        return batch.as_tensor_dict()["tokens"]

    def _index(self, instance):
        self.reader.apply_token_indexers(instance)
        return instance


@pytest.mark.parametrize("config", ["baseline", "elmo"])
def test_long_sentences_and_long_words_in_a_batch_dont_change_the_emissions_of_a_short_one(config):
    fixture = Fixture(config)
    alone = fixture.model.scores(fixture.tokens("Bo left"))["emissions"][0]
    beside = fixture.model.scores(fixture.tokens("Bo left", "Unbekanntes was incomprehensible to us"))["emissions"][0]
    torch.testing.assert_close(beside[: len(alone)], alone)


def test_words_of_a_single_character_are_told_apart_by_it():
    fixture = Fixture("baseline")
    # Neither word is in the vocabulary, but their characters are.
    (first, second) = fixture.model.text_embedder(fixture.tokens("a b")).words[0]
    assert not torch.equal(first, second)


def test_the_baseline_and_elmo_differ_by_elmo_alone():
    baseline, elmo = (Params.from_file(f"fixtures/ner/{config}.jsonnet").as_dict() for config in ("baseline", "elmo"))
    del elmo["dataset_reader"]["token_indexers"]["elmo"]
    del elmo["model"]["text_embedder"]["contextual"]
    del elmo["model"]["regularizer"]
    assert elmo == baseline
