"""Everything that takes a GPU, on a pretend one: the CPU's results, mixed precision, and what a step may cost."""

import inspect
import json
import sys
import textwrap
from pathlib import Path

import h5py
import numpy
import pytest
import spacy
import torch
from allennlp.commands import main
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.commands.train import train_model, train_model_from_file
from allennlp.models import load_archive
from allennlp.nn.util import move_to_device
from allennlp.predictors import Predictor
from contract import assert_same, logging_as_before
from pretend_gpu import GPU, PretendGpu
from training_steps import BUDGETS_FILE, EXPERIMENTS, build, count_step, params_of

from elmo_plugin import ElmoEmbedder
from elmo_plugin.bilm.bilm import BiLm, BiLmState
from elmo_plugin.integrations import ElmoVectorizer
from elmo_plugin.tasks.common import recurrent
from elmo_plugin.tasks.common.decoding import Transitions
from elmo_plugin.tasks.coref.modules import Spans

pytestmark = pytest.mark.skipif(
    torch.version.cuda is not None, reason="the pretend GPU takes a CPU build of torch: a CUDA build asks the driver"
)

BILM = "fixtures/bilm"
SENTENCES = [["the", "watch", "will", "turn"], ["A", "cat"], ["naïve", "!"]]
# What a run says of the machine and the clock.
UNLIKE = ("duration", "memory", "seconds", "per_second")
SLOW_TO_LEARN = 3e-3  # Adam makes steps of the same length of a gradient that is only rounding


@pytest.fixture(autouse=True)
def at_the_root(root, monkeypatch):
    monkeypatch.chdir(root)


def train(name, folder: Path, recover: bool = False, **overrides):
    """Trains an experiment and gives its metrics."""
    with logging_as_before():
        train_model(params_of(name, **{"trainer.num_epochs": 1, **overrides}), str(folder), recover=recover)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return {key: value for key, value in metrics.items() if not any(part in key for part in UNLIKE)}


def use(archive_file, cuda_device):
    """What `evaluate` and `predict` make of the validation data with an archive."""
    archive = load_archive(archive_file, cuda_device=cuda_device)
    data = archive.config["validation_data_path"]
    metrics = evaluate_from_archive(archive_file, data, cuda_device=cuda_device)
    name = "elmo::sentence_tagger" if archive.config["model"]["type"] == "simple_tagger" else None
    predictor = Predictor.from_archive(archive, name)
    instances = [instance for instance, _ in zip(predictor._dataset_reader.read(data), range(2), strict=False)]
    predictions = predictor.predict_batch_instance(instances)
    return json.loads(json.dumps({"metrics": metrics, "predictions": predictions}))


def command(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["allennlp", *map(str, arguments)])
    main()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_model_is_trained_evaluated_and_predicted_from_as_on_the_cpu(name, tmp_path):
    on_cpu = train(name, tmp_path / "cpu", **{"trainer.cuda_device": -1})
    used_on_cpu = use(tmp_path / "cpu" / "model.tar.gz", -1)
    with PretendGpu():
        on_gpu = train(name, tmp_path / "gpu", **{"trainer.cuda_device": 0})
        used_on_gpu = use(tmp_path / "cpu" / "model.tar.gz", 0)
    assert_same(on_cpu, on_gpu, SLOW_TO_LEARN)
    assert_same(used_on_cpu, used_on_gpu, 1e-4)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_step_launches_and_waits_no_more_than_it_may(name, gpu):
    counts, budget = count_step(gpu, name), json.loads(BUDGETS_FILE.read_text(encoding="utf-8"))[name]
    grown = []
    for kind in ("forward", "waits"):
        for place, number in counts[kind].items():
            if number > budget[kind].get(place, 0):
                grown.append(f"{kind}, {place}: {number} instead of {budget[kind].get(place, 0)}")
    grown += [
        f"{kind}: {counts[kind]} instead of {budget[kind]}"
        for kind in ("backward", "update")
        if counts[kind] > budget[kind]
    ]
    assert not grown, f"a step of {name} costs more on a GPU; if it has to, run tests/helpers/training_steps.py"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_step_in_mixed_precision_is_nearly_the_same(name, gpu):
    model = build(name, **{"trainer.cuda_device": 0}).trainer.model.train()
    batch = move_to_device(next(iter(build(name).trainer.data_loader)), GPU)
    losses = []
    for is_mixed in (False, True):
        model.zero_grad()
        torch.manual_seed(1)
        with torch.autocast("cuda", enabled=is_mixed):
            losses.append(model(**batch)["loss"])
    losses[1].backward()
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=0.01)
    for parameter_name, parameter in model.named_parameters():
        if parameter.grad is not None:
            assert parameter.grad.to_dense().isfinite().all(), parameter_name


