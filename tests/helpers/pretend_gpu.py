"""A GPU that isn't there: `with PretendGpu() as gpu:` makes torch believe in `cuda:0` on any machine.

Memory and kernels are the CPU's. A mark on a tensor's storage says that it "is on the GPU", two torch modes carry the
marks along, and what a GPU refuses is refused: an operation on tensors of both devices, numpy on a GPU's tensor,
lengths on the GPU for a packed sequence. So each branch for a GPU is run and compared with the CPU where there is none.

`gpu.counted()` counts, by the place in the package that asked for it,

- launches: operations on the GPU that need a kernel; views and empty memory need none. torch's LSTM and GRU are one
  launch each way, as cuDNN's are one call;
- waits: where the host needs a value and has to wait until the GPU has computed it. A copy to the GPU is no wait.

Mixed precision is the CPU's autocast under the GPU's name, in float16. What it can't show: speed, memory, streams, and
the numerics of a GPU's own kernels.
"""

import sys
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from elmo_plugin import lstm_kernels

GPU, CPU = torch.device("cuda", 0), torch.device("cpu")
_PACKAGE = str(Path(__file__).resolve().parents[2] / "elmo_plugin") + "/"
_OUTSIDE = "AllenNLP and torch"

# These, and all that give a view, need no kernel.
_WITHOUT_KERNEL = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view", "detach", "detach_"),
    *("set_", "resize_", "lift_fresh", "_coalesced_", "_sparse_coo_tensor_with_dims_and_tensors", "is_pinned"),
}
# Their result has a size, or is a number, that the host doesn't know before the GPU has computed it.
_WITH_WAIT = {
    *("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal"),
    *("repeat_interleave", "bincount", "_coalesce", "is_nonzero"),
}
# They take single numbers from the CPU, as do all operations by element.
_TAKE_CPU_NUMBERS = {
    "fill_",
    "fill",
    "masked_fill",
    "masked_fill_",
    "index_put",
    "index_put_",
    "where",
    "clamp",
    "lerp",
}
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}


class Counts(NamedTuple):
    launches: "Counter[str]"
    waits: "Counter[str]"


def is_on_gpu(tensor: torch.Tensor) -> bool:
    return getattr(_storage(tensor), "is_on_pretend_gpu", False)


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    with torch._C.DisableTorchFunction():
        return (tensor._values() if tensor.is_sparse else tensor).untyped_storage()


def _mark(tensor: torch.Tensor) -> torch.Tensor:
    _storage(tensor).is_on_pretend_gpu = True  # type: ignore[attr-defined]
    if tensor.is_sparse:
        with torch._C.DisableTorchFunction():
            tensor._indices().untyped_storage().is_on_pretend_gpu = True  # type: ignore[attr-defined]
    return tensor


def _tensors(*values: Any) -> List[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


class PretendGpu:
    """Torch with a GPU, inside a `with`."""

    def __init__(self) -> None:
        self._counts: Optional[Counts] = None
        # For each call in progress, whether its arguments are on the GPU: so is what torch makes within it.
        self.calls: List[bool] = []
        self._stack = ExitStack()

    def __enter__(self) -> "PretendGpu":
        for target, name, replacement in _replacements():
            self._stack.enter_context(mock.patch.object(target, name, replacement, create=True))
        self._stack.enter_context(_Kernels(self))
        self._stack.enter_context(_Calls(self))
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    @contextmanager
    def counted(self) -> Iterator[Counts]:
        """Counts what happens within."""
        with self._counting(Counts(Counter(), Counter())) as counts:
            assert counts is not None
            yield counts

    @contextmanager
    def _counting(self, counts: Optional[Counts]) -> Iterator[Optional[Counts]]:
        before, self._counts = self._counts, counts
        try:
            yield counts
        finally:
            self._counts = before

    def uncounted(self) -> Any:
        return self._counting(None)

    def count(self, what: str) -> None:
        if self._counts is not None:
            getattr(self._counts, what)[_place()] += 1


def _place() -> str:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            return f"{frame.f_code.co_filename[len(_PACKAGE) :]} {frame.f_code.co_qualname}"
        frame = frame.f_back  # type: ignore[assignment]
    return _OUTSIDE


class _Kernels(TorchDispatchMode):
    """Sees each operation that is run, those of the backward pass included."""

    def __init__(self, gpu: PretendGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Tuple = (), kwargs: Optional[Dict] = None) -> Any:
        name, tensors = func.overloadpacket.__name__, _tensors(args, kwargs)
        on_gpu = [is_on_gpu(tensor) for tensor in tensors]
        if any(on_gpu):
            self._check(func, name, args, [tensor for tensor, on in zip(tensors, on_gpu, strict=True) if not on])
        result = func(*args, **(kwargs or {}))
        if not (any(on_gpu) or (not tensors and self._gpu.calls and self._gpu.calls[-1])):
            return result
        if name == "copy_":
            if on_gpu[1] and not on_gpu[0]:
                self._gpu.count("waits")
            return result
        self._count(func, name, args)
        if name == "_pack_padded_sequence":
            return _mark(result[0]), result[1]
        return tree_map_only(torch.Tensor, _mark, result)

    def _check(self, func: Any, name: str, args: Tuple, on_cpu: List[torch.Tensor]) -> None:
        if name == "_pack_padded_sequence" and is_on_gpu(args[1]):
            raise RuntimeError("the lengths of a packed sequence must be on the CPU, but they are on cuda:0")
        if name in ("copy_", "_to_copy", "_pack_padded_sequence", "set_", "detach"):
            return
        allowed = _tensors(args[1]) if name in _INDEXING and is_on_gpu(args[0]) else []
        takes_numbers = torch.Tag.pointwise in func.tags or name in _TAKE_CPU_NUMBERS or name.startswith("_foreach")
        for tensor in on_cpu:
            is_number = takes_numbers and tensor.dim() == 0
            if not is_number and not any(tensor is each for each in allowed):
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but {func} got one of shape "
                    f"{tuple(tensor.shape)} on the CPU and others on cuda:0"
                )

    def _count(self, func: Any, name: str, args: Tuple) -> None:
        returns = func._schema.returns
        is_view = bool(returns) and returns[0].alias_info is not None and not returns[0].alias_info.is_write
        if not is_view and name not in _WITHOUT_KERNEL:
            self._gpu.count("launches")
        if name in _WITH_WAIT or (name in _INDEXING and _needs_the_number_of(args)):
            self._gpu.count("waits")


