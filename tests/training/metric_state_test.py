from collections import Counter, defaultdict
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from allennlp.data import Vocabulary
from allennlp.training.metrics import (
    Average,
    BooleanAccuracy,
    CategoricalAccuracy,
    F1Measure,
    FBetaMeasure,
    Metric,
    PearsonCorrelation,
    SpanBasedF1Measure,
)

from elmo_plugin.tasks.coref.metrics import CoreferenceMetric
from elmo_plugin.tasks.ner.metrics import ConllMetric
from elmo_plugin.tasks.squad.metrics import SquadMetric
from elmo_plugin.tasks.srl.metrics import SrlMetric
from elmo_plugin.training.checkpointer import read_state
from elmo_plugin.training.metric_state import load_metric_state, metric_state

CPU = torch.device("cpu")
PREDICTIONS, LABELS = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]]), torch.tensor([1, 1, 0])


def tag_vocabulary() -> Vocabulary:
    vocab = Vocabulary()
    vocab.add_tokens_to_namespace(["O", "B-PER", "I-PER"], "tags")
    return vocab


METRICS = {
    "elmo::conll": (ConllMetric, ([["B-PER", "O"]], [["B-PER", "B-LOC"]])),
    "elmo::srl": (SrlMetric, ([["B-V", "B-ARG0", "O"]], [["B-V", "B-ARG0", "B-ARG1"]])),
    "elmo::squad": (SquadMetric, (["the cat"], [["the cat", "a cat"]])),
    "elmo::coref": (CoreferenceMetric, ([[[(0, 1), (2, 3)]]], [[[(0, 1), (2, 3), (4, 5)]]], [[(0, 1), (4, 5)]])),
    "categorical_accuracy": (CategoricalAccuracy, (PREDICTIONS, LABELS)),
    "boolean_accuracy": (BooleanAccuracy, (LABELS.bool(), LABELS.bool())),
    "f1": (lambda: F1Measure(positive_label=1), (PREDICTIONS, LABELS)),
    "fbeta": (FBetaMeasure, (PREDICTIONS, LABELS)),
    "average": (Average, (0.75,)),
    "pearson": (PearsonCorrelation, (torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 3.0, 3.0]))),
    "span_f1": (
        lambda: SpanBasedF1Measure(tag_vocabulary()),
        (torch.eye(3)[None, [0, 1, 2]], torch.tensor([[1, 1, 2]])),
    ),
}


class Measured(torch.nn.Module):
    def __init__(self, metric: Any) -> None:
        super().__init__()
        self.metric = metric


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_goes_on_from_a_file_as_if_it_had_never_stopped(tmp_path, name):
    make, batch = METRICS[name]
    whole, resumed = Measured(make()), Measured(make())
    whole.metric(*batch)
    torch.save(metric_state(whole), tmp_path / "state.th")
    load_metric_state(resumed, read_state(str(tmp_path / "state.th")), CPU)
    assert repr(resumed.metric.get_metric()) == repr(whole.metric.get_metric())
    for each in (whole, resumed):
        each.metric(*batch)
    assert repr(resumed.metric.get_metric()) == repr(whole.metric.get_metric())


class Pair(NamedTuple):
    first: float
    second: torch.Tensor


class Oddities(Metric):
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.by_type = defaultdict(Counter)
        self.pair = Pair(0.0, torch.zeros(2))
        self.seen = set()
        self.array = numpy.zeros(2)
        self.scorer = print

    def __call__(self, word: str) -> None:
        self.by_type[word[0]][word] += 1
        self.pair = Pair(self.pair.first + 1, self.pair.second + 1)
        self.seen.add(word)
        self.array += 1

    def get_metric(self, reset: bool = False) -> Any:
        return self.by_type, self.pair, self.seen, self.array


def test_collections_and_arrays_of_any_shape_go_on():
    whole, resumed = Measured({"odd": [Oddities()]}), Measured({"odd": [Oddities()]})
    whole.metric["odd"][0]("cat")
    load_metric_state(resumed, metric_state(whole), CPU)
    for each in (whole, resumed):
        each.metric["odd"][0]("cow")
        each.metric["odd"][0]("dog")
    assert repr(resumed.metric["odd"][0].get_metric()) == repr(whole.metric["odd"][0].get_metric())
    assert resumed.metric["odd"][0].scorer is print


def test_a_saved_state_does_not_change_with_the_metric():
    model = Measured(Oddities())
    state = metric_state(model)
    model.metric("cat")
    assert state[".metric"]["array"].tolist() == [0.0, 0.0] and state[".metric"]["by_type"] == {}


def test_what_no_checkpoint_can_hold_is_refused():
    with pytest.raises(TypeError, match="a metric counts in a generator"):
        metric = Average()
        metric.stream = (number for number in [1, 2])
        metric_state(Measured(metric))
