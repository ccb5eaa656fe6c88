"""The repairs that AllenNLP 2.10.1, the last release, needs on today's torch and Python.

Each repair is one function, whose docstring says what breaks and since when. What it puts in its place is right with
every torch and Python that the plugin supports, also where nothing is broken. The function that a repair replaces stays
reachable as `__wrapped__` of its replacement. `elmo_plugin.plugin` calls `apply()`, so that every command and every
spawned worker that loads the plugin has the repairs.
"""

import difflib
import functools
import inspect
import logging
import os
import sys
import tarfile
from collections import deque
from types import SimpleNamespace
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Union

import cached_path
import numpy
import torch
from allennlp.commands import predict
from allennlp.common import Registrable, cached_transformers, checks, file_utils, params, registrable
from allennlp.common import util as common_util
from allennlp.common.checks import ConfigurationError
from allennlp.models import archival
from allennlp.models.model import Model
from allennlp.modules.seq2vec_encoders import cnn_encoder
from allennlp.nn import initializers
from allennlp.nn.parallel import ddp_accelerator
from allennlp.predictors import Predictor
from allennlp.training import gradient_descent_trainer
from allennlp.training.learning_rate_schedulers import pytorch_lr_schedulers
from allennlp.training.moving_average import MovingAverage

from elmo_plugin import archives, settings
from elmo_plugin.files import numbered_lines

logger = logging.getLogger(__name__)


REPAIRS: List[Callable[[], None]] = []
_APPLIED: List[str] = []


def apply() -> List[str]:
    """Makes the repairs, each once per process. Returns their names."""
    for repair in REPAIRS:
        if repair.__name__ not in _APPLIED:
            repair()
            _APPLIED.append(repair.__name__)
    return list(_APPLIED)


def _repair(make: Callable[[], None]) -> Callable[[], None]:
    """Adds a function to the list of repairs."""
    REPAIRS.append(make)
    return make


def _instead_of(original: Callable, package: str = "allennlp") -> Callable[[Callable], Callable]:
    """Puts a function in place of `original` in each module of `package` that imported it by name."""

    def replace(replacement: Callable) -> Callable:
        functools.update_wrapper(replacement, original)
        for module_name, module in list(sys.modules.items()):
            if module is not None and module_name.partition(".")[0] == package:
                for name, value in list(vars(module).items()):
                    if value is original:
                        setattr(module, name, replacement)
        return replacement

    return replace


# ---- Learning rate schedulers ----


