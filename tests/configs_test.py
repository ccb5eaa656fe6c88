"""Every experiment under training_configs/ is built, as `allennlp train` would build it, on the data in fixtures/."""

import json
from pathlib import Path

import _jsonnet
import pytest
import torch
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.util import prepare_environment
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.models.archival import archive_model

from elmo_plugin.cove import MtLstm
from elmo_plugin.settings import SETTINGS
from elmo_plugin.text import ContextualEmbedder
from elmo_plugin.training import BiLmVocabulary

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "training_configs").rglob("*.jsonnet"))
# An ensemble is made of trained archives: tests/tasks/common/ensemble_test.py builds it.
BUILT = [config for config in CONFIGS if Path(config).name not in ("ensemble.jsonnet", "ablation.jsonnet")]

TASKS = ["coref", "ner", "snli", "squad", "srl", "sst"]

DATA = {
    "ELMO_BILM": "fixtures/bilm",
    "ELMO_BILM_TRAIN": "fixtures/data/demo/text.txt",
    "ELMO_BILM_DEV": "fixtures/data/demo/heldout.txt",
    "ELMO_NER_TRAIN": "fixtures/data/ner/train.txt",
    "ELMO_NER_DEV": "fixtures/data/ner/dev.txt",
    "ELMO_SST_TRAIN": "fixtures/data/sst/train.txt",
    "ELMO_SST_DEV": "fixtures/data/sst/dev.txt",
    "ELMO_SNLI_TRAIN": "fixtures/data/snli/train.jsonl",
    "ELMO_SNLI_DEV": "fixtures/data/snli/dev.jsonl",
    "ELMO_SRL_TRAIN": "fixtures/data/srl/train",
    "ELMO_SRL_DEV": "fixtures/data/srl/dev.gold_conll",
    "ELMO_COREF_TRAIN": "fixtures/data/coref/train.v4_gold_conll",
    "ELMO_COREF_DEV": "fixtures/data/coref/dev.v4_gold_conll",
    "ELMO_SQUAD_TRAIN": "fixtures/data/squad/train.json",
    "ELMO_SQUAD_DEV": "fixtures/data/squad/dev.json",
    "ELMO_CUDA_DEVICE": "-1",
}
# What would take gigabytes or minutes is made small; everything else is built as it stands.
SMALLER = {"training_configs/bilm/paper_1b_word.jsonnet": {"model.bilm.cell_dim": 64, "model.bilm.projection_dim": 32}}


@pytest.fixture(scope="module")
def bilm_archive(tmp_path_factory):
    """The archive of a tiny language model that was never trained."""
    folder = tmp_path_factory.mktemp("archive")
    config = {
        "dataset_reader": {"type": "elmo::bilm"},
        "model": {
            "type": "elmo::bilm",
            "bilm": {"type": "random", "projection_dim": 8, "cell_dim": 16, "filters": [[1, 4], [2, 6]]},
            "softmax": {"type": "sampled", "num_samples": 8192},
        },
    }
    vocab = BiLmVocabulary.from_corpus(data_path=str(ROOT / "fixtures/data/demo/text.txt"))
    model = Model.from_params(Params(config).duplicate()["model"], vocab=vocab)
    torch.save(model.state_dict(), folder / "best.th")
    vocab.save_to_files(folder / "vocabulary")
    (folder / "config.json").write_text(json.dumps(config))
    return archive_model(folder)


@pytest.fixture(scope="module")
def cove_files(tmp_path_factory):
    """CoVe's weights at random, in the published layout, and the word vectors that it reads."""
    folder = tmp_path_factory.mktemp("cove")
    layers = [layer.state_dict() for layer in MtLstm().layers]
    state = {name.replace("_l0", f"_l{n}"): weight for n, layer in enumerate(layers) for name, weight in layer.items()}
    torch.save(state, folder / "cove.pth")
    (folder / "glove.txt").write_text(f"the {'0.5 ' * 300}\n")
    return {
        "ELMO_COVE_FILE": str(folder / "cove.pth"),
        "ELMO_WORD_VECTORS": str(folder / "glove.txt"),
        "ELMO_WORD_VECTORS_DIM": "300",
    }


