import datetime
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Type

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Batch, DatasetReader, Instance, Vocabulary
from allennlp.models import Model
from allennlp.training.metrics import Metric

from elmo_plugin.text import ContextualEmbedder

INDEXERS = {"tokens": "single_id", "numbers": "single_id", "elmo": "elmo::characters"}
BILM = {"type": "random", "projection_dim": 3, "cell_dim": 5, "char_dim": 2, "filters": [[1, 3], [2, 3]]}


@ContextualEmbedder.register("test_numbers")
class Numbers(ContextualEmbedder):
    """Gives each token a tenth of its word's number, in every dimension, at the placements asked for."""

    indexers = ("numbers",)

    def __init__(self, dim: int, placements: List[str]) -> None:
        super().__init__()
        self.dim, self.placements = dim, tuple(placements)

    def get_output_dim(self) -> int:
        return self.dim

    def forward(self, text) -> Dict[str, torch.Tensor]:
        numbers = (text["numbers"]["tokens"] / 10).unsqueeze(-1).expand(-1, -1, self.dim)
        return {placement: numbers for placement in self.placements}


class SmallTask:
    """A few examples of a task, and small models of it, in evaluation mode.

    `model` is the config of such a model; the task's reader is registered by the same name. `arguments_of` takes an
    example apart into what the reader's `text_to_instance` takes.
    """

    def __init__(
        self,
        model: Dict[str, Any],
        examples: Sequence[Sequence],
        arguments_of: Callable[..., Sequence] = lambda *example: example,
    ) -> None:
        self._model = model
        self._examples = examples
        self._arguments_of = arguments_of

    def vocabulary(self, examples: Sequence[Sequence] = None) -> Vocabulary:
        return Vocabulary.from_instances(self._read(examples, ["tokens"]))

    def build(
        self, contextual: Dict[str, Any] = None, seed: int = 0, vocab: Vocabulary = None, **changes: Any
    ) -> Model:
        text_embedder = {**self._model["text_embedder"], **({"contextual": contextual} if contextual else {})}
        # A copy: FromParams empties what it is given.
        params = json.loads(json.dumps({**self._model, "text_embedder": text_embedder, **changes}))
        vocab = vocab or self.vocabulary()
        torch.manual_seed(seed)
        return Model.from_params(vocab=vocab, params=Params(params)).eval()

    @staticmethod
    def numbers(*placements: str, dim: int = 3) -> Dict[str, Any]:
        """The config of vectors that are the numbers of the words."""
        return {"type": "test_numbers", "dim": dim, "placements": list(placements)}

    @staticmethod
    def elmo(*placements: str, projection_dim: int = 3) -> Dict[str, Any]:
        """The config of a random biLM's vectors, of two directions of `projection_dim`."""
        bilm = {**BILM, "projection_dim": projection_dim}
        return {"type": "elmo", "bilm": bilm, "placements": list(placements), "dropout": 0.0}

    def instances(self, model: Model, examples: Sequence[Sequence] = None) -> List[Instance]:
        """The examples, by default all of them, with the indexers that a model asks for."""
        return self._read(examples, ["tokens", *model.text_embedder.contextual.indexers])

    def tensors(self, model: Model, examples: Sequence[Sequence] = None) -> Dict[str, Any]:
        """The same as a batch."""
        batch = Batch(self.instances(model, examples))
        batch.index_instances(model.vocab)
        return batch.as_tensor_dict()

    def learn(self, model: Model, learning_rate: float, num_updates: int) -> Dict[str, Any]:
        """Trains a model on the examples. Returns what it then gives for them, and leaves the metrics of that."""
        batch = self.tensors(model)
        optimizer = torch.optim.Adam(model.train().parameters(), lr=learning_rate)
        for _ in range(num_updates):
            optimizer.zero_grad()
            model(**batch)["loss"].backward()
            optimizer.step()
        model.eval().get_metrics(reset=True)
        return model(**batch)

    def _read(self, examples: Optional[Sequence[Sequence]], indexers: Sequence[str]) -> List[Instance]:
        token_indexers = {name: {"type": INDEXERS[name]} for name in indexers}
        reader = DatasetReader.from_params(Params({"type": self._model["type"], "token_indexers": token_indexers}))
        examples = self._examples if examples is None else examples
        instances = [reader.text_to_instance(*self._arguments_of(*example)) for example in examples]
        for instance in instances:
            reader.apply_token_indexers(instance)
        return instances


@pytest.fixture(scope="session")
def make_task() -> Type[SmallTask]:
    """`SmallTask` itself, for the `task` fixture of each model test."""
    return SmallTask


def _count_a_share(rank: int, metric: Metric, rows: Sequence[Sequence], folder: Path) -> None:
    store = torch.distributed.FileStore(str(folder / "store"), 2)
    store.set_timeout(datetime.timedelta(seconds=60))
    torch.distributed.init_process_group(
        "gloo", store=store, world_size=2, rank=rank, timeout=datetime.timedelta(seconds=60)
    )
    metric(*(each[rank::2] for each in rows))
    (folder / f"{rank}.json").write_text(json.dumps(metric.get_metric()))
    # Neither leaves while the other may still be talking to it.
    store.set(f"done by {rank}", "")
    store.wait(["done by 0", "done by 1"])
    torch.distributed.destroy_process_group()


@pytest.fixture
def count_in_two_processes(tmp_path) -> Callable[..., List[Dict[str, float]]]:
    """Shares out the rows that a metric is given among two processes. Returns what each then gets from it.

    AllenNLP's `run_distributed_test` meets at a fixed port, which two tests at a time can't both have.
    """

    def count(metric: Metric, *rows: Sequence) -> List[Dict[str, float]]:
        torch.multiprocessing.start_processes(
            _count_a_share, args=(metric, rows, tmp_path), nprocs=2, start_method="fork"
        )
        return [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]

    return count