class _ReportingReduceLROnPlateau(torch.optim.lr_scheduler.ReduceLROnPlateau):
    """torch's scheduler, with the `verbose` it once had: each reduction is logged."""

    def __init__(self, *args, verbose: bool = False, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.verbose = verbose

    def step(self, metrics, epoch=None) -> None:  # type: ignore[override]
        old_rates = [group["lr"] for group in self.optimizer.param_groups]
        super().step(metrics, epoch)
        new_rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.verbose and new_rates != old_rates:
            logger.info("reduce_on_plateau: learning rates reduced from %s to %s", old_rates, new_rates)


@_repair
def reduce_on_plateau() -> None:
    """The scheduler `reduce_on_plateau` passes `verbose`, which torch's ReduceLROnPlateau no longer takes (seen on
    torch 2.13). No other scheduler of AllenNLP passes it.
    """
    scheduler_class = pytorch_lr_schedulers.ReduceOnPlateauLearningRateScheduler
    original = scheduler_class.__init__

    @functools.wraps(original)
    def __init__(self, *args, **kwargs) -> None:
        arguments = inspect.signature(original).bind(self, *args, **kwargs)
        arguments.apply_defaults()
        _, *names = arguments.arguments  # everything but self goes to torch's scheduler, under the same names
        lr_scheduler = _ReportingReduceLROnPlateau(**{name: arguments.arguments[name] for name in names})
        super(scheduler_class, self).__init__(lr_scheduler)

    scheduler_class.__init__ = __init__  # type: ignore[method-assign]


# ---- Resuming ----


@_repair
def numpy_in_checkpoints() -> None:
    """A training state often holds numpy numbers: learning rates (the `cosine` scheduler computes with numpy) and the
    best epoch's metrics. torch.load refuses them since `weights_only=True` became its default (torch 2.6), and a run
    can't be recovered. Numbers and arrays are put on torch's list of safe types, as data; loading with
    `weights_only=False` instead would run whatever code the file holds.
    """
    scalar: Any = numpy.float64(0).__reduce__()[0]
    reconstruct: Any = numpy.zeros(0).__reduce__()[0]
    number_types = "?bBhHiIlLqQefdgFDG"  # bool, integers, floats and complex numbers, in numpy's letters; no objects
    torch.serialization.add_safe_globals(
        [
            numpy.dtype,
            numpy.ndarray,
            *{type(numpy.dtype(letter)) for letter in number_types},
            # numpy 1 and numpy 2 write the same two functions under different names.
            *((scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
            *((reconstruct, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
        ]
    )


@_repair
def moving_average_after_recover() -> None:
    """`MovingAverage.load_state_dict` takes the parameters from the checkpoint instead of the model's: after
    `--recover` the average no longer changes and "averaged" evaluation uses the raw weights (AllenNLP 2.10.1, any
    torch). Now only the averages are loaded, into the existing tensors, so that they keep their device.
    """
    original = MovingAverage.load_state_dict

    @functools.wraps(original)
    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        for kind, own in (("shadows", self._shadows), ("backups", self._backups)):
            saved = state_dict[kind]
            if saved.keys() != own.keys():
                raise ConfigurationError(
                    "The moving average in the checkpoint doesn't belong to this model: "
                    f"parameters only in the checkpoint: {sorted(saved.keys() - own.keys())}, only in the model: "
                    f"{sorted(own.keys() - saved.keys())}. Recover with the config that the run was started with."
                )
            for name, value in saved.items():
                own[name].copy_(value)

    MovingAverage.load_state_dict = load_state_dict  # type: ignore[method-assign]


# ---- Gradients and mixed precision ----


@_repair
def sparse_gradient_clipping() -> None:
    """torch's `clip_grad_norm_` has no norm for sparse gradients (seen on torch 2.13), so `grad_norm` fails with
    `sparse: true` embeddings. A sparse gradient's norm is that of its values, once the entries of
    repeated rows are summed.
    """
    original = torch.nn.utils.clip_grad_norm_

    @_instead_of(original)
    def clip_grad_norm_(parameters: Union[torch.Tensor, Iterable[torch.Tensor]], *args, **kwargs) -> torch.Tensor:
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if not any(parameter.grad is not None and parameter.grad.is_sparse for parameter in parameters):
            return original(parameters, *args, **kwargs)
        # torch only looks at the gradients, so anything that has one will do.
        stand_ins: List[Any] = [SimpleNamespace(grad=_dense_values(parameter)) for parameter in parameters]
        return original(stand_ins, *args, **kwargs)


def _dense_values(parameter: torch.Tensor) -> Optional[torch.Tensor]:
    """The gradient of a parameter, or the values of a sparse one: a dense tensor in the gradient's own memory, so that
    scaling it scales the gradient. The summed gradient is kept, which saves the optimizer from summing it again.
    """
    if parameter.grad is None or not parameter.grad.is_sparse:
        return parameter.grad
    parameter.grad = parameter.grad.coalesce()
    return parameter.grad._values()


@_repair
def mixed_precision_names() -> None:
    """`torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler` warn that they're deprecated (torch >= 2.4); the
    trainer calls the first for each batch, also on the CPU. Their successors in `torch.amp` take the device. That is
    always "cuda", as the trainer refuses `use_amp` on the CPU, where it only enters a disabled autocast.
    """

    def autocast(enabled: bool = True) -> torch.amp.autocast:
        return torch.amp.autocast("cuda", dtype=torch.float16, enabled=enabled)

    amp = SimpleNamespace(autocast=autocast, GradScaler=functools.partial(torch.amp.GradScaler, "cuda"))
    for module in (gradient_descent_trainer, ddp_accelerator):
        module.amp = amp  # type: ignore[attr-defined]


@_repair
def cnn_in_half_precision() -> None:
    """`CnnEncoder` adds the lowest number of its activations' precision at padding, and sets to 0 what is then equal to
    the lowest of the pooled values' precision. The sum is in single precision, so that in mixed precision the two are
    different numbers and words shorter than a filter keep -65504 (AllenNLP 2.10.1, any torch). Now both use the same
    number.
    """
    lowest = torch.finfo(torch.float32).min
    cnn_encoder.min_value_of_dtype = lambda dtype: lowest


# ---- Asking for a GPU ----


@_repair
def device_numbers() -> None:
    """`torch.device(0)` means "accelerator 0" and raises where there is none (seen on torch 2.13), before AllenNLP's
    `check_for_gpu` can say what is wrong. AllenNLP's device numbers are those of CUDA.
    """

    @_instead_of(common_util.int_to_device)
    def int_to_device(device: Union[int, torch.device]) -> torch.device:
        if isinstance(device, torch.device):
            return device
        return torch.device("cpu") if device < 0 else torch.device("cuda", device)


@_repair
def missing_gpu_message() -> None:
    """Asking for a GPU that doesn't exist: AllenNLP's message doesn't name the device and only mentions the trainer's
    setting, and `evaluate` loads the model before it checks, so that the message is torch's (AllenNLP 2.10.1, any
    torch).
    """
    original_check: Callable[[Any], None] = checks.check_for_gpu
    original_load = inspect.getattr_static(Model, "load").__func__

    @_instead_of(original_check)
    def check_for_gpu(device: Union[int, torch.device, List[Union[int, torch.device]], None]) -> None:
        for one_device in device if isinstance(device, list) else [device]:
            try:
                original_check(one_device)
            except ConfigurationError as error:
                raise ConfigurationError(
                    f"{error} The device asked for is {one_device}. To run on the CPU, set cuda_device to -1: in the "
                    "config's 'trainer', or with --cuda-device -1 for 'evaluate' and 'predict'."
                ) from error

    @functools.wraps(original_load)
    def load(cls, config, serialization_dir, weights_file=None, cuda_device: int = -1) -> Model:
        check_for_gpu(cuda_device)
        return original_load(cls, config, serialization_dir, weights_file, cuda_device)

    Model.load = classmethod(load)  # type: ignore[method-assign, assignment]


# ---- Archives ----


@_repair
def archives_from_strangers() -> None:
    """AllenNLP 2.10.1 trusts a model archive with the whole machine. `elmo_plugin.archives` says what is checked."""
    _instead_of(archival.extracted_archive)(archives.extracted_archive)
    _instead_of(archival.load_archive)(archives.opening_by_name(archival.load_archive))
    archival._load_dataset_readers = archives.guarding(archival._load_dataset_readers)
    archival._load_model = archives.guarding(archival._load_model)
    resolve = Registrable.resolve_class_name.__func__  # type: ignore[attr-defined]
    fetch = cached_path.cached_path

    @functools.wraps(resolve)
    def resolve_class_name(cls, name: str):
        archives.check_class_name(name, name in Registrable._registry[cls])
        return resolve(cls, name)

    def fetch_if_allowed(url_or_filename, *args, **kwargs):
        archives.check_reachable(url_or_filename)
        return fetch(url_or_filename, *args, **kwargs)

    for check, function in (
        (archives.check_reachable, cached_transformers.get),
        (archives.check_reachable, cached_transformers.get_tokenizer),
        (archives.check_spacy_model, common_util.get_spacy_model),
    ):
        _instead_of(function)(_checking_first(check, function))
    pretrained = initializers.PretrainedModelInitializer
    pretrained.__init__ = _checking_first(  # type: ignore[method-assign]
        lambda initializer, path: archives.check_reachable(path), pretrained.__init__
    )
    Registrable.resolve_class_name = classmethod(resolve_class_name)  # type: ignore[method-assign, assignment]
    # AllenNLP reaches the library through this name; the library itself stays as it is.
    file_utils._cached_path = SimpleNamespace(**{**vars(cached_path), "cached_path": fetch_if_allowed})


def _checking_first(check: Callable, function: Callable) -> Callable:
    """The function, after a check of its first arguments, which may be given by name."""
    num_checked = len(inspect.signature(check).parameters)

    @functools.wraps(function)
    def checked(*args, **kwargs):
        bound = inspect.signature(function).bind(*args, **kwargs)
        check(*list(bound.arguments.values())[:num_checked])
        return function(*args, **kwargs)

    return checked


@_repair
def cached_archive_extraction() -> None:
    """`cached_path(..., extract_archive=True)`, which AllenNLP calls for sharded data and for `archive!file` names,
    compares names before it unpacks and misses two ways out: a neighbour folder `../pathtest...`, and a link that leads
    through another link (cached-path 1.8, Python < 3.14). The filter looks at where a member really goes.
    """
    original = cached_path.check_tarfile

    @_instead_of(original, package="cached_path")
    def check_tarfile(tar_file: tarfile.TarFile) -> None:
        original(tar_file)
        tar_file.extraction_filter = tarfile.data_filter  # read by the extractall() that follows


# ---- Predicting ----


@_repair
def places_in_predictors_input() -> None:
    """`allennlp predict` doesn't say which line of its input isn't JSON, or isn't what the predictor takes, in
    AllenNLP 2.10.1.
    """
    manager = predict._PredictManager
    read, answer = manager._get_json_data, manager._predict_json

    @functools.wraps(read)
    def _get_json_data(self):
        self.line_numbers = deque(maxlen=self._batch_size)
        lines = enumerate(sys.stdin, start=1) if self._input_file == "-" else numbered_lines(self._input_file)
        for number, line in lines:
            if not line.isspace():
                self.line_numbers.append(number)
                yield _json_of_line(self._predictor, line, f"{self._input_file}:{number}")

    @functools.wraps(answer)
    def _predict_json(self, batch_data):
        try:
            yield from answer(self, batch_data)
        except (ValueError, ConfigurationError) as error:
            first, last = self.line_numbers[-len(batch_data)], self.line_numbers[-1]
            place = f"{self._input_file}:{first}" + (f"-{last}" if last > first else "")
            raise ConfigurationError(f"{place}: {error}") from error

    manager._get_json_data, manager._predict_json = _get_json_data, _predict_json  # type: ignore[method-assign]


def _json_of_line(predictor: Predictor, line: str, place: str) -> Dict[str, Any]:
    try:
        content = predictor.load_line(line)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{place}: not JSON ({error})") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"{place}: expected a JSON object, got {line.strip()[:100]}")
    return content


# ---- Plugins ----


@_repair
def included_packages() -> None:
    """`--include-package elmo_plugin` imports every module (AllenNLP 2.10.1), including the page's, which needs an
    extra that may not be installed.
    """
    original = common_util.import_module_and_submodules

    @_instead_of(original)
    def import_module_and_submodules(package_name: str, exclude: Optional[Set[str]] = None) -> None:
        original(package_name, {"elmo_plugin.demo_page", *(exclude or ())})


# ---- Configs ----


@_repair
def undecodable_environment() -> None:
    """One environment variable whose value isn't valid UTF-8 makes every config unreadable: AllenNLP leaves such a
    variable out only if nothing of its value can be encoded (AllenNLP 2.10.1, any torch).
    """

    @_instead_of(params._is_encodable)
    def _is_encodable(value: str) -> bool:
        return value.encode("utf-8", "ignore").decode("utf-8") == value


@_repair
def defaults_of_variables() -> None:
    """AllenNLP 2.10.1 hands the environment to jsonnet, where a variable that isn't set can't have a default. Those of
    the plugin's table get theirs here; the environment doesn't change.
    """
    original = params._environment_variables

    @_instead_of(original)
    def _environment_variables() -> Dict[str, str]:
        return {**original(), **settings.with_defaults(os.environ)}


@_repair
def suggestions_for_unknown_names() -> None:
    """For a misspelt registered name, AllenNLP looks for the intended one with one of nltk's functions, and fails if
    nltk isn't installed (AllenNLP 2.10.1, any torch). Python's own `difflib` finds it too.
    """

    @_instead_of(registrable._get_suggestion)
    def _get_suggestion(name: str, available: List[str]) -> Optional[str]:
        return next(iter(difflib.get_close_matches(name, available, n=1, cutoff=0.8)), None)