@pytest.mark.parametrize("name", ["NER", "biLM"])
def test_use_amp_trains_as_without(name, tmp_path):
    on_cpu = train(name, tmp_path / "cpu")
    with PretendGpu():
        mixed = train(name, tmp_path / "mixed", **{"trainer.cuda_device": 0, "trainer.use_amp": True})
    assert mixed["training_loss"] == pytest.approx(on_cpu["training_loss"], rel=0.02)


@pytest.mark.parametrize("name", ["NER", "biLM"])
def test_a_run_goes_on_as_on_the_cpu(name, tmp_path):
    overrides = {} if name == "biLM" else {"trainer.type": "elmo::resumable"}
    on_cpu = train(name, tmp_path / "cpu", **overrides, **{"trainer.num_epochs": 2})
    with PretendGpu():
        overrides["trainer.cuda_device"] = 0
        train(name, tmp_path / "gpu", **overrides)
        overrides["trainer.num_epochs"] = 2
        params_of(name, **overrides).to_file(str(tmp_path / "gpu" / "config.json"))  # as if it had been interrupted
        on_gpu = train(name, tmp_path / "gpu", recover=True, **overrides)
    assert_same(on_cpu, on_gpu, SLOW_TO_LEARN)


def test_an_ensemble_decides_as_on_the_cpu(tmp_path):
    train("SNLI", tmp_path / "member")
    member = str(tmp_path / "member" / "model.tar.gz")
    config = {
        "dataset_reader": params_of("SNLI").as_dict()["dataset_reader"],
        "vocabulary": {"type": "from_files", "directory": member},
        "model": {"type": "elmo::ensemble", "archives": [member, member]},
        "trainer": {"type": "no_op"},
        "train_data_path": "nothing is read",
        "validation_data_path": params_of("SNLI")["validation_data_path"],
        "data_loader": {"batch_size": 1, "max_instances_in_memory": 1},
    }
    (tmp_path / "ensemble.json").write_text(json.dumps(config), encoding="utf-8")
    with logging_as_before():
        train_model_from_file(str(tmp_path / "ensemble.json"), str(tmp_path / "ensemble"))
    on_cpu = use(tmp_path / "ensemble" / "model.tar.gz", -1)
    with PretendGpu():
        on_gpu = use(tmp_path / "ensemble" / "model.tar.gz", 0)
    assert_same(on_cpu, on_gpu)


@pytest.mark.parametrize("stateful", [False, True])
def test_an_embedder_gives_the_cpu_s_vectors(stateful):
    on_cpu = ElmoEmbedder(BILM, stateful=stateful)
    expected = [on_cpu.embed_batch(SENTENCES) for _ in range(2)]
    with PretendGpu():
        on_gpu = ElmoEmbedder(BILM, cuda_device=0, stateful=stateful)
        found = [on_gpu.embed_batch(SENTENCES) for _ in range(2)]
    for batch, expected_batch in zip(found, expected, strict=True):
        for vectors, expected_vectors in zip(batch, expected_batch, strict=True):
            numpy.testing.assert_allclose(vectors, expected_vectors, atol=1e-5)


def test_the_elmo_command_writes_the_cpu_s_vectors(tmp_path, monkeypatch):
    (tmp_path / "in.txt").write_text("".join(" ".join(words) + "\n" for words in SENTENCES), encoding="utf-8")
    files = {-1: tmp_path / "cpu.hdf5", 0: tmp_path / "gpu.hdf5"}
    arguments = ["elmo", tmp_path / "in.txt"]
    command(monkeypatch, *arguments, files[-1], "--all", "--bilm", BILM)
    with PretendGpu():
        command(monkeypatch, *arguments, files[0], "--all", "--bilm", BILM, "--cuda-device", 0)
    with h5py.File(files[-1]) as on_cpu, h5py.File(files[0]) as on_gpu:
        assert on_cpu.keys() == on_gpu.keys()
        for key in on_cpu:
            if on_cpu[key].dtype.kind == "f":
                numpy.testing.assert_allclose(on_gpu[key], on_cpu[key], atol=1e-5)


