"""Products with a weight that stays as it is, laid out once for the kernel that is fastest.

A recurrence multiplies few rows by a large matrix at each step. Given the matrix as it is stored, a BLAS arranges it
anew every time: on the machine this was measured on, at 16,384 x 512, that takes a fifth of the time with 64 rows and
half of it with 8.
"""

import warnings
from typing import Any, Callable, Dict, List, Tuple

import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.processor import has_avx512

PRECISIONS = ("float32", "int8")


def check_precision(precision: str) -> str:
    """Refuses a precision that isn't known, or that this build of torch has no kernels for."""
    if precision not in PRECISIONS:
        raise ConfigurationError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    if precision == "int8" and not _has_int8():
        raise ConfigurationError(
            "precision int8 needs torch's quantised kernels, of which this build has "
            f'{torch.backends.quantized.supported_engines}; set precision to "float32"'
        )
    return precision


class Product:
    """inputs @ weight.t(), of a weight as it is stored."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._transposed = weight.t()

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """Of inputs (num_rows, input_dim)."""
        return torch.mm(inputs, self._transposed)

    def add_to_(self, sums: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return sums.addmm_(inputs, self._transposed)


class TransposedProduct(Product):
    """With the weight the other way round in memory, as MKL multiplies it fastest."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__(weight)
        self._transposed = self._transposed.contiguous()


class PackedProduct(Product):
    """By oneDNN, with the weight in an order of its own."""

    # oneDNN arranges the weight for a number of rows. Others then run as fast as with an arrangement of their own.
    _NUM_ROWS = 64

    def __init__(self, weight: torch.Tensor) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), self._NUM_ROWS)

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(inputs, self._packed, None, "none", [], "")

    def add_to_(self, sums: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return sums.add_(self(inputs))


class Int8Product(Product):
    """With the weight rounded to 8 bits, a scale for each output, and the inputs to 7, which is what sums of 16 bits on
    processors without VNNI can hold.
    """

    def __init__(self, weight: torch.Tensor) -> None:
        weight = weight.detach().float()
        scales = (weight.abs().amax(dim=1) / 127.0).clamp(min=torch.finfo(torch.float32).tiny)
        zero_points = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():
            # Deprecated, with no successor on a CPU; setup.cfg holds torch below the version that may drop it.
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor, torch.quantize_per_channel")
            rounded = torch.quantize_per_channel(weight, scales, zero_points, axis=0, dtype=torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(rounded, None)

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.ops.quantized.linear_dynamic(inputs, self._packed, reduce_range=True)

    def add_to_(self, sums: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return sums.add_(self(inputs))


_LEAST_PACKED_NUMBERS = 2**20
"""Smaller weights stay in a core's cache, where packing gains nothing."""


def fastest_float32(weight: torch.Tensor, num_rows: int) -> Callable[[torch.Tensor], Product]:
    """Which kind of product suits up to `num_rows` rows.

    With AVX-512, on one core of a Xeon, a transposed weight took 4 to 18 % less time than a packed one at 4096/512 and
    8 to 64 rows, and 15 to 60 % less at 1024/128. With AVX2, on an AMD processor, a packed one was ahead at 4096/512.
    """
    if num_rows == 0 or not weight.is_cpu or weight.dtype != torch.float32:
        return Product
    if has_avx512() or weight.numel() < _LEAST_PACKED_NUMBERS:
        return TransposedProduct
    if num_rows == 1:
        return TransposedProduct if weight.size(0) > weight.size(1) else Product
    return PackedProduct if _can_pack() else TransposedProduct


def _can_pack() -> bool:
    return torch.backends.mkldnn.is_available() and all(
        hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )


def _has_int8() -> bool:
    return any(engine in ("fbgemm", "x86", "onednn") for engine in torch.backends.quantized.supported_engines)


class Watch:
    """Notices when tensors are no longer what they were.

    By their memory, by the count torch keeps of changes in place, and by a sample of their numbers, since changes
    through `.data` aren't counted. A change through `.data` of a few numbers only may go unnoticed.
    """

    _SAMPLE = 64

    def __init__(self, tensors: List[torch.Tensor]) -> None:
        # Held, so that no other tensor can take over their memory.
        self._tensors = [tensor.detach() for tensor in tensors]
        self._versions = [tensor._version for tensor in tensors]
        self._samples = [self._sample(tensor) for tensor in tensors]

    @classmethod
    def _sample(cls, tensor: torch.Tensor) -> torch.Tensor:
        flat = tensor.detach().flatten()
        return flat[:: max(1, len(flat) // cls._SAMPLE)].clone()

    def unchanged(self, tensors: List[torch.Tensor]) -> bool:
        return len(tensors) == len(self._tensors) and all(
            tensor.data_ptr() == old.data_ptr()
            and tensor.shape == old.shape
            and tensor._version == version
            and torch.equal(self._sample(tensor), sample)
            for tensor, old, version, sample in zip(tensors, self._tensors, self._versions, self._samples, strict=True)
        )


class Products:
    """The laid-out weights of a module, made when first needed and again when the weight has changed.

    They are neither copied nor pickled with the module.
    """

    def __init__(self) -> None:
        self._made: Dict[Tuple[str, Any], Tuple[Watch, Product]] = {}

    def __reduce__(self):
        return Products, ()

    def get(self, name: str, weight: torch.Tensor, kind: Callable[[torch.Tensor], Product]) -> Product:
        """The product with `weight`. A weight that trains, or whose changes torch doesn't count, isn't laid out."""
        if kind is Product or weight.requires_grad or weight.is_inference():
            return Product(weight)
        known = self._made.get((name, kind))
        if known is None or not known[0].unchanged([weight]):
            # Outlives an inference mode that may be on just now.
            with torch.inference_mode(False), torch.no_grad():
                known = Watch([weight]), kind(weight)
            self._made[name, kind] = known
        return known[1]
