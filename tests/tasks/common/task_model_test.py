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

    def __init__(self, *placements):
        super().__init__(Vocabulary(), PlacedTextEmbedder(contextual=Everywhere("input", *placements)))
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


def test_forward_scores_and_decodes_and_has_a_loss_only_with_gold_labels():
    assert Doubling()(**VALUES) == {"answer": [2.0, 4.0]}
    output = Doubling()(**VALUES, gold=torch.tensor([2.0, 5.0]))
    assert output == {"answer": [2.0, 4.0], "loss": torch.tensor(1.0)}


def test_a_task_may_decode_in_evaluation_only():
    model = Doubling()
    model.decodes_in_training = False
    assert model.train()(**VALUES, gold=torch.tensor([2.0, 5.0])).keys() == {"loss"}
    assert model.eval()(**VALUES, gold=torch.tensor([2.0, 5.0])).keys() == {"answer", "loss"}


def test_a_placement_that_the_task_lacks_is_refused():
    with pytest.raises(ConfigurationError, match="no placement 'roof' here; this model has 'input', 'output'"):
        Doubling("roof")


def test_what_the_output_repeats_of_the_metadata_is_a_list_for_each_name():
    metadata = [{"tokens": ["a"], "id": 1}, {"tokens": ["b"], "id": 2}]
    assert copy_from(metadata, "tokens") == {"tokens": [["a"], ["b"]]}
    assert copy_from(None, "tokens") == {}
