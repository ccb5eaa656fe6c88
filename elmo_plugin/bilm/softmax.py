"""From a biLM's top layer to a distribution over words: `full`, `sampled` and `adaptive`.

All three measure alike: `exact_nll`, `log_probs` and `top_k` are those of the whole vocabulary, whatever training
approximates.
"""

import math
from functools import reduce
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

# Enough rows for a matrix multiply to run at full speed, and few enough to leave room for many words.
_POSITIONS_PER_CHUNK = 1024


class BiLmSoftmax(torch.nn.Module, Registrable):
    """A distribution over `num_words` words, which are sorted by frequency; class ids are 0 to `num_words - 1`.

    The model supplies `num_words` and `input_dim`. No more than about `max_chunk_elements` logits are held at once
    while measuring, so that neither a large vocabulary nor a long text has to fit in memory.
    """

    default_implementation = "full"
    # Parameters whose gradients are already the mean over all processes of distributed training.
    reduced_here: Tuple[str, ...] = ()

    def __init__(self, num_words: int, input_dim: int, max_chunk_elements: int = 2**24) -> None:
        super().__init__()
        if num_words < 2:
            raise ConfigurationError(
                f"a softmax needs at least 2 words to choose from, but the vocabulary has {num_words}"
            )
        if max_chunk_elements < 1:
            raise ConfigurationError(f"max_chunk_elements has to be at least 1, got {max_chunk_elements}")
        self.num_words = num_words
        self.input_dim = input_dim
        self.max_chunk_elements = max_chunk_elements

    def training_nll(self, hidden: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
        """The training objective at each position, (num_positions,); `hidden` is (num_positions, input_dim)."""
        raise NotImplementedError

    def exact_nll(self, hidden: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
        """The negative log likelihood of each target, (num_positions,), under the exact distribution."""
        raise NotImplementedError

    def log_probs(self, hidden: torch.Tensor) -> torch.Tensor:
        """The exact distribution, (num_positions, num_words). The caller makes sure that this many numbers fit."""
        raise NotImplementedError

    def top_k(self, hidden: Sequence[torch.Tensor], k: int) -> Tuple[torch.Tensor, torch.Tensor]:
        """The `k` best words at each position, as scores and ids of shape (num_positions, k), best first.

        With one tensor in `hidden` a word's score is its log probability. With several, each (num_positions,
        input_dim), it is the sum of the word's log probabilities under each: what both contexts of a word say about it.
        """
        k = min(k, self.num_words)
        scores, ids = [], []
        for chunk in self._chunks(hidden[0]):
            best = reduce(torch.add, (self.log_probs(states[chunk]) for states in hidden)).topk(k, dim=-1)
            scores.append(best.values)
            ids.append(best.indices)
        return torch.cat(scores), torch.cat(ids)

    def _chunks(self, hidden: torch.Tensor) -> List[slice]:
        """Positions whose logits may be held at once."""
        return _slices(hidden.size(0), self.max_chunk_elements // self.num_words)


@BiLmSoftmax.register("full")
class FullSoftmax(BiLmSoftmax):
    """softmax(W h + b).

    In training, logits beyond `max_chunk_elements` are computed again in the backward pass rather than kept.
    """

    def __init__(self, num_words: int, input_dim: int, max_chunk_elements: int = 2**24) -> None:
        super().__init__(num_words, input_dim, max_chunk_elements)
        self.weight = torch.nn.Parameter(torch.empty(num_words, input_dim))
        self.bias = torch.nn.Parameter(torch.zeros(num_words))
        torch.nn.init.normal_(self.weight, std=input_dim**-0.5)

    def training_nll(self, hidden: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
        chunks = self._chunks(hidden)
        if len(chunks) == 1:
            return self._nll(hidden, target_ids)
        nlls = [
            checkpoint(self._nll, hidden[chunk], target_ids[chunk], use_reentrant=False, preserve_rng_state=False)
            for chunk in chunks
        ]
        return torch.cat(nlls)

    def _nll(self, hidden: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(functional.linear(hidden, self.weight, self.bias), target_ids, reduction="none")

    def exact_nll(self, hidden: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
        nlls = []
        with _full_precision(hidden):
            for chunk in _slices(hidden.size(0), _POSITIONS_PER_CHUNK):
                states, targets = hidden[chunk].to(self.weight.dtype), target_ids[chunk]
                target_logits = (states * self.weight[targets]).sum(dim=-1) + self.bias[targets]
                nlls.append(self._log_normalizer(states) - target_logits)
        return torch.cat(nlls)

    def _log_normalizer(self, hidden: torch.Tensor) -> torch.Tensor:
        """log sum exp of all logits at each position, a block of words at a time."""
        log_normalizer = hidden.new_full((hidden.size(0),), -math.inf)
        for words in _slices(self.num_words, self.max_chunk_elements // max(1, hidden.size(0))):
            logits = functional.linear(hidden, self.weight[words], self.bias[words])
            log_normalizer = torch.logaddexp(log_normalizer, logits.logsumexp(dim=-1))
        return log_normalizer

    def log_probs(self, hidden: torch.Tensor) -> torch.Tensor:
        with _full_precision(hidden):
            return functional.linear(hidden.to(self.weight.dtype), self.weight, self.bias).log_softmax(dim=-1)


class _Negatives(NamedTuple):
    ids: torch.Tensor  # (num_samples,), all different
    threshold: torch.Tensor  # (), the time at which sampling stopped


@BiLmSoftmax.register("sampled")
class SampledSoftmax(FullSoftmax):
    """Trains against `num_samples` words, drawn for each call. Its parameters are those of `full`.

    Words are drawn without replacement from the log-uniform distribution over ranks, P(k) = log((k + 2) / (k + 1)) /
    log(num_words + 1). Each logit, the target's included, is corrected by the log of its expected count, and a drawn
    word that is the target itself is removed, so that the optimum is the full softmax's (Jean et al. 2015). All
    positions share the drawn words. With `num_samples` of at least `num_words` every word is drawn and counts once: the
    full softmax.

    `sparse` gives the drawn rows of the weight a sparse gradient, so that an optimizer that knows how (Adagrad does)
    leaves the others alone. In distributed training the processes then exchange these rows and their ids, 44 MB per
    step and process at the paper's size, where the whole gradient has 1.6 GB. torch's DistributedDataParallel can't do
    that, and is told to ignore the weight (`reduced_here`). The bias is small enough to stay dense.
    """

    _probabilities: torch.Tensor

    def __init__(
        self,
        num_words: int,
        input_dim: int,
        num_samples: int = 8192,
        sparse: bool = False,
        max_chunk_elements: int = 2**24,
    ) -> None:
        super().__init__(num_words, input_dim, max_chunk_elements)
        if num_samples < 1:
            raise ConfigurationError(f"sampled softmax: num_samples has to be at least 1, got {num_samples}")
        self.num_samples = num_samples
        self.sparse = sparse
        self.reduced_here = ("weight",) if sparse and num_samples < num_words else ()
        self._is_the_same_everywhere = False
        if sparse and not torch.sparse.check_sparse_tensor_invariants.is_enabled():
            # True anyway, but stated, since torch otherwise warns at an optimizer's first sparse step.
            torch.sparse.check_sparse_tensor_invariants.disable()
        ranks = torch.arange(num_words, dtype=torch.float64)
        probabilities = torch.log1p(1.0 / (ranks + 1.0)) / math.log(num_words + 1.0)
        self.register_buffer("_probabilities", probabilities.float(), persistent=False)

    def training_nll(self, hidden: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
        if self.num_samples >= self.num_words:
            return super().training_nll(hidden, target_ids)
        negatives = self._draw()
        # Shape: (num_samples + num_positions,)
        ids = torch.cat([negatives.ids, target_ids])
        weights = self._rows(ids)
        corrected_biases = self.bias[ids] - self._log_expected_count(ids, negatives.threshold)
        sizes = [self.num_samples, target_ids.size(0)]
        sampled_weights, target_weights = weights.split(sizes)
        sampled_biases, target_biases = corrected_biases.split(sizes)

        # Shape: (num_positions, num_samples)
        sampled_logits = torch.addmm(sampled_biases, hidden, sampled_weights.t())
        # Exponentials and sums are in single precision under autocast too.
        precision = torch.promote_types(sampled_logits.dtype, torch.float32)
        sampled_logits = sampled_logits.to(precision)
        self._remove_accidental_hits_(sampled_logits, negatives.ids, target_ids)
        target_logits = (hidden * target_weights).sum(dim=-1) + target_biases
        nll, _ = _TargetNll.apply(target_logits.to(precision), sampled_logits)
        return nll

    def _rows(self, ids: torch.Tensor) -> torch.Tensor:
        if not (self.sparse and is_distributed()):
            return functional.embedding(ids, self.weight, sparse=self.sparse)
        if not self._is_the_same_everywhere:
            dist.broadcast(self.weight.data, src=0)  # as DistributedDataParallel does with what it isn't told to ignore
            self._is_the_same_everywhere = True
        return _RowsForAll.apply(self.weight, ids)

    def _remove_accidental_hits_(
        self, sampled_logits: torch.Tensor, sampled_ids: torch.Tensor, target_ids: torch.Tensor
    ) -> None:
        """Leaves a drawn word no chance where it is the target. Drawn words are distinct, so a position has at most
        one: it is looked up rather than searched for.
        """
        columns = torch.full((self.num_words,), -1, device=sampled_ids.device)
        columns[sampled_ids] = torch.arange(self.num_samples, device=sampled_ids.device)
        # Shape: (num_positions, 1)
        hits = columns[target_ids].unsqueeze(1)
        lowest = torch.finfo(sampled_logits.dtype).min / 2
        penalties = torch.where(hits >= 0, lowest, 0.0).to(sampled_logits.dtype)
        sampled_logits.scatter_add_(1, hits.clamp(min=0), penalties)

    def _draw(self) -> _Negatives:
        """Draws words without replacement, as if one were drawn after the other and repetitions thrown away.

        It is done as a race: word k arrives after an exponentially distributed time of rate P(k), and the first
        `num_samples` to arrive are drawn. That has the same distribution as drawing and rejecting, and needs neither a
        loop nor a shape that depends on the data, so nothing waits for a GPU. It costs a pass over the vocabulary: for
        800,000 words some 30 ms on one CPU core, where the softmax itself takes seconds.
        """
        arrivals = torch.empty_like(self._probabilities).exponential_() / self._probabilities
        times, ids = arrivals.topk(self.num_samples + 1, largest=False, sorted=True)
        return _Negatives(ids[:-1], times[-1])

    def _log_expected_count(self, ids: torch.Tensor, threshold: torch.Tensor) -> torch.Tensor:
        """The log probability that a word arrived before the first one that came too late.

        The race's form of 1 - (1 - P)^num_tries. Given that threshold the words arrive independently of each other, so
        that weighting each by 1 / (expected count) is unbiased, and not only nearly so (Cohen and Kaplan 2007).
        """
        return torch.log(-torch.expm1(-self._probabilities[ids] * threshold))


class _RowsForAll(torch.autograd.Function):
    """Some rows of a weight, by id. Its gradient is the mean over all processes, each of which has its own ids: a
    sparse one, with the rows that any of them took.
    """

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(ids)
        ctx.shape = weight.shape
        return weight[ids]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_rows: torch.Tensor) -> Tuple[torch.Tensor, None]:
        (ids,) = ctx.saved_tensors
        rows = torch.cat(_gathered(grad_rows.contiguous())) / dist.get_world_size()
        return torch.sparse_coo_tensor(torch.cat(_gathered(ids)).unsqueeze(0), rows, ctx.shape), None


def _gathered(tensor: torch.Tensor) -> List[torch.Tensor]:
    """The tensors of all processes, whose numbers of rows may differ."""
    sizes = torch.zeros(dist.get_world_size(), dtype=torch.long, device=tensor.device)
    sizes[dist.get_rank()] = tensor.size(0)
    dist.all_reduce(sizes)
    longest = int(sizes.max())
    padded = functional.pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, longest - tensor.size(0)))
    of_all = [torch.empty_like(padded) for _ in sizes]
    dist.all_gather(of_all, padded)
    return [each[:size] for each, size in zip(of_all, sizes.tolist(), strict=True)]


class _TargetNll(torch.autograd.Function):
    """The negative log of a target's share: log(exp(target) + sum over exp(others)) - target.

    `others`, (num_positions, num_others), are overwritten, by their exponentials and then by their gradients. torch's
    own cross entropy, which needs target and others in one tensor, takes four more of that size.
    """

    @staticmethod
    def forward(ctx: Any, target: torch.Tensor, others: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        highest = torch.maximum(others.amax(dim=1), target)
        others.sub_(highest.unsqueeze(1)).exp_()
        target_exp = torch.exp(target - highest)
        total = others.sum(dim=1) + target_exp
        ctx.mark_dirty(others)
        ctx.set_materialize_grads(False)  # for the exponentials, which go nowhere
        ctx.save_for_backward(others, total, target_exp)
        return total.log() + highest - target, others

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_nll: torch.Tensor, _: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        others, total, target_exp = ctx.saved_tensors
        return grad_nll * (target_exp / total - 1.0), others.mul_((grad_nll / total).unsqueeze(1))


@BiLmSoftmax.register("adaptive")
class AdaptiveSoftmax(BiLmSoftmax):
    """torch's adaptive softmax (Grave et al. 2017): rare words in separate clusters, with narrower projections.

    The words before `cutoffs[0]` are scored directly, each further cutoff starts a cluster. By default the most
    frequent twentieth is scored directly and the clusters end at a fifth and at the whole of the vocabulary.
    `div_value` is torch's: the i-th cluster's projection has a width of input_dim / div_value^i.
    """

    def __init__(
        self,
        num_words: int,
        input_dim: int,
        cutoffs: Optional[List[int]] = None,
        div_value: float = 4.0,
        max_chunk_elements: int = 2**24,
    ) -> None:
        super().__init__(num_words, input_dim, max_chunk_elements)
        cutoffs = default_cutoffs(num_words) if cutoffs is None else list(cutoffs)
        if not cutoffs or cutoffs != sorted(set(cutoffs)) or cutoffs[0] < 1 or cutoffs[-1] >= num_words:
            raise ConfigurationError(
                "adaptive softmax: cutoffs have to rise, from at least 1 to less than the vocabulary's "
                f"{num_words} words; got {cutoffs}"
            )
        if input_dim // div_value ** len(cutoffs) < 1:
            raise ConfigurationError(
                f"adaptive softmax: with input_dim {input_dim} and div_value {div_value} the last of {len(cutoffs)} "
                "clusters would be 0 wide. Give fewer cutoffs or a smaller div_value."
            )
        self.clusters = torch.nn.AdaptiveLogSoftmaxWithLoss(input_dim, num_words, cutoffs, div_value=div_value)

    def training_nll(self, hidden: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
        # torch mixes precisions under autocast, and refuses to.
        with _full_precision(hidden):
            return -self.clusters(hidden.to(self.clusters.head.weight.dtype), target_ids).output

    def exact_nll(self, hidden: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
        # The objective is exact: a target needs the head and its own cluster only.
        return torch.cat([self.training_nll(hidden[chunk], target_ids[chunk]) for chunk in self._chunks(hidden)])

    def log_probs(self, hidden: torch.Tensor) -> torch.Tensor:
        with _full_precision(hidden):
            return self.clusters.log_prob(hidden.to(self.clusters.head.weight.dtype))


def default_cutoffs(num_words: int) -> List[int]:
    """Where the adaptive softmax's clusters begin unless the config says so."""
    first = max(1, num_words // 20)
    second = num_words // 5
    return [first, second] if first < second else [first]


def _slices(length: int, size: int) -> List[slice]:
    """Slices of `size`, or of 1 if that is 0, of something `length` long: at least one, which may be empty."""
    return [slice(start, start + max(1, size)) for start in range(0, max(1, length), max(1, size))]


def _full_precision(tensor: torch.Tensor) -> torch.autocast:
    return torch.autocast(tensor.device.type, enabled=False)