def test_the_elmo_tokens_command_writes_the_cpu_s_vectors(tmp_path, monkeypatch):
    (tmp_path / "words").write_text("the\ncat\nnaïve\n", encoding="utf-8")
    command(monkeypatch, "elmo-tokens", tmp_path / "words", tmp_path / "cpu.hdf5", "--bilm", BILM)
    with PretendGpu():
        command(
            monkeypatch, "elmo-tokens", tmp_path / "words", tmp_path / "gpu.hdf5", "--bilm", BILM, "--cuda-device", 0
        )
    with h5py.File(tmp_path / "cpu.hdf5") as on_cpu, h5py.File(tmp_path / "gpu.hdf5") as on_gpu:
        numpy.testing.assert_allclose(on_gpu["embedding"], on_cpu["embedding"], atol=1e-5)


def test_an_analysis_finds_what_it_finds_on_the_cpu(tmp_path, monkeypatch):
    data = ["--train", "fixtures/data/pos/train.conllu", "--test", "fixtures/data/pos/dev.conllu", "--epochs", "3"]
    arguments = ["elmo-analyze", "pos", *data, "--bilm", BILM, "--no-plot", "--output"]
    command(monkeypatch, *arguments, tmp_path / "cpu")
    with PretendGpu():
        command(monkeypatch, *arguments, tmp_path / "gpu", "--cuda-device", 0)
    reports = [json.loads((tmp_path / device / "pos.json").read_text()) for device in ("cpu", "gpu")]
    assert_same(*reports, 1e-3)


def test_integrations_give_the_cpu_s_vectors():
    texts = ["A fine film.", "A dull film. It was bad."]
    found = {}
    for cuda_device in (-1, 0):
        with PretendGpu():
            nlp = spacy.blank("en")
            nlp.add_pipe("elmo", config={"bilm": BILM, "cuda_device": cuda_device})
            vectors = ElmoVectorizer(BILM, cuda_device=cuda_device).fit_transform(texts)
            found[cuda_device] = vectors, nlp(texts[1])._.elmo
    for on_cpu, on_gpu in zip(found[-1], found[0], strict=True):
        numpy.testing.assert_allclose(on_gpu, on_cpu, atol=1e-5)


def embed_on_gpu():
    ElmoEmbedder(BILM, cuda_device=0).embed_batch(SENTENCES)


def embed_twice_on_gpu():
    embedder = ElmoEmbedder(BILM, stateful=True)
    embedder.embed_batch(SENTENCES)
    embedder.bilm.cuda()
    embedder.cuda_device = 0
    embedder.embed_batch(SENTENCES)


def step_on_gpu(name):
    trainer = build(name, **{"trainer.cuda_device": 0}).trainer
    batch = move_to_device(next(iter(trainer.data_loader)), GPU)
    trainer.model.train()(**batch)
    trainer.model.eval()(**batch)


MISTAKES = {
    "steps made on the host": (
        BiLm,
        "_contextualise",
        "torch.arange(num_steps, device=tokens.device)",
        "torch.arange(num_steps)",
        embed_on_gpu,
    ),
    "carried states left on the host": (BiLmState, "to", "tensor.to(device)", "tensor", embed_twice_on_gpu),
    "lengths left on the GPU": (
        recurrent.LongestFirst,
        "of",
        "mask.sum(dim=1).cpu()",
        "mask.sum(dim=1)",
        lambda: step_on_gpu("NER"),
    ),
    "constraints left on the host": (Transitions, "to", "scores.to(emissions)", "scores", lambda: step_on_gpu("SRL")),
    "spans left on the host": (Spans, "to", ".to(device, non_blocking=True)", "", lambda: step_on_gpu("coreference")),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_device_is_caught(mistake, monkeypatch, gpu):
    owner, function_name, right, wrong, use_it = MISTAKES[mistake]
    use_it()
    function = inspect.getattr_static(owner, function_name)
    source = textwrap.dedent(inspect.getsource(getattr(function, "__func__", function)))
    assert right in source
    namespace = {}
    module = sys.modules[owner.__module__]
    exec(source.replace(right, wrong), vars(module).copy() | {"__name__": module.__name__}, namespace)
    monkeypatch.setattr(owner, function_name, namespace[function_name])
    with pytest.raises((RuntimeError, TypeError)):
        use_it()
