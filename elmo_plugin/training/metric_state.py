"""The sums behind a model's metrics, as plain data that a checkpoint can hold and any `Metric` can take back."""

from collections import defaultdict
from typing import Any, Dict, Iterator, Tuple

import numpy
import torch
from allennlp.data import Vocabulary
from allennlp.nn.util import move_to_device
from allennlp.training.metrics import Metric

_PLAIN = (type(None), bool, int, float, complex, str, bytes, numpy.generic)


def metric_state(model: torch.nn.Module) -> Dict[str, Any]:
    """What all metrics of a model have counted since they were last reset, by where they are in the model.

    Raises TypeError if a metric counts in something other than numbers, strings, tensors, arrays, collections of these
    and plain objects whose attributes are such.
    """
    return {name: as_data(metric) for name, metric in _metrics_of(model)}


def load_metric_state(model: torch.nn.Module, state: Dict[str, Any], device: torch.device) -> None:
    """Lets the metrics continue from `metric_state`; tensors that they don't have yet are put on `device`."""
    for name, metric in _metrics_of(model):
        if name in state:
            with_data(metric, move_to_device(state[name], device))


def _metrics_of(model: torch.nn.Module) -> Iterator[Tuple[str, Metric]]:
    for module_name, module in model.named_modules():
        for name, value in vars(module).items():
            yield from _metrics_in(value, f"{module_name}.{name}")


def _metrics_in(value: Any, name: str) -> Iterator[Tuple[str, Metric]]:
    if isinstance(value, Metric):
        yield name, value
    elif isinstance(value, (dict, list, tuple)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _metrics_in(each, f"{name}.{key}")


def as_data(value: Any) -> Any:
    """The value, or what it consists of. Tensors are copied to the CPU, since saving a part of a tensor saves all of
    it.
    """
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, numpy.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: as_data(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_data(each) for each in value]
    if callable(value) and not isinstance(value, Metric) or isinstance(value, (torch.nn.Module, Vocabulary)):
        return None  # what a metric computes with, not what it has counted
    if hasattr(value, "__dict__"):
        return as_data(vars(value))
    raise TypeError(f"a metric counts in a {type(value).__name__}, which no checkpoint can hold")


def with_data(value: Any, data: Any) -> Any:
    """The inverse of `as_data`, given a value of the same shape: containers and objects are filled in place."""
    if isinstance(value, torch.Tensor):
        return data.to(value.device)
    if isinstance(value, dict):
        get = value.__getitem__ if isinstance(value, defaultdict) else value.get
        items = {key: with_data(get(key), each) for key, each in data.items()}
        value.clear()
        value.update(items)
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(with_data, value, data))
    if isinstance(value, (list, tuple)) and len(value) == len(data):
        return type(value)(map(with_data, value, data))
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(data)
    if isinstance(data, dict) and hasattr(value, "__dict__"):
        for name, each in data.items():
            setattr(value, name, with_data(getattr(value, name, None), each))
        return value
    return value if data is None and value is not None else data
