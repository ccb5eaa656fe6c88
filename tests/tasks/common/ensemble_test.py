import json
import shutil
import tarfile
from pathlib import Path

import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.commands.train import train_model_from_file
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Vocabulary
from allennlp.models import Model, load_archive
from allennlp.predictors import Predictor
from contract import logging_as_before
from torch.testing import assert_close

import elmo_plugin.tasks.snli  # noqa: F401
from elmo_plugin.tasks.common.ensemble import RECORD_NAME, Ensemble
from elmo_plugin.tasks.common.task_model import TaskModel

PAIRS = [
    {"premise": "A girl paints a boat.", "hypothesis": "A child is happy."},
    {"premise": "An old piper rests.", "hypothesis": "A man."},
]
DATA = "fixtures/data/snli"


def train(config, folder: Path, recover: bool = False, **overrides) -> str:
    """Trains a config's file, or a dictionary, and gives the archive's path."""
    if not isinstance(config, str):
        folder.parent.mkdir(exist_ok=True, parents=True)
        file = folder.parent / f"{folder.name}.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        config = str(file)
    with logging_as_before():
        train_model_from_file(config, str(folder), overrides, recover=recover)
    return str(folder / "model.tar.gz")


@pytest.fixture(scope="module")
def archives(tmp_path_factory, root):
    """A function that gives `num` archives of a fixture, trained once, which differ by their seed."""
    folder = tmp_path_factory.mktemp("members")
    seeds = ("random_seed", "numpy_seed", "pytorch_seed")

    def make(name: str, num: int = 2):
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.chdir(root)
            paths = [folder / f"{name}_{seed}" for seed in range(num)]
            for seed, path in enumerate(paths):
                if not path.exists():
                    train(
                        f"fixtures/snli/{name}.jsonnet", path, **{"trainer.num_epochs": 1}, **dict.fromkeys(seeds, seed)
                    )
        return [str(path / "model.tar.gz") for path in paths]

    return make


def test_a_task_can_score_for_all_members_at_once(root, tmp_path):
    """Coreference keeps the same spans for all members; averaging afterwards would mix scores of different spans."""
    seeds = ("random_seed", "numpy_seed", "pytorch_seed")
    members = [
        train(
            "fixtures/coref/baseline.jsonnet",
            tmp_path / str(seed),
            **{"trainer.num_epochs": 1},
            **dict.fromkeys(seeds, seed),
        )
        for seed in range(2)
    ]
    archive = load_archive(train(ensemble_config(members), tmp_path / "ensemble"))
    models = [load_archive(member).model.eval() for member in members]
    (instance, *_) = archive.dataset_reader.read("fixtures/data/coref/dev.v4_gold_conll")
    batch = Batch([instance])
    batch.index_instances(archive.model.vocab)
    tensors = batch.as_tensor_dict()
    arguments = {name: tensors[name] for name in ("text", "speaker_ids", "genre")}
    expected = models[0].joint_scores(models, **arguments)
    scores = archive.model.eval().scores(**tensors)
    assert scores["spans"] == expected["spans"]
    assert_close(scores["antecedent_scores"], expected["antecedent_scores"])
    assert not torch.allclose(scores["antecedent_scores"][0], models[0].scores(**arguments)["antecedent_scores"][0])


@pytest.mark.parametrize("task", ["coref", "ner", "snli", "squad", "srl", "sst"])
def test_two_models_of_any_task_are_evaluated_and_predicted_from_as_one(task, tmp_path):
    members = [
        train(f"fixtures/{task}/baseline.jsonnet", tmp_path / str(seed), **{"trainer.num_epochs": 1}, pytorch_seed=seed)
        for seed in range(2)
    ]
    archive = train(ensemble_config(members), tmp_path / "ensemble")
    config = Params.from_file(str(tmp_path / "0" / "config.json"))
    metrics = evaluate_from_archive(archive, config["validation_data_path"])
    assert 0 <= metrics[config["trainer"]["validation_metric"].removeprefix("+")] <= 1 and "loss" not in metrics
    predictor = Predictor.from_path(archive)
    assert type(predictor) is type(Predictor.from_path(members[0]))
    instances = list(predictor._dataset_reader.read(config["validation_data_path"]))[:2]
    assert len(predictor.predict_batch_instance(instances)) == 2


@pytest.fixture(autouse=True)
def in_the_repository(root, monkeypatch):
    monkeypatch.chdir(root)


def ensemble_config(archives):
    reader = Params.from_file(str(Path(archives[0]).parent / "config.json")).as_dict()["dataset_reader"]
    return {
        "dataset_reader": reader,
        "vocabulary": {"type": "from_files", "directory": archives[0]},
        "model": {"type": "elmo::ensemble", "archives": archives},
        "trainer": {"type": "no_op"},
        "train_data_path": "nothing is read",
        "data_loader": {"batch_size": 1, "max_instances_in_memory": 1},
    }


