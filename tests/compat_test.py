"""Each repair: what breaks without it (by calling what it replaced), and what holds with it."""

import inspect
import io
import logging
import os
import pickle
import sys
import tarfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, Dict

import cached_path
import numpy
import pytest
import torch
from allennlp.commands.predict import _PredictManager
from allennlp.common import Params, checks, params
from allennlp.common import util as common_util
from allennlp.common.checks import ConfigurationError
from allennlp.data import DataLoader, Vocabulary
from allennlp.data.dataset_readers import SequenceTaggingDatasetReader
from allennlp.models import Model, archival
from allennlp.modules.seq2vec_encoders import CnnEncoder, cnn_encoder
from allennlp.nn.initializers import PretrainedModelInitializer
from allennlp.nn.parallel import ddp_accelerator
from allennlp.nn.parallel.ddp_accelerator import DdpWrappedModel
from allennlp.nn.util import min_value_of_dtype, read_state_dict
from allennlp.predictors import Predictor
from allennlp.training import Checkpointer, GradientDescentTrainer, Trainer, gradient_descent_trainer
from allennlp.training.learning_rate_schedulers import LearningRateScheduler
from allennlp.training.learning_rate_schedulers.pytorch_lr_schedulers import ReduceOnPlateauLearningRateScheduler
from allennlp.training.moving_average import ExponentialMovingAverage, MovingAverage

from elmo_plugin import compat
from elmo_plugin.archives import ArchiveError

compat.apply()

NO_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="shows what happens where there is no GPU")

TAGGED_SENTENCES = """\
The###D cat###N sat###V
A###D dog###N ran###V
The###D dog###N sat###V there###R
A###D cat###N ran###V
"""

MODEL: Dict[str, Any] = {
    "type": "simple_tagger",
    "text_field_embedder": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}},
    "encoder": {"type": "lstm", "input_size": 4, "hidden_size": 4},
}


def tagger_trainer(folder: Path, sparse: bool = False, **trainer_settings) -> GradientDescentTrainer:
    """A trainer for a tiny tagger, always with the same initial weights; it recovers what it finds in `folder`."""
    data_path = folder.parent / "sentences.txt"
    data_path.write_text(TAGGED_SENTENCES)
    loader_params = {"batch_size": 2}
    loader = DataLoader.from_params(
        Params(loader_params), reader=SequenceTaggingDatasetReader(), data_path=str(data_path)
    )
    vocab = Vocabulary.from_instances(loader.iter_instances())
    vocab.save_to_files(str(folder / "vocabulary"))
    loader.index_with(vocab)
    torch.manual_seed(7)
    model_params = Params(MODEL).duplicate()
    if sparse:
        model_params["text_field_embedder"]["token_embedders"]["tokens"]["sparse"] = True
    settings = {
        "num_epochs": 4,
        "cuda_device": -1,
        "optimizer": {"type": "sgd", "lr": 0.5},
        "checkpointer": {"keep_most_recent_by_count": 10},
        **trainer_settings,
    }
    return Trainer.from_params(
        Params(settings),
        model=Model.from_params(model_params, vocab=vocab),
        serialization_dir=str(folder),
        data_loader=loader,
        validation_data_loader=loader,
    )


def weights_after_training(folder: Path, **trainer_settings) -> Dict[str, torch.Tensor]:
    trainer = tagger_trainer(folder, **trainer_settings)
    trainer.train()
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def forget_epochs_after(folder: Path, num_epochs: int) -> None:
    """Leaves the folder as a run leaves it that was killed after `num_epochs` epochs."""
    for path in folder.glob("*_state_e*_b0.th"):
        if int(path.name.split("_e")[1].split("_")[0]) > num_epochs:
            path.unlink()