@pytest.fixture
def build(bilm_archive, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    for name, value in DATA.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ELMO_FINETUNED_ARCHIVE", bilm_archive)
    words = BiLmVocabulary.from_corpus(data_path=DATA["ELMO_BILM_TRAIN"]).get_index_to_token_vocabulary("bilm_words")
    (tmp_path / "words.txt").write_text("".join(words[index] + "\n" for index in range(len(words))))
    monkeypatch.setenv("ELMO_BILM_VOCAB", str(tmp_path / "words.txt"))

    def build(config: str) -> TrainModel:
        if config in ("training_configs/bilm/continue.jsonnet", "training_configs/bilm/finetune.jsonnet"):
            monkeypatch.setenv("ELMO_BILM", bilm_archive)
        params = Params.from_file(config, json.dumps(SMALLER.get(config, {})))
        prepare_environment(params)  # takes the seeds, as the command does
        return TrainModel.from_params(params, serialization_dir=str(tmp_path / "run"), local_rank=0)

    return build


def placements(experiment: TrainModel):
    return {
        name
        for module in experiment.model.modules()
        if isinstance(module, ContextualEmbedder)
        for name in module.placements
    }


@pytest.mark.parametrize("config", BUILT)
def test_the_experiment_can_be_built(build, config):
    experiment = build(config)
    assert sum(parameter.numel() for parameter in experiment.model.parameters() if parameter.requires_grad) > 0
    params = Params.from_file(config).as_dict(quiet=True)
    if "text_embedder" in params["model"]:
        contextual = params["model"]["text_embedder"].get("contextual", {})
        assert placements(experiment) == set(contextual.get("placements", []))


def ablations(task):
    """The names that a task's ablation.jsonnet knows."""
    names = f"std.objectFields((import '{ROOT}/training_configs/lib/ablations.libsonnet').of('{task}'))"
    variables = {setting.name: setting.default for setting in SETTINGS.values()}
    return json.loads(_jsonnet.evaluate_snippet("names", names, ext_vars=variables))


@pytest.mark.parametrize("task, name", [(task, name) for task in TASKS for name in ablations(task)])
def test_the_ablation_can_be_built(build, monkeypatch, cove_files, task, name):
    monkeypatch.setenv("ELMO_ABLATION", name)
    for variable, value in cove_files.items() if name.startswith("cove") else ():
        monkeypatch.setenv(variable, value)
    experiment = build(f"training_configs/{task}/ablation.jsonnet")
    params = Params.from_file(f"training_configs/{task}/ablation.jsonnet").as_dict(quiet=True)
    assert placements(experiment) == set(params["model"]["text_embedder"]["contextual"]["placements"])


def test_knobs_are_set_from_outside(monkeypatch):
    monkeypatch.chdir(ROOT)
    for name, value in DATA.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ELMO_KNOBS", '{"batch_size": 7, "learning_rate": 0.5, "num_epochs": 3}')
    for config in ("ner/elmo", "snli/baseline", "bilm/small"):
        params = Params.from_file(f"training_configs/{config}.jsonnet").as_dict(quiet=True)
        loader = params["data_loader"]
        assert loader.get("batch_sampler", loader)["batch_size"] == 7
        assert params["trainer"]["optimizer"]["lr"] == 0.5 and params["trainer"]["num_epochs"] == 3


@pytest.mark.parametrize(
    "knobs, complaint", [('{"widht": 7}', "ELMO_KNOBS has 'widht'.*dropout"), ("7", "a JSON object")]
)
def test_a_wrong_knob_is_refused(monkeypatch, knobs, complaint):
    monkeypatch.chdir(ROOT)
    for name, value in DATA.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ELMO_KNOBS", knobs)
    with pytest.raises(RuntimeError, match=complaint):
        Params.from_file("training_configs/ner/elmo.jsonnet")


@pytest.mark.parametrize("task", TASKS)
def test_a_baseline_has_no_parameter_of_elmo(build, task):
    names = [name for name, _ in build(f"training_configs/{task}/baseline.jsonnet").model.named_parameters()]
    assert names and not any("scalar_parameters" in name or "bilm" in name for name in names)


@pytest.mark.parametrize("task", TASKS)
def test_a_bilm_can_be_tuned_on_a_tasks_text(build, monkeypatch, task):
    monkeypatch.setenv("ELMO_FINETUNE_TASK", task)
    experiment = build("training_configs/bilm/fit_softmax.jsonnet")
    assert isinstance(experiment.model.vocab, Vocabulary) and next(iter(experiment.trainer.data_loader))["mask"].any()


def test_coreference_takes_a_second_file_of_word_vectors(build, monkeypatch, tmp_path):
    config = "training_configs/coref/baseline.jsonnet"
    dim = build(config).model.text_embedder.words_dim
    (tmp_path / "turian.txt").write_text("the" + " 0.5" * 50 + "\n")
    monkeypatch.setenv("ELMO_TURIAN_VECTORS", str(tmp_path / "turian.txt"))
    assert build(config).model.text_embedder.words_dim == dim + 50


def test_every_config_says_how_to_run_it():
    for config in CONFIGS:
        header = (ROOT / config).read_text(encoding="utf-8").split("\nlocal ")[0].split("\n(import")[0]
        assert "allennlp train" in header, f"{config} doesn't open with the command that runs it"
        assert header.startswith("//"), f"{config} doesn't open with a comment"
