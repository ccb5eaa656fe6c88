import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.training.metrics import Average

from elmo_plugin.tasks.common.task_model import TaskModel, copy_from
from elmo_plugin.text import ContextualEmbedder, PlacedTextEmbedder


class Everywhere(ContextualEmbedder):
    """Vectors at the placements asked for."""

    def __init__(self, *placements):
        super().__init__()
        self.placements = placements

    def get_output_dim(self):
        return 1


class Doubling(TaskModel):
    """Scores twice its input, and takes the gold value for its loss."""

    def __init__(self, *placements, **kwargs):
        super().__init__(Vocabulary(), PlacedTextEmbedder(contextual=Everywhere("input", *placements)), **kwargs)
        self.metric = Average()

    def scores(self, values, **_):
        return {"doubled": 2 * values}

    def decode(self, scores, gold=None, **_):
        if gold is not None:
            self.metric(float((scores["doubled"] - gold).abs().sum()))
        return {"answer": scores["doubled"].tolist()}

    def loss(self, scores, gold=None, **_):
        return None if gold is None else (scores["doubled"] - gold).pow(2).sum()


VALUES = {"values": torch.tensor([1.0, 2.0]), "metadata": "that no step asks for"}


GOLD = torch.tensor([2.0, 5.0])


def test_forward_scores_and_decodes_and_has_a_loss_only_with_gold_labels():
    assert Doubling()(**VALUES) == {"answer": [2.0, 4.0]}
    assert Doubling().eval()(**VALUES, gold=GOLD) == {"answer": [2.0, 4.0], "loss": torch.tensor(1.0)}


def test_training_batches_are_neither_decoded_nor_reported():
    model = Doubling()
    assert model.train()(**VALUES, gold=GOLD).keys() == {"loss"}
    assert model.get_metrics(reset=True) == {}


def test_training_metrics_are_there_if_asked_for():
    model = Doubling(training_metrics=True)
    assert model.train()(**VALUES, gold=GOLD).keys() == {"answer", "loss"}
    assert model.get_metrics() == 1.0


def test_a_placement_that_the_task_lacks_is_refused():
    with pytest.raises(ConfigurationError, match="no placement 'roof' here; this model has 'input', 'output'"):
        Doubling("roof")


def test_what_the_output_repeats_of_the_metadata_is_a_list_for_each_name():
    metadata = [{"tokens": ["a"], "id": 1}, {"tokens": ["b"], "id": 2}]
    assert copy_from(metadata, "tokens") == {"tokens": [["a"], ["b"]]}
    assert copy_from(None, "tokens") == {}