def saved_and_loaded(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


@pytest.fixture
def no_safe_types():
    """torch's list of safe types, empty as it is without the repair."""
    safe = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    yield
    torch.serialization.add_safe_globals(safe)


# ---- The list of repairs ----


def test_every_repair_gives_its_reason_and_a_version():
    for repair in compat.REPAIRS:
        reason = inspect.getdoc(repair)
        assert any(word in reason for word in ("torch 2", "torch >=", "AllenNLP 2", "Python <")), repair.__name__


def test_applying_twice_changes_nothing():
    before = (
        GradientDescentTrainer.rescale_gradients.__globals__["clip_grad_norm_"],
        MovingAverage.load_state_dict,
        archival.extracted_archive,
        Model.load.__func__,
    )
    names = compat.apply()
    after = (
        GradientDescentTrainer.rescale_gradients.__globals__["clip_grad_norm_"],
        MovingAverage.load_state_dict,
        archival.extracted_archive,
        Model.load.__func__,
    )
    assert before == after
    assert compat.apply() == names


# ---- reduce_on_plateau ----


def plateau_scheduler(**settings) -> LearningRateScheduler:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    return LearningRateScheduler.from_params(Params({"type": "reduce_on_plateau", **settings}), optimizer=optimizer)


def test_reduce_on_plateau_fails_without_the_repair():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    original = ReduceOnPlateauLearningRateScheduler.__init__.__wrapped__
    with pytest.raises(TypeError, match="verbose"):
        original(object.__new__(ReduceOnPlateauLearningRateScheduler), optimizer)


def test_reduce_on_plateau_halves_the_rate_when_accuracy_does_not_rise():
    scheduler = plateau_scheduler(mode="max", factor=0.5, patience=0)
    rates = []
    for accuracy in (0.5, 0.6, 0.6, 0.7):
        scheduler.step(accuracy)
        rates.append(scheduler.lr_scheduler.optimizer.param_groups[0]["lr"])
    assert rates == [1.0, 1.0, 0.5, 0.5]


def test_reduce_on_plateau_takes_each_setting_it_took_before():
    settings = {"mode": "max", "factor": 0.3, "patience": 3, "threshold_mode": "abs", "threshold": 0.2, "cooldown": 4}
    scheduler = plateau_scheduler(**settings, min_lr=0.01, eps=1e-5).lr_scheduler
    assert {name: getattr(scheduler, name) for name in settings} == settings
    assert (scheduler.min_lrs, scheduler.eps) == ([0.01], 1e-5)


def test_reduce_on_plateau_refuses_an_unknown_setting():
    with pytest.raises(ConfigurationError, match="patiense"):
        plateau_scheduler(patiense=1)


@pytest.mark.parametrize("verbose", [True, False])
def test_verbose_reports_a_reduction(verbose, caplog):
    scheduler = plateau_scheduler(patience=0, factor=0.5, verbose=verbose)
    with caplog.at_level(logging.INFO, logger="elmo_plugin.compat"):
        scheduler.step(1.0)
        scheduler.step(2.0)
    assert ("from [1.0] to [0.5]" in caplog.text) == verbose


# ---- Resuming ----


SCHEDULERS = [
    {"type": "reduce_on_plateau", "mode": "min", "patience": 0, "factor": 0.5},
    {"type": "slanted_triangular", "cut_frac": 0.3},
    {"type": "noam", "model_size": 4, "warmup_steps": 3},
    {"type": "exponential", "gamma": 0.5},
    {"type": "step", "step_size": 2},
    {"type": "multi_step", "milestones": [1, 3]},
    {"type": "cosine", "t_initial": 3},
    {"type": "polynomial_decay", "warmup_steps": 2},
    {"type": "linear_with_warmup", "warmup_steps": 2},
    {"type": "constant_with_warmup", "num_warmup_steps": 2},
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: scheduler["type"])
def test_a_recovered_run_with_a_scheduler_ends_as_an_uninterrupted_one_and_never_warns(scheduler, tmp_path):
    if scheduler["type"] == "constant_with_warmup":
        pytest.importorskip("transformers", reason="AllenNLP takes this schedule from transformers")
    folder = tmp_path / "run"
    expected = weights_after_training(folder, learning_rate_scheduler=dict(scheduler))
    forget_epochs_after(folder, 2)
    recovered = weights_after_training(folder, learning_rate_scheduler=dict(scheduler))
    torch.testing.assert_close(recovered, expected, rtol=0, atol=0)


def test_a_run_with_a_cosine_scheduler_cannot_be_recovered_without_the_repair(tmp_path, no_safe_types):
    folder = tmp_path / "run"
    weights_after_training(folder, learning_rate_scheduler={"type": "cosine", "t_initial": 3})
    forget_epochs_after(folder, 2)
    with pytest.raises(pickle.UnpicklingError, match="numpy"):
        weights_after_training(folder, learning_rate_scheduler={"type": "cosine", "t_initial": 3})


NUMPY_VALUES = [
    *(numpy.dtype(name).type(1) for name in ("bool", "int8", "int64", "uint16", "float16", "float32", "float64")),
    numpy.arange(6, dtype=">f4").reshape(2, 3),
    numpy.random.RandomState(3).get_state()[1],
]


@pytest.mark.parametrize("value", NUMPY_VALUES, ids=lambda value: f"{type(value).__name__}-{value.dtype}")
def test_numpy_values_are_loaded_from_a_checkpoint(value):
    loaded = saved_and_loaded({"metric": value, "others": OrderedDict(best=value)})
    for each in (loaded["metric"], loaded["others"]["best"]):
        assert type(each) is type(value)
        assert numpy.array_equal(each, value)


def test_numpy_values_are_refused_without_the_repair(no_safe_types):
    with pytest.raises(pickle.UnpicklingError, match="numpy"):
        saved_and_loaded(numpy.float64(1))


def test_numpy_scalars_written_under_numpy_1_are_loaded():
    file = io.BytesIO()
    # torch's older format is one pickle, in which a module's name can be changed without harm to the rest.
    torch.save(numpy.float64(0.25), file, _use_new_zipfile_serialization=False)
    old = file.getvalue().replace(b"numpy._core.multiarray\n", b"numpy.core.multiarray\n")
    assert old != file.getvalue()
    assert torch.load(io.BytesIO(old)) == 0.25


def test_the_average_follows_the_model_after_loading():
    parameter = torch.nn.Parameter(torch.tensor([1.0]))
    average = ExponentialMovingAverage([("weight", parameter)], decay=0.5)
    state = saved_and_loaded(average.state_dict())
    average.load_state_dict(state)
    parameter.data.fill_(3.0)
    average.apply()
    average.assign_average_value()
    assert parameter.item() == 2.0
    average.restore()
    assert parameter.item() == 3.0


def test_the_average_stands_still_after_loading_without_the_repair():
    parameter = torch.nn.Parameter(torch.tensor([1.0]))
    average = ExponentialMovingAverage([("weight", parameter)], decay=0.5)
    MovingAverage.load_state_dict.__wrapped__(average, saved_and_loaded(average.state_dict()))
    parameter.data.fill_(3.0)
    average.apply()
    average.assign_average_value()
    assert parameter.item() == 3.0


def test_the_average_of_another_model_is_refused():
    ours = ExponentialMovingAverage([("ours", torch.nn.Parameter(torch.zeros(1)))])
    theirs = ExponentialMovingAverage([("theirs", torch.nn.Parameter(torch.zeros(1)))])
    with pytest.raises(
        ConfigurationError, match=r"only in the checkpoint: \['theirs'\], only in the model: \['ours'\]"
    ):
        ours.load_state_dict(theirs.state_dict())


def test_a_recovered_run_with_a_moving_average_ends_as_an_uninterrupted_one(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    settings = {"moving_average": {"type": "exponential", "decay": 0.6}}
    expected = weights_after_training(folder, **settings)
    forget_epochs_after(folder, 2)
    torch.testing.assert_close(weights_after_training(folder, **settings), expected, rtol=0, atol=0)

    forget_epochs_after(folder, 2)
    monkeypatch.setattr(MovingAverage, "load_state_dict", MovingAverage.load_state_dict.__wrapped__)
    unrepaired = weights_after_training(folder, **settings)
    assert any(not torch.equal(unrepaired[name], expected[name]) for name in expected)


# ---- Gradients ----


def embeddings_with_gradients(sparse: bool) -> torch.nn.ModuleDict:
    """An embedding whose rows are looked up repeatedly, and a dense layer beside it."""
    torch.manual_seed(3)
    module = torch.nn.ModuleDict(
        {
            "embedding": torch.nn.Embedding(6, 3, sparse=sparse),
            "linear": torch.nn.Linear(3, 2),
            "unused": torch.nn.Linear(1, 1),
        }
    )
    module["linear"](module["embedding"](torch.tensor([1, 4, 1, 1, 5]))).pow(2).sum().backward()
    return module


@pytest.mark.parametrize("max_norm", [0.5, 1000.0])
@pytest.mark.parametrize(
    "clip",
    [
        lambda module, max_norm: gradient_descent_trainer.clip_grad_norm_(module.parameters(), max_norm),
        lambda module, max_norm: DdpWrappedModel(module, local_rank=0, world_size=2).clip_grad_norm_(max_norm),
    ],
    ids=["trainer", "distributed"],
)
def test_sparse_gradients_are_clipped_as_dense_ones(clip, max_norm):
    sparse, dense = embeddings_with_gradients(sparse=True), embeddings_with_gradients(sparse=False)
    assert not sparse["embedding"].weight.grad.is_coalesced()
    expected_norm = torch.nn.utils.clip_grad_norm_(dense.parameters(), max_norm)
    torch.testing.assert_close(clip(sparse, max_norm), expected_norm)
    assert sparse["embedding"].weight.grad.is_sparse
    torch.testing.assert_close(sparse["embedding"].weight.grad.to_dense(), dense["embedding"].weight.grad)
    torch.testing.assert_close(sparse["linear"].weight.grad, dense["linear"].weight.grad)


def test_sparse_gradients_cannot_be_clipped_without_the_repair():
    with pytest.raises(NotImplementedError, match="Sparse"):
        torch.nn.utils.clip_grad_norm_(embeddings_with_gradients(sparse=True).parameters(), 1.0)


def test_dense_gradients_are_clipped_to_the_last_bit_as_by_torch():
    ours, theirs = embeddings_with_gradients(sparse=False), embeddings_with_gradients(sparse=False)
    norm = gradient_descent_trainer.clip_grad_norm_(ours.parameters(), 0.5)
    assert torch.equal(norm, torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5))
    assert torch.equal(ours["embedding"].weight.grad, theirs["embedding"].weight.grad)


def test_a_model_with_sparse_embeddings_trains_with_a_gradient_norm(tmp_path):
    settings = {"optimizer": {"type": "sgd", "lr": 0.5}, "grad_norm": 0.1}
    sparse = weights_after_training(tmp_path / "sparse", sparse=True, **settings)
    dense = weights_after_training(tmp_path / "dense", **settings)
    torch.testing.assert_close(sparse, dense)


# ---- Mixed precision ----


def test_torch_warns_of_the_names_that_allennlp_uses():
    with pytest.warns(FutureWarning, match="torch.cuda.amp.autocast"):
        torch.cuda.amp.autocast(False)


@pytest.mark.filterwarnings("error")
def test_the_trainer_s_autocast_is_silent_and_off_on_the_cpu():
    with gradient_descent_trainer.amp.autocast(False):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
        assert not torch.is_autocast_enabled("cuda")
    assert product.dtype == torch.float32


def test_the_trainer_s_autocast_means_what_torch_s_did():
    with pytest.warns(FutureWarning):
        old = torch.cuda.amp.autocast(False)
    new = gradient_descent_trainer.amp.autocast(False)
    for attribute in ("device", "fast_dtype", "_enabled", "_cache_enabled"):
        assert getattr(new, attribute) == getattr(old, attribute)


@pytest.mark.parametrize("module", [gradient_descent_trainer, ddp_accelerator])
def test_the_gradient_scaler_is_torch_s_undeprecated_one_for_cuda(module, recwarn):
    scaler = module.amp.GradScaler(enabled=False)
    assert type(scaler) is torch.amp.GradScaler
    assert scaler._device == "cuda"
    assert not [warning for warning in recwarn if issubclass(warning.category, FutureWarning)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_word_shorter_than_a_filter_adds_nothing_in_mixed_precision(dtype):
    encoder = CnnEncoder(embedding_dim=2, num_filters=3, ngram_filter_sizes=(2, 3))
    letters, mask = torch.ones(2, 4, 2), torch.tensor([[True, False, False, False], [True, True, True, True]])
    expected = encoder(letters, mask)
    with torch.autocast("cpu", dtype=dtype):
        vectors = encoder(letters, mask)
    assert not vectors[0].any()
    torch.testing.assert_close(vectors, expected, atol=0.02, rtol=0, check_dtype=False)


def test_a_word_shorter_than_a_filter_keeps_its_padding_without_the_repair(monkeypatch):
    monkeypatch.setattr(cnn_encoder, "min_value_of_dtype", min_value_of_dtype)
    encoder = CnnEncoder(embedding_dim=2, num_filters=3, ngram_filter_sizes=(2,))
    with torch.autocast("cpu", dtype=torch.float16):
        assert encoder(torch.ones(1, 2, 2), torch.tensor([[True, False]])).min() < -60000


# ---- Asking for a GPU ----


@pytest.mark.skipif(torch.version.cuda is not None, reason="a CUDA build of torch needs no repair of device numbers")
def test_asking_for_a_gpu_gives_torch_s_message_without_the_repair():
    with pytest.raises(RuntimeError, match="accelerator"):
        common_util.int_to_device.__wrapped__(0)


@NO_GPU
@pytest.mark.parametrize("device", [2, [-1, 2], torch.device("cuda", 2)])
def test_asking_for_a_missing_gpu_names_it_and_the_remedy(device):
    with pytest.raises(ConfigurationError, match=r"none is available.*asked for is .*2.*set cuda_device to -1"):
        checks.check_for_gpu(device)


@NO_GPU
def test_a_trainer_for_a_missing_gpu_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="asked for is 0"):
        tagger_trainer(tmp_path / "run", cuda_device=0)


@NO_GPU
def test_loading_a_model_onto_a_missing_gpu_is_refused_before_anything_is_built(tmp_path):
    with pytest.raises(ConfigurationError, match="asked for is 1"):
        Model.load(Params({}), str(tmp_path), cuda_device=1)


@pytest.mark.parametrize(
    "device, expected",
    [(-1, torch.device("cpu")), (3, torch.device("cuda:3")), (torch.device("cuda:1"), torch.device("cuda:1"))],
)
def test_device_numbers_are_cuda_s(device, expected):
    assert common_util.int_to_device(device) == expected


@pytest.mark.parametrize("device", [-1, None, [-1, -1], torch.device("cpu")])
def test_the_cpu_needs_no_gpu(device):
    checks.check_for_gpu(device)


# ---- Archives and what is in them ----


def tar_file(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            content = b"" if member.issym() else b"content"
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


ESCAPES_FROM_CACHE = {
    "neighbour": [tarfile.TarInfo("../pathtest-escaped")],
    "link through a link": [link("here", "."), link("out", "here/.."), tarfile.TarInfo("out/pathtest-escaped")],
}


@pytest.mark.parametrize("members", ESCAPES_FROM_CACHE.values(), ids=ESCAPES_FROM_CACHE)
def test_a_cached_archive_that_leaves_its_folder_is_refused(members, tmp_path):
    archive = tar_file(tmp_path / "shards.tar.gz", *members)
    with pytest.raises(tarfile.FilterError, match="outside"):
        cached_path.cached_path(archive, extract_archive=True, cache_dir=tmp_path / "cache")
    assert not list(tmp_path.rglob("*escaped"))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 itself refuses what leaves the folder")
@pytest.mark.filterwarnings("ignore:Python 3.14 will:DeprecationWarning")
@pytest.mark.parametrize("members", ESCAPES_FROM_CACHE.values(), ids=ESCAPES_FROM_CACHE)
def test_a_cached_archive_can_leave_its_folder_without_the_repair(members, tmp_path, monkeypatch):
    original = cached_path.check_tarfile.__wrapped__
    module = inspect.getmodule(cached_path.cached_path)
    monkeypatch.setattr(module, "check_tarfile", original)
    archive = tar_file(tmp_path / "shards.tar.gz", *members)
    cached_path.cached_path(archive, extract_archive=True, cache_dir=tmp_path / "cache")
    assert (tmp_path / "cache" / "pathtest-escaped").exists()


def test_a_sound_cached_archive_is_unpacked(tmp_path):
    archive = tar_file(tmp_path / "shards.tar.gz", tarfile.TarInfo("shard-1.txt"))
    folder = cached_path.cached_path(archive, extract_archive=True, cache_dir=tmp_path / "cache")
    assert Path(folder, "shard-1.txt").read_bytes() == b"content"


class TouchesAFile:
    """Unpickling it creates a file: the smallest piece of code that a weights file could carry."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.fixture
def harmful_weights(tmp_path) -> Path:
    path = tmp_path / "harmful.th"
    torch.save({"weight": TouchesAFile(tmp_path / "touched")}, path)
    torch.load(path, weights_only=False)["weight"].close()
    (tmp_path / "touched").unlink()  # so the file does carry code that runs; from here on nothing may run it
    return path


def load_archive_with_weights(weights: Path) -> None:
    folder = weights.parent / "run"
    tagger_trainer(folder)
    reader = {"type": "sequence_tagging"}
    Params({"dataset_reader": reader, "model": MODEL}).to_file(str(folder / "config.json"))
    archival.load_archive(archival.archive_model(folder, weights=str(weights)))


def recover_with_state(weights: Path) -> None:
    folder = weights.parent / "run"
    weights_after_training(folder)
    weights.rename(folder / "training_state_e4_b0.th")
    Checkpointer(folder).load_checkpoint()


@pytest.mark.parametrize(
    "load", [read_state_dict, PretrainedModelInitializer, load_archive_with_weights, recover_with_state]
)
def test_loading_weights_runs_no_code_from_the_file(load, harmful_weights, tmp_path):
    with pytest.raises((pickle.UnpicklingError, ArchiveError), match="io.open|could run code"):
        load(harmful_weights)
    assert not (tmp_path / "touched").exists()


# ---- Configs ----


UNDECODABLE = os.fsdecode(b"caf\xe9")


def test_an_undecodable_environment_variable_makes_configs_unreadable_without_the_repair(tmp_path, monkeypatch):
    monkeypatch.setattr(params, "_is_encodable", params._is_encodable.__wrapped__)
    monkeypatch.setenv("UNRELATED", UNDECODABLE)
    (tmp_path / "config.jsonnet").write_text("{}")
    with pytest.raises(UnicodeEncodeError):
        Params.from_file(tmp_path / "config.jsonnet")


def test_an_undecodable_environment_variable_is_left_out_and_others_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("UNRELATED", UNDECODABLE)
    monkeypatch.setenv("DECODABLE", "caf\u00e9")
    monkeypatch.setenv("EMPTY", "")
    (tmp_path / "config.jsonnet").write_text("{ values: [std.extVar('DECODABLE'), std.extVar('EMPTY')] }")
    assert Params.from_file(tmp_path / "config.jsonnet").as_dict() == {"values": ["caf\u00e9", ""]}
    assert "UNRELATED" not in params._environment_variables()


def test_a_misspelt_name_gets_a_suggestion_with_nltk_and_without():
    with pytest.raises(ConfigurationError, match="'elmo::nerr' is not a registered name.*did you mean 'elmo::ner'"):
        Model.by_name("elmo::nerr")


# ---- Predicting ----


class Shouter(Predictor):
    """Takes {"text": "..."}."""

    def __init__(self) -> None:
        self.cuda_device = -1

    def predict_json(self, inputs):
        if "text" not in inputs:
            raise ValueError(f"needs a text, got {inputs}")
        return {"text": inputs["text"].upper()}

    def predict_batch_json(self, inputs):
        return [self.predict_json(each) for each in inputs]


def predict(path: Path, content: str, batch_size: int = 1) -> None:
    path.write_text(content)
    _PredictManager(Shouter(), str(path), None, batch_size, True, False).run()


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"text": "a"}\n\n{"text": \n', r"in.jsonl:3: not JSON"),
        ('{"text": "a"}\n3\n', r"in.jsonl:2: expected a JSON object, got 3"),
        ('{"text": "a"}\n\n{"words": "b"}\n', r"in.jsonl:3: needs a text, got"),
        ("[" * 100_000, r"in.jsonl:1: not JSON"),
    ],
)
def test_the_line_that_is_not_what_the_predictor_takes_is_named(tmp_path, content, message):
    with pytest.raises(ConfigurationError, match=message):
        predict(tmp_path / "in.jsonl", content)


def test_of_a_batch_the_first_and_the_last_line_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match="in.jsonl:2-4: needs a text"):
        predict(tmp_path / "in.jsonl", '\n{"text": "a"}\n\n{"words": "b"}\n{"text": "c"}\n', batch_size=2)


def test_predictions_come_as_before(tmp_path, capsys):
    predict(tmp_path / "in.jsonl", '{"text": "a"}\n\n{"text": "b"}\n', 2)
    assert [line for line in capsys.readouterr().out.splitlines() if "prediction" in line] == [
        'prediction:  {"text": "A"}',
        'prediction:  {"text": "B"}',
    ]