def _needs_the_number_of(indexing: Tuple) -> bool:
    """Whether as many places are meant as a mask is true at. To set them all to one number it need not be known."""
    is_by_mask = any(index.dtype == torch.bool for index in _tensors(indexing[1]))
    return is_by_mask and not (len(indexing) > 2 and indexing[2].numel() == 1)


class _Calls(TorchFunctionMode):
    """Sees each call of torch from Python: what moves tensors, and what makes them on a device."""

    def __init__(self, gpu: PretendGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Tuple = (), kwargs: Optional[Dict] = None) -> Any:
        self._gpu.calls.append(any(map(is_on_gpu, _tensors(args, kwargs))))
        try:
            return self._call(func, getattr(func, "__name__", ""), args, dict(kwargs or {}))
        finally:
            self._gpu.calls.pop()

    def _call(self, func: Any, name: str, args: Tuple, kwargs: Dict[str, Any]) -> Any:
        if func is torch.Tensor.backward:
            return self._backward(args[0], **kwargs)
        if name in ("lstm", "gru"):
            return self._one_kernel(func, args) if self._gpu.calls[-1] else func(*args, **kwargs)
        if name == "get_device":
            return 0 if is_on_gpu(args[0]) else -1
        if name == "cuda":
            return self._move(args[0], GPU)
        if name == "cpu":
            return self._move(args[0], CPU)
        if name == "to":
            return self._to(func, *args, **kwargs)
        if name == "tolist":
            return func(self._move(args[0], CPU))
        if name in ("numpy", "__array__") and is_on_gpu(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
        if name == "pin_memory" or kwargs.pop("pin_memory", False):
            return func(*args, **kwargs) if name != "pin_memory" else args[0]
        asked = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cuda"
        result = func(*args, **({**kwargs, "device": CPU} if asked else kwargs))
        if asked or (name in ("new_tensor", "__deepcopy__") and is_on_gpu(args[0])):
            self._gpu.count("launches")
            return tree_map_only(torch.Tensor, _mark, result)
        return result

    def _backward(
        self,
        tensor: torch.Tensor,
        gradient: Optional[torch.Tensor] = None,
        retain_graph: Optional[bool] = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """With this mode at work within: the backward pass of our own functions is Python, too."""
        gradient = torch.ones_like(tensor) if gradient is None else gradient
        keep_graph = create_graph if retain_graph is None else retain_graph
        with self:
            torch.autograd.graph._engine_run_backward(
                (tensor,), (gradient,), keep_graph, create_graph, (), allow_unreachable=True, accumulate_grad=True
            )

    def _move(self, tensor: torch.Tensor, device: Any, copy: bool = False) -> torch.Tensor:
        to_gpu = torch.device(device).type == "cuda"
        if is_on_gpu(tensor) == to_gpu and not copy:
            return tensor
        if is_on_gpu(tensor) and not to_gpu:
            self._gpu.count("waits")
        with self._gpu.uncounted():
            moved = tensor.clone()
        for storage in [_storage(moved)] + ([moved._indices().untyped_storage()] if moved.is_sparse else []):
            storage.is_on_pretend_gpu = to_gpu  # type: ignore[attr-defined]
        return moved

    def _to(self, func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        given = [*args, kwargs.get("device"), kwargs.get("dtype")]
        if args and isinstance(args[0], torch.Tensor):
            given = [args[0].device, args[0].dtype]
        for value in given:
            if isinstance(value, (str, torch.device)) or type(value) is int:
                tensor = self._move(tensor, GPU if type(value) is int else value)
            elif isinstance(value, torch.dtype):
                tensor = func(tensor, value)
        return tensor.clone() if kwargs.get("copy") else tensor

    def _one_kernel(self, func: Any, args: Tuple) -> Any:
        """torch's own recurrent layers, as cuDNN has them."""
        places = [place for place, argument in enumerate(args) if _tensors(argument)]
        structures = {place: args[place] for place in places}

        def run(*tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
            remaining = iter(tensors)
            filled = [
                tree_map_only(torch.Tensor, lambda _: next(remaining), structures[place]) if place in places else value
                for place, value in enumerate(args)
            ]
            with _without_onednn():  # which has no LSTM in half precision
                return func(*filled)

        return _OneKernel.apply(self._gpu, run, *_tensors(*args))


@contextmanager
def _without_onednn() -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


class _OneKernel(torch.autograd.Function):
    """Counts as one launch forward and one backward, whatever it is made of here."""

    @staticmethod
    def forward(ctx: Any, gpu: PretendGpu, run: Callable, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        gpu.count("launches")
        with torch.enable_grad(), gpu.uncounted():
            ctx.leaves = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in tensors]
            ctx.outputs = run(*ctx.leaves)
        ctx.gpu = gpu
        return tuple(output.detach() for output in ctx.outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        ctx.gpu.count("launches")
        wanted = [leaf for leaf in ctx.leaves if leaf.requires_grad]
        with ctx.gpu.uncounted():
            found = iter(torch.autograd.grad(ctx.outputs, wanted, gradients, allow_unused=True))
        return (None, None, *(next(found) if leaf.requires_grad else None for leaf in ctx.leaves))


def _replacements() -> Iterator[Tuple[Any, str, Any]]:
    """What torch is asked about devices without a mode's seeing it."""
    device_on_host = torch._C.TensorBase.device
    yield torch.Tensor, "device", property(lambda self: GPU if is_on_gpu(self) else device_on_host.__get__(self))
    yield torch.Tensor, "is_cuda", property(is_on_gpu)
    yield torch.Tensor, "is_cpu", property(lambda self: not is_on_gpu(self))
    yield lstm_kernels, "triton", None  # whose kernels need a GPU; torch's operations take their place

    def storage_on_gpu(self: torch.UntypedStorage, *unused: Any, **unused_too: Any) -> torch.UntypedStorage:
        copied = self.clone()
        copied.is_on_pretend_gpu = True  # type: ignore[attr-defined]
        return copied

    yield torch.UntypedStorage, "cuda", storage_on_gpu
    for name, answer in {
        "is_available": True,
        "is_initialized": True,
        "_is_in_bad_fork": False,
        "device_count": 1,
        "current_device": 0,
        "set_device": None,
        "_lazy_init": None,
        "synchronize": None,
        "manual_seed": None,
        "manual_seed_all": None,
        "set_rng_state": None,
        "max_memory_allocated": 0,
        "reset_peak_memory_stats": None,
        "reset_max_memory_allocated": None,
        "empty_cache": None,
        "get_device_name": "a pretend GPU",
        "get_device_capability": (8, 0),
        "_exchange_device": 0,
        "_maybe_exchange_device": 0,
    }.items():
        yield torch.cuda, name, lambda *args, answer=answer, **kwargs: answer
    yield torch.backends.cudnn, "is_acceptable", lambda tensor: False  # which lays weights out for its own LSTMs
    yield torch.cuda, "get_rng_state", lambda *args, **kwargs: torch.get_rng_state()

    autocast, is_enabled, dtype_of = torch.autocast.__init__, torch.is_autocast_enabled, torch.get_autocast_dtype

    def on_host(device_type: str) -> str:
        return "cpu" if device_type == "cuda" else device_type

    def __init__(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None):
        is_gpu = device_type == "cuda"
        autocast(self, on_host(device_type), dtype or (torch.float16 if is_gpu else None), enabled, cache_enabled)

    yield torch.autocast, "__init__", __init__
    yield torch, "is_autocast_enabled", lambda device_type="cuda": is_enabled(on_host(device_type))
    yield torch, "get_autocast_dtype", lambda device_type: dtype_of(on_host(device_type))
