"""Frozen weights: whether weights are frozen, whether they have changed all the same, and how to multiply by them.

What is computed from frozen weights may be kept: token vectors (`token_cache.py`), layers (`cache.py`), and the weights
themselves in the order in memory that multiplies fastest. A recurrence multiplies few rows by a large matrix at each
step. Given the matrix as it is stored, a BLAS rearranges it every time: at 16,384 x 512, on an AMD processor, that
takes a third of the time with 64 rows and half of it with 16.
"""

import warnings
from typing import Dict, Iterable, Optional, Tuple, Type

import torch

from elmo_plugin.errors import ConfigurationError
from elmo_plugin.processor import mkl_has_avx512

PRECISIONS = ("float32", "tf32", "bfloat16", "int8")


def are_frozen(weights: Iterable[torch.Tensor]) -> bool:
    """Whether what is computed from these weights may be kept: none trains, and torch counts the changes of all of
    them, which it doesn't for weights made in inference mode.
    """
    return not any(weight.requires_grad or weight.is_inference() for weight in weights)


class Snapshot:
    """Notices when weights have changed.

    It goes by their memory, by torch's count of changes in place and, on a CPU, by a sample of their numbers, since
    changes through `.data` aren't counted. A change through `.data` of a few numbers only may go unnoticed; on other
    devices every such change does, since reading a sample would make the host wait.
    """

    _SAMPLE = 64

    def __init__(self, weights: Iterable[torch.Tensor]) -> None:
        # Held, so that no other tensor can take over their memory.
        self._weights = [weight.detach() for weight in weights]
        self._versions = [weight._version for weight in self._weights]
        with torch.inference_mode(False):  # it outlives an inference mode that may be on at the moment
            self._samples = [self._sample(weight).clone() for weight in self._weights]

    @classmethod
    def _sample(cls, weight: torch.Tensor) -> torch.Tensor:
        flat = weight.detach().flatten()
        return flat[:: max(1, len(flat) // cls._SAMPLE)] if weight.is_cpu else flat[:0]

    def is_of(self, weights: Iterable[torch.Tensor]) -> bool:
        """Whether these are the same weights, unchanged."""
        now = list(weights)
        return len(now) == len(self._weights) and all(
            new.data_ptr() == old.data_ptr()
            and new.shape == old.shape
            and new._version == version
            and (not new.is_cpu or torch.equal(self._sample(new), sample))
            for new, old, version, sample in zip(now, self._weights, self._versions, self._samples, strict=True)
        )


class Product:
    """inputs @ weight.t(), of a weight as it is stored: (output_dim, input_dim). Several weights, stacked along a
    leading dimension, have their own inputs each.
    """

    def __init__(self, weight: torch.Tensor) -> None:
        self._transposed = weight.mT

    def plus(self, bias: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """The product of inputs (..., num_rows, input_dim), and a bias (..., output_dim) added to each row."""
        add_product = torch.addmm if inputs.dim() == 2 else torch.baddbmm
        return add_product(bias.unsqueeze(-2), inputs, self._transposed)

    def add_to_(self, sums: torch.Tensor, inputs: torch.Tensor) -> None:
        add_product_ = sums.addmm_ if inputs.dim() == 2 else sums.baddbmm_
        add_product_(inputs, self._transposed)

    def write_to_(self, outputs: torch.Tensor, inputs: torch.Tensor) -> None:
        multiply = torch.mm if inputs.dim() == 2 else torch.bmm
        multiply(inputs, self._transposed, out=outputs)


class TransposedProduct(Product):
    """With the weight transposed in memory, as MKL multiplies it fastest."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._transposed = weight.mT.contiguous()


class _FreshProduct(Product):
    """With a kernel that returns its result in new memory."""

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def plus(self, bias: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return self(inputs).add_(bias)

    def add_to_(self, sums: torch.Tensor, inputs: torch.Tensor) -> None:
        sums.add_(self(inputs))

    def write_to_(self, outputs: torch.Tensor, inputs: torch.Tensor) -> None:
        outputs.copy_(self(inputs))


class PackedProduct(_FreshProduct):
    """By oneDNN, with the weight in oneDNN's own order."""

    # oneDNN arranges the weight for a number of rows. Other numbers then run as fast as with their own arrangement.
    _NUM_ROWS = 64

    def __init__(self, weight: torch.Tensor) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), self._NUM_ROWS)

    def __call__(self, inputs: torch.Tensor, bias: Optional[torch.Tensor] = None) -> torch.Tensor:
        return torch.ops.mkldnn._linear_pointwise(inputs, self._packed, bias, "none", [], "")

    def plus(self, bias: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        return self(inputs, bias)


class Int8Product(_FreshProduct):
    """With the weight rounded to 8 bits, a scale for each output, and the inputs to 7, which is what 16-bit sums on
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


class FrozenProducts:
    """A module's weights as they are multiplied, laid out when first needed and again when they have changed.

    They are neither copied nor pickled with the module.
    """

    def __init__(self) -> None:
        self._made: Dict[Tuple[str, Type[Product]], Tuple[Snapshot, Product]] = {}

    def __reduce__(self):
        return FrozenProducts, ()

    def get(self, name: str, weight: torch.Tensor, num_rows: int, precision: str) -> Product:
        """The product of `num_rows` rows and the module's parameter `name`, which is multiplied as it is stored unless
        it is frozen.
        """
        kind = _fastest(weight, num_rows, precision) if are_frozen([weight]) else Product
        if kind is Product:
            return Product(weight)
        known = self._made.get((name, kind))
        if known is None or not known[0].is_of([weight]):
            with torch.inference_mode(False), torch.no_grad():
                known = self._made[name, kind] = Snapshot([weight]), kind(weight)
        return known[1]


_LEAST_PACKED_NUMBERS = 2**18
"""Smaller weights stay in a core's cache, where packing gains nothing."""


def _fastest(weight: torch.Tensor, num_rows: int, precision: str) -> Type[Product]:
    """Which product suits this processor, weight and number of rows.

    With MKL's AVX-512, on one core of a Xeon, a transposed weight took 4 to 18 % less time than a packed one at
    4096/512 and 8 to 64 rows, and 15 to 60 % less at 1024/128. On AMD processors, with AVX2 and with AVX-512, a packed
    one took a third less than either of the others at 4096/512, and 15 % less at 512/128; for a single row a transposed
    one was the fastest.
    """
    if precision == "int8":
        return Int8Product
    if not weight.is_cpu or weight.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
        return Product
    if mkl_has_avx512() or (num_rows == 1 and weight.size(0) > weight.size(1)):
        return TransposedProduct
    return PackedProduct if weight.numel() >= _LEAST_PACKED_NUMBERS and _can_pack() else Product


def _can_pack() -> bool:
    return torch.backends.mkldnn.is_available() and all(
        hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise")
    )


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


def _has_int8() -> bool:
    return any(engine in ("fbgemm", "x86", "onednn") for engine in torch.backends.quantized.supported_engines)
