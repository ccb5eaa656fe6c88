"""What every task's experiment has to live up to, as one check for tests to call.

In a test:

    inputs = [{"sentence": "Ada met Bo."}, {"tokens": ["Bo", "left"]}]
    experiment = check_experiment("fixtures/ner/elmo.jsonnet", tmp_path, inputs)
    assert "f1" in experiment.metrics
"""

import json
import logging
import math
import os
import shutil
import sys
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Union
from unittest import mock

import torch
from allennlp.commands import main as run_allennlp
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.commands.train import train_model_from_file
from allennlp.common import Params
from allennlp.common.tqdm import logger as tqdm_logger
from allennlp.common.util import JsonDict
from allennlp.predictors import Predictor


class Experiment(NamedTuple):
    """What came out of a checked experiment."""

    archive_file: Path
    metrics: Dict[str, Any]  # of `allennlp evaluate` on the validation data
    predictions: List[JsonDict]  # one for each of the inputs


def check_experiment(
    config_file: Union[str, PathLike], tmp_path: Path, predict_inputs: Sequence[JsonDict], tolerance: float = 1e-4
) -> Experiment:
    """Trains `config_file`, evaluates and predicts with what comes out, and moves the archive elsewhere.

    Raises AssertionError unless
    - every parameter is finite after training (train);
    - the archive's metrics on the validation data are those that training reported for its best epoch (evaluate);
    - an input's prediction is the same alone, among all, in another order, and from `allennlp predict`;
    - the same predictions come from the archive in another folder, with another current one and the run's gone.

    Numbers may differ by `tolerance`, relative where they are above 1: batches of other shapes round differently.
    """
    assert len(predict_inputs) > 1, "predictions in a batch can't be compared with fewer than two inputs"
    run_path = tmp_path / "run"
    with logging_as_before():
        _train(config_file, run_path)
    metrics = _evaluate(run_path)
    predictions = _predict(run_path / "model.tar.gz", predict_inputs, tolerance)
    assert_same(predictions, _predict_by_command(run_path, predict_inputs), tolerance)

    moved = tmp_path / "elsewhere" / "moved.tar.gz"
    moved.parent.mkdir()
    shutil.move(run_path / "model.tar.gz", moved)
    shutil.rmtree(run_path)
    with _working_in(moved.parent):
        assert_same(predictions, _predict(moved, predict_inputs, tolerance), tolerance)
    return Experiment(moved, metrics, predictions)


def assert_same(expected: Any, actual: Any, tolerance: float = 1e-4, at: str = "") -> None:
    """Raises AssertionError, naming the place, unless two pieces of JSON are the same but for rounding."""
    place = at or "the whole"
    if isinstance(expected, dict) and isinstance(actual, dict):
        assert expected.keys() == actual.keys(), f"{place} has other keys: {sorted(expected)} and {sorted(actual)}"
        for key, value in expected.items():
            assert_same(value, actual[key], tolerance, f"{at}.{key}" if at else str(key))
    elif isinstance(expected, list) and isinstance(actual, list):
        assert len(expected) == len(actual), f"{place} has another length: {len(expected)} and {len(actual)}"
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            assert_same(left, right, tolerance, f"{at}[{index}]")
    elif isinstance(expected, float) and isinstance(actual, float):
        same = math.isclose(expected, actual, rel_tol=tolerance, abs_tol=tolerance)
        assert same or (math.isnan(expected) and math.isnan(actual)), f"{place} differs: {expected} and {actual}"
    else:
        assert expected == actual, f"{place} differs: {expected!r} and {actual!r}"


def _train(config_file: Union[str, PathLike], run_path: Path) -> None:
    model = train_model_from_file(str(config_file), str(run_path))
    assert model is not None, "check_experiment needs an experiment in one process"
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter).all(), f"after training, {name} isn't finite"


def _evaluate(run_path: Path) -> Dict[str, Any]:
    config = Params.from_file(run_path / "config.json")
    reported = json.loads((run_path / "metrics.json").read_text(encoding="utf-8"))
    metrics = evaluate_from_archive(run_path / "model.tar.gz", config["validation_data_path"])
    # Not the loss: it is a mean over batches, which may be put together in another way.
    for name in metrics.keys() - {"loss"}:
        assert_same(reported[f"best_validation_{name}"], metrics[name], at=f"the metric {name}")
    return metrics


def _predict(archive_file: Path, inputs: Sequence[JsonDict], tolerance: float) -> List[JsonDict]:
    predictor = Predictor.from_path(archive_file)
    alone = [predictor.predict_json(dict(input_)) for input_ in inputs]
    together = predictor.predict_batch_json([dict(input_) for input_ in inputs])
    reversed_ = predictor.predict_batch_json([dict(input_) for input_ in reversed(inputs)])[::-1]
    assert_same(alone, together, tolerance, "batch")
    assert_same(alone, reversed_, tolerance, "reversed batch")
    json.dumps(alone, allow_nan=False)  # what is predicted can be written down
    return alone


def _predict_by_command(run_path: Path, inputs: Sequence[JsonDict]) -> List[JsonDict]:
    input_file, output_file = run_path / "inputs.jsonl", run_path / "outputs.jsonl"
    input_file.write_text("".join(json.dumps(input_) + "\n" for input_ in inputs), encoding="utf-8")
    arguments = [str(run_path / "model.tar.gz"), str(input_file), "--output-file", str(output_file)]
    with mock.patch("sys.argv", ["allennlp", "predict", *arguments, "--batch-size", "2", "--silent"]):
        run_allennlp()
    return [json.loads(line) for line in output_file.read_text(encoding="utf-8").splitlines()]


@contextmanager
def logging_as_before() -> Iterator[None]:
    """Undoes what training does to the process: AllenNLP takes the root logger over and leaves the log file open."""
    root_logger = logging.getLogger()
    handlers, level, excepthook = root_logger.handlers[:], root_logger.level, sys.excepthook
    tqdm_handlers = tqdm_logger.handlers[:]
    try:
        yield
    finally:
        for handler in {*root_logger.handlers, *tqdm_logger.handlers} - {*handlers, *tqdm_handlers}:
            handler.close()
        root_logger.handlers[:], tqdm_logger.handlers[:] = handlers, tqdm_handlers
        root_logger.setLevel(level)
        sys.excepthook = excepthook


@contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
