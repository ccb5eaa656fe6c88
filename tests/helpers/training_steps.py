"""A training step of each experiment in fixtures/, counted on a pretend GPU.

`budgets.json` says how many launches and waits a step may have, and where. tests/gpu_test.py holds steps against it;
`python tests/helpers/training_steps.py` writes it again, to be looked at before it is committed.
"""

import json
import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Dict

import numpy
import torch
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.nn.util import move_to_device
from pretend_gpu import GPU, PretendGpu

import elmo_plugin  # noqa: F401  (registers everything)

ROOT = Path(__file__).resolve().parents[2]
BUDGETS_FILE = Path(__file__).with_name("budgets.json")
# By name in BENCHMARKS.md. The configs' paths are from the repository's root, where they have to be read.
EXPERIMENTS = {
    "biLM": "fixtures/bilm_training/small.jsonnet",
    "AllenNLP's tagger": "training_configs/examples/simple_tagger_elmo.jsonnet",
    "SQuAD": "fixtures/squad/elmo.jsonnet",
    "SNLI": "fixtures/snli/elmo.jsonnet",
    "SRL": "fixtures/srl/elmo.jsonnet",
    "coreference": "fixtures/coref/elmo.jsonnet",
    "NER": "fixtures/ner/elmo.jsonnet",
    "SST-5": "fixtures/sst/elmo.jsonnet",
}
SEEDS = ("random_seed", "numpy_seed", "pytorch_seed")


def params_of(name: str, **overrides: Any) -> Params:
    """An experiment's config, with the biLM of the fixtures; the biLM's own with less text, in fewer steps."""
    if name == "biLM":
        fewer = {"train_data_path": "fixtures/data/demo/heldout.txt", "data_loader.batch_size": 64}
        overrides = {**fewer, **overrides}
    return Params.from_file(EXPERIMENTS[name], json.dumps(overrides), ext_vars={"ELMO_BILM": "fixtures/bilm"})


def build(name: str, **overrides: Any) -> TrainModel:
    """An experiment, ready to be trained; the same one each time."""
    params = params_of(name, **overrides)
    for seed in SEEDS:
        params.pop(seed, None)
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    folder = tempfile.mkdtemp()
    return TrainModel.from_params(params=params, serialization_dir=folder, local_rank=0, batch_weight_key="")


def count_step(gpu: PretendGpu, name: str) -> Dict[str, Any]:
    """The launches and waits of a step, by place: of the second, when the cache has the sentences."""
    trainer: Any = build(name, **{"trainer.cuda_device": 0}).trainer
    model, optimizer = trainer.model.train(), trainer.optimizer
    batch = move_to_device(next(iter(trainer.data_loader)), GPU)
    for _ in range(2):
        optimizer.zero_grad()
        with gpu.counted() as forward:
            loss = model(**batch)["loss"]
        with gpu.counted() as backward:
            loss.backward()
        for weight in model.parameters():
            if weight.grad is not None and weight.grad.is_sparse:
                weight.grad = weight.grad.to_dense()  # not every optimizer takes sparse ones
        with gpu.counted() as update:
            optimizer.step()
    by_file: Counter[str] = Counter()
    for place, number in forward.launches.items():
        by_file[place.partition(" ")[0]] += number
    return {
        "forward": dict(sorted(by_file.items())),
        "backward": backward.launches.total(),
        "update": update.launches.total(),
        "waits": dict(sorted((forward.waits + backward.waits + update.waits).items())),
    }


def main() -> None:
    with PretendGpu() as gpu:
        counts = {name: count_step(gpu, name) for name in EXPERIMENTS}
    BUDGETS_FILE.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