def build(archives, vocab=None):
    vocab = vocab or Vocabulary.from_files(archives[0])
    return Model.from_params(vocab=vocab, params=Params({"type": "elmo::ensemble", "archives": list(archives)}))


def probabilities(predictor):
    return torch.tensor([list(output["probabilities"].values()) for output in predictor.predict_batch_json(PAIRS)])


@pytest.mark.parametrize("name", ["baseline", "elmo"])
def test_archive_outlives_its_members_and_predicts_their_mean(archives, name, tmp_path, monkeypatch):
    members = [shutil.copytree(Path(path).parent, tmp_path / Path(path).parent.name) for path in archives(name)]
    member_archives = [str(member / "model.tar.gz") for member in members]
    of_members = [probabilities(Predictor.from_path(path)) for path in member_archives]
    assert not torch.allclose(*of_members, atol=1e-4)
    archive = train(ensemble_config(member_archives), tmp_path / "ensemble")

    for folder in (*members, tmp_path / "ensemble"):
        moved = shutil.move(archive, tmp_path / "moved.tar.gz") if folder.name == "ensemble" else None
        shutil.rmtree(folder)
    data_file = str(Path(DATA, "dev.jsonl").resolve())
    monkeypatch.chdir(tmp_path)  # nor are the biLM's files found, which the config names
    predictor = Predictor.from_path(moved)
    assert type(predictor).__name__ == "SnliPredictor"
    assert_close(probabilities(predictor), torch.stack(of_members).mean(dim=0))
    metrics = evaluate_from_archive(moved, data_file)
    assert metrics.keys() == {"accuracy"} and 0 <= metrics["accuracy"] <= 1


def test_members_with_other_bilms_keep_their_own(tmp_path, make_bilm_files):
    """Both members' configs name the same files, whose content changed in between."""
    members, of_members = [], []
    for index, projection_dim in enumerate((4, 6)):
        files = make_bilm_files(lstm={"projection_dim": projection_dim})
        bilm = {"type": "files", "options_file": files.options_file, "weight_file": files.weight_file}
        overrides = {"model.text_embedder.contextual.bilm": bilm, "trainer.num_epochs": 1}
        members.append(train("fixtures/snli/elmo.jsonnet", tmp_path / f"member{index}", **overrides))
        of_members.append(probabilities(Predictor.from_path(members[-1])))
    archive = train(ensemble_config(members), tmp_path / "ensemble")
    ensemble = load_archive(archive).model
    assert [member.text_embedder.contextual.get_output_dim() for member in ensemble.members] == [8, 12]
    assert_close(probabilities(Predictor.from_path(archive)), torch.stack(of_members).mean(dim=0))


def test_recovered_run_has_the_members_weights(archives, tmp_path):
    config = ensemble_config(archives("baseline"))
    before = load_archive(train(config, tmp_path / "ensemble")).model.state_dict()
    after = load_archive(train(config, tmp_path / "ensemble", recover=True)).model.state_dict()
    assert before.keys() == after.keys()
    for name, value in after.items():
        assert_close(value, before[name], rtol=0, atol=0)


def test_equal_parameters_are_kept_and_saved_once(archives, tmp_path):
    archive = train(ensemble_config(archives("elmo")), tmp_path / "ensemble")
    first, second = load_archive(archive).model.members
    bilms = [member.text_embedder.contextual.bilm for member in (first, second)]
    for left, right in zip(*(bilm.parameters() for bilm in bilms), strict=True):
        assert left.data_ptr() == right.data_ptr()
    assert first.output_layer.weight.data_ptr() != second.output_layer.weight.data_ptr()
    saved = torch.load(tmp_path / "ensemble" / "best.th")
    keys = [f"members.{index}.text_embedder.contextual.bilm.character_cnn" for index in (0, 1)]
    in_saved = [[value for name, value in saved.items() if name.startswith(key)] for key in keys]
    assert in_saved[0] and [value.data_ptr() for value in in_saved[0]] == [value.data_ptr() for value in in_saved[1]]


def test_record_is_a_dot_file_in_the_vocabulary_folder_of_the_archive(archives, tmp_path):
    archive = train(ensemble_config(archives("elmo")), tmp_path / "ensemble")
    with tarfile.open(archive) as files:
        record = json.load(files.extractfile(f"vocabulary/{RECORD_NAME}"))
    assert [recipe["model"]["type"] for recipe in record] == ["elmo::snli", "elmo::snli"]
    assert RECORD_NAME.startswith(".")


def test_one_member_predicts_as_it_did(archives):
    (archive,) = archives("baseline", 1)
    reader = load_archive(archive).dataset_reader
    ensemble = Predictor.by_name("elmo::ensemble")(build([archive]), reader)
    assert_close(probabilities(ensemble), probabilities(Predictor.from_path(archive)))


