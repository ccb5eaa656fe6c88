import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.demo_page import task_models
from elmo_plugin.demo_page.task_models import Task, TaskModel, open_tasks, short_names
from elmo_plugin.demo_page.texts import TextError
from elmo_plugin.tasks.common.display import Bars, MarkedText
from elmo_plugin.tasks.srl import SrlPredictor


@pytest.fixture
def archives(archive_of):
    """A baseline and an ELMo model of one task, and a model of another."""
    return {name: archive_of(f"fixtures/{name.replace('_', '/')}") for name in ("ner_baseline", "ner_elmo", "sst_elmo")}


def test_models_of_one_task_stand_together_in_the_order_given(archives):
    ner, sst = open_tasks([archives["ner_elmo"], archives["sst_elmo"], archives["ner_baseline"]])
    assert [model.name for model in ner.models] == ["ner_elmo", "ner_baseline"]
    assert ner.described.task_title == "Named entities" and sst.described.task_title == "Sentiment"


def test_each_model_answers_and_has_its_layer_weights(archives):
    (ner,) = open_tasks([archives["ner_baseline"], archives["ner_elmo"]])
    texts = ner.predict(ner.check_inputs({"sentence": " Ada is in London. "}))
    assert [[display.text for display in of_model] for of_model in texts] == [["Ada is in London."]] * 2
    baseline, elmo = ner.models
    assert baseline.layer_weights == []
    (weights,) = elmo.layer_weights
    assert weights.title.startswith("Layer weights: ELMo at the input, gamma ")
    assert list(weights.values) == ["biLM, token layer", "biLM, layer 1", "biLM, layer 2"]
    assert sum(weights.values.values()) == pytest.approx(1.0)


def test_an_ensemble_answers_as_its_task_and_names_its_members(archives, archive_of, monkeypatch):
    for name, value in (("OF", "ner/elmo"), ("ARCHIVES", f"{archives['ner_elmo']},{archives['ner_elmo']}")):
        monkeypatch.setenv(f"ELMO_ENSEMBLE_{name}", value)
    monkeypatch.setenv("ELMO_NER_TRAIN", "fixtures/data/ner/train.txt")
    monkeypatch.setenv("ELMO_NER_DEV", "fixtures/data/ner/dev.txt")
    (ner,) = open_tasks([archive_of("training_configs/ensemble")])
    ((shown,),) = ner.predict({"sentence": "Ada is in London."})
    assert isinstance(shown, MarkedText)
    titles = [weights.title.partition(", gamma")[0] for weights in ner.models[0].layer_weights]
    assert titles == [f"Layer weights: member {number}, ELMo at the input" for number in (1, 2)]


def test_a_model_of_another_kind_is_refused(archives, monkeypatch):
    monkeypatch.setattr(task_models, "open_predictor", lambda *args: (torch.nn.Identity(), {}))
    with pytest.raises(ConfigurationError, match="doesn't know how to show the output of a Identity"):
        open_tasks(["runs/other/model.tar.gz"])


@pytest.mark.parametrize(
    "files, names",
    [
        (["runs/ner/model.tar.gz"], ["ner"]),
        (["a/ner/model.tar.gz", "b/ner/model.tar.gz"], ["a/ner", "b/ner"]),
        (["a/one.tar.gz", "a/two.tar.gz"], ["one.tar.gz", "two.tar.gz"]),
        (["runs/ner/model.tar.gz", "runs/ner/model.tar.gz"], ["ner", "ner"]),
    ],
)
def test_runs_are_named_by_as_much_of_their_paths_as_tells_them_apart(files, names):
    assert short_names(files) == names


def test_an_optional_text_may_be_left_out_and_others_not():
    predictor = SrlPredictor.__new__(SrlPredictor)
    task = Task([TaskModel("srl", predictor, [Bars("none", {})])])
    assert task.check_inputs({"sentence": "Ada left", "predicates": " "}) == {"sentence": "Ada left"}
    with pytest.raises(TextError, match="Sentence: there is no text yet"):
        task.check_inputs({"sentence": "", "predicates": "left"})