def test_unequal_vocabularies_are_refused_by_name(archives, tmp_path):
    (archive,) = archives("baseline", 1)
    lines = Path(DATA, "train.jsonl").read_text(encoding="utf-8").replace("piper", "harper")
    (tmp_path / "train.jsonl").write_text(lines, encoding="utf-8")
    overrides = {"train_data_path": str(tmp_path / "train.jsonl"), "trainer.num_epochs": 1}
    other = train("fixtures/snli/baseline.jsonnet", tmp_path / "other", **overrides)
    with pytest.raises(ConfigurationError, match=f"{archive} and {other} differ: .*'tokens'.*in the other"):
        build([archive, other])


def test_vocabulary_of_the_run_has_to_be_the_members(archives):
    (archive,) = archives("baseline", 1)
    vocab = Vocabulary.from_files(archive)
    vocab.add_token_to_namespace("extra", "tokens")
    with pytest.raises(
        ConfigurationError, match=r"isn't that of this run: .* 'tokens' is None in one and 'extra' in .*from_files"
    ):
        build([archive], vocab)


def test_entry_that_differs_is_named(archives):
    (archive,) = archives("baseline", 1)
    vocab = Vocabulary.from_files(archive)
    tokens = vocab.get_index_to_token_vocabulary("labels")
    tokens[0], tokens[1] = tokens[1], tokens[0]
    with pytest.raises(
        ConfigurationError, match="entry 0 of the namespace 'labels' is '.*' in one and '.*' in the other"
    ):
        build([archive], vocab)


class OtherTask(TaskModel):
    """A model of another task."""

    def __init__(self):
        Model.__init__(self, Vocabulary())


def let_second_archive_hold(monkeypatch, model):
    from allennlp.models import archival

    load_archive, models = archival.load_archive, [None, model]

    def load(path):
        archive, instead = load_archive(path), models.pop(0)
        return archive if instead is None else archive._replace(model=instead)

    monkeypatch.setattr(archival, "load_archive", load)


def test_members_of_other_tasks_are_refused_by_name(archives, monkeypatch):
    first, second = archives("baseline")
    let_second_archive_hold(monkeypatch, OtherTask())
    with pytest.raises(ConfigurationError, match=f"one task, but {first} holds a Esim and {second} a OtherTask"):
        build([first, second])


def test_model_that_can_not_be_a_member_is_refused_by_name(archives, monkeypatch):
    first, second = archives("baseline")
    let_second_archive_hold(monkeypatch, Model(Vocabulary()))
    with pytest.raises(ConfigurationError, match=f"{second} holds a Model, which can't be a member"):
        build([first, second])


def test_ensemble_is_no_member(archives, tmp_path):
    first, _ = archives("baseline")
    archive = train(ensemble_config([first]), tmp_path / "ensemble")
    with pytest.raises(ConfigurationError, match=f"{archive} is an ensemble itself"):
        build([first, archive])


def test_missing_archive_and_no_archives_are_refused():
    with pytest.raises(ConfigurationError, match="can't get the ensemble's member 'no/such.tar.gz'"):
        build(["no/such.tar.gz"], Vocabulary())
    with pytest.raises(ConfigurationError, match="'archives' is empty"):
        build([], Vocabulary())


class Member(TaskModel):
    """Scores its `bias`; a stand-in for a task's model."""

    def __init__(self, bias):
        Model.__init__(self, Vocabulary())
        self.bias = bias

    def scores(self, values, **_):
        return {"emissions": values + self.bias, "mask": values > 0, "names": ["a"]}

    def decode(self, scores, label=None, **_):
        return {**scores, "label": label}


def test_floating_point_scores_are_averaged_and_others_are_the_first_members():
    ensemble = Ensemble(Vocabulary(), [Member(0.0), Member(3.0)])
    output = ensemble(values=torch.tensor([1.0, -1.0]), label=7, metadata="neither takes it")
    assert output["emissions"].tolist() == [2.5, 0.5]
    assert output["mask"].tolist() == [True, False]
    assert output["names"] == ["a"] and output["label"] == 7


def test_ensemble_config_reads_its_archives_from_the_environment(archives, root, tmp_path):
    variables = {"ELMO_ENSEMBLE_OF": "snli/baseline", "ELMO_ENSEMBLE_ARCHIVES": " , ".join(archives("baseline"))}
    config = Params.from_file(str(root / "training_configs" / "ensemble.jsonnet"), ext_vars=variables).as_dict()
    archive = train(config, tmp_path / "ensemble")
    assert len(load_archive(archive).model.members) == 2


def test_ensemble_config_names_the_experiments_it_knows(root):
    variables = {"ELMO_ENSEMBLE_OF": "snli/none", "ELMO_ENSEMBLE_ARCHIVES": "a"}
    with pytest.raises(
        RuntimeError, match="ELMO_ENSEMBLE_OF is 'snli/none', but must be one of .*snli/baseline, snli/elmo"
    ):
        Params.from_file(str(root / "training_configs" / "ensemble.jsonnet"), ext_vars=variables)
