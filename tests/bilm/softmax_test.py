import datetime
import math
import os

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from elmo_plugin.bilm import softmax as softmax_module
from elmo_plugin.bilm.softmax import AdaptiveSoftmax, BiLmSoftmax, FullSoftmax, SampledSoftmax, default_cutoffs

NUM_WORDS, DIM, NUM_POSITIONS = 50, 16, 7


def make(name: str, seed: int = 0, **arguments) -> BiLmSoftmax:
    torch.manual_seed(seed)
    params = Params({"type": name, **arguments})
    softmax = BiLmSoftmax.from_params(params, num_words=NUM_WORDS, input_dim=DIM)
    for parameter in softmax.parameters():
        torch.nn.init.normal_(parameter)  # the bias too
    return softmax


def positions(seed: int = 1):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(NUM_POSITIONS, DIM, generator=generator)
    return hidden.requires_grad_(), torch.randint(NUM_WORDS, (NUM_POSITIONS,), generator=generator)


def gradients(softmax: BiLmSoftmax, hidden: torch.Tensor, target_ids: torch.Tensor):
    inputs = [hidden, *softmax.parameters()]
    return torch.autograd.grad(softmax.training_nll(hidden, target_ids).sum(), inputs)


SOFTMAXES = [("full", {}), ("sampled", {"num_samples": 5}), ("adaptive", {"cutoffs": [10, 20]})]


@pytest.mark.parametrize("name, arguments", SOFTMAXES)
def test_exact_nll_is_that_of_a_distribution_over_all_words(name, arguments):
    softmax = make(name, **arguments)
    hidden, target_ids = positions()
    log_probs = softmax.log_probs(hidden)
    assert log_probs.shape == (NUM_POSITIONS, NUM_WORDS)
    torch.testing.assert_close(log_probs.exp().sum(dim=-1), torch.ones(NUM_POSITIONS))
    expected = -log_probs[torch.arange(NUM_POSITIONS), target_ids]
    torch.testing.assert_close(softmax.exact_nll(hidden, target_ids), expected)


@pytest.mark.parametrize("name, arguments", SOFTMAXES)
@pytest.mark.parametrize("max_chunk_elements", [1, 30, 120])
def test_chunks_change_nothing(name, arguments, max_chunk_elements, monkeypatch):
    monkeypatch.setattr("elmo_plugin.bilm.softmax._POSITIONS_PER_CHUNK", 3)
    whole, chunked = make(name, **arguments), make(name, max_chunk_elements=max_chunk_elements, **arguments)
    hidden, target_ids = positions()
    torch.testing.assert_close(chunked.exact_nll(hidden, target_ids), whole.exact_nll(hidden, target_ids))
    for expected, got in zip(whole.top_k([hidden], 4), chunked.top_k([hidden], 4), strict=True):
        torch.testing.assert_close(got, expected)


def test_no_more_logits_at_once_than_max_chunk_elements(monkeypatch):
    softmax = make("full", max_chunk_elements=40)
    monkeypatch.setattr("elmo_plugin.bilm.softmax._POSITIONS_PER_CHUNK", 4)
    sizes = []
    linear = torch.nn.functional.linear

    def recording_linear(*arguments):
        sizes.append(linear(*arguments).numel())
        return linear(*arguments)

    monkeypatch.setattr(torch.nn.functional, "linear", recording_linear)
    softmax.exact_nll(*positions())
    assert sum(sizes) == NUM_POSITIONS * NUM_WORDS
    assert max(sizes) <= 40


def test_full_training_in_chunks_has_the_same_loss_and_gradients():
    whole, chunked = make("full"), make("full", max_chunk_elements=2 * NUM_WORDS)
    hidden, target_ids = positions()
    torch.testing.assert_close(chunked.training_nll(hidden, target_ids), whole.training_nll(hidden, target_ids))
    for expected, got in zip(gradients(whole, hidden, target_ids), gradients(chunked, hidden, target_ids), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("num_samples", [NUM_WORDS, 10 * NUM_WORDS])
def test_sampled_softmax_with_every_word_drawn_is_the_full_one(num_samples):
    full, sampled = make("full"), make("sampled", num_samples=num_samples)
    hidden, target_ids = positions()
    torch.testing.assert_close(sampled.training_nll(hidden, target_ids), full.training_nll(hidden, target_ids))
    for expected, got in zip(gradients(full, hidden, target_ids), gradients(sampled, hidden, target_ids), strict=True):
        torch.testing.assert_close(got, expected)


def test_sampled_loss_is_a_softmax_over_the_target_and_the_drawn_words_corrected_by_expected_counts():
    softmax = make("sampled", num_samples=8)
    hidden, target_ids = positions()
    hidden = 0.1 * hidden  # so that no word is negligible
    torch.manual_seed(3)
    losses = softmax.training_nll(hidden, target_ids)
    torch.manual_seed(3)
    drawn, threshold = softmax._draw()
    assert set(drawn.tolist()) & set(target_ids.tolist())  # accidental hits are among them
    for position, target in enumerate(target_ids.tolist()):
        candidates = sorted({target, *drawn.tolist()})
        corrected = {}
        for word in candidates:
            probability = math.log((word + 2) / (word + 1)) / math.log(NUM_WORDS + 1)
            logit = softmax.weight[word] @ hidden[position] + softmax.bias[word]
            corrected[word] = logit.item() - math.log(1 - math.exp(-probability * threshold.item()))
        expected = math.log(sum(math.exp(logit) for logit in corrected.values())) - corrected[target]
        assert losses[position].item() == pytest.approx(expected, rel=1e-4)


def test_sampled_loss_and_gradients_are_those_of_cross_entropy_with_the_target_among_the_drawn():
    target = torch.randn(6, dtype=torch.double, requires_grad=True)
    others = (30 * torch.randn(6, 9, dtype=torch.double)).requires_grad_()
    scale = torch.randn(6, dtype=torch.double)
    logits = torch.cat([target.unsqueeze(1), others], dim=1)
    expected = torch.nn.functional.cross_entropy(logits, torch.zeros(6, dtype=torch.long), reduction="none")
    nll, _ = softmax_module._TargetNll.apply(target, others.clone())
    torch.testing.assert_close(nll, expected)
    torch.testing.assert_close(
        torch.autograd.grad(nll, (target, others), scale), torch.autograd.grad(expected, (target, others), scale)
    )


def test_sampled_loss_is_in_single_precision_under_autocast():
    softmax = make("sampled", num_samples=8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        nll = softmax.training_nll(*positions())
    nll.sum().backward()
    assert nll.dtype == torch.float32 and softmax.weight.grad.isfinite().all()


def test_drawn_words_are_unique_and_log_uniform():
    softmax = make("sampled", num_samples=1)
    first = torch.stack([softmax._draw().ids for _ in range(4000)]).flatten()
    frequencies = torch.bincount(first, minlength=NUM_WORDS) / len(first)
    ranks = torch.arange(NUM_WORDS)
    expected = torch.log((ranks + 2) / (ranks + 1)) / math.log(NUM_WORDS + 1)
    assert expected.sum().item() == pytest.approx(1.0)
    torch.testing.assert_close(frequencies, expected, atol=0.03, rtol=0.0)
    many = SampledSoftmax(NUM_WORDS, DIM, num_samples=NUM_WORDS - 1)._draw().ids
    assert len(set(many.tolist())) == NUM_WORDS - 1


@pytest.mark.parametrize("num_samples", [3, 12, 40])
def test_expected_counts_are_the_probabilities_of_being_drawn(num_samples):
    softmax = make("sampled", num_samples=num_samples)
    num_draws = 4000
    every_word = torch.arange(NUM_WORDS)
    drawn, expected_count, weight = torch.zeros(3, NUM_WORDS)
    for _ in range(num_draws):
        ids, threshold = softmax._draw()
        counts = softmax._log_expected_count(every_word, threshold).exp()
        drawn[ids] += 1
        expected_count += counts
        weight[ids] += 1 / counts[ids]
    # The stopping time varies from draw to draw, which matters for a handful of samples only.
    torch.testing.assert_close(drawn / num_draws, expected_count / num_draws, atol=0.04 + 0.1 / num_samples, rtol=0.0)
    # Weighted by the inverse of its expected count every word counts once on average, however rare it is.
    torch.testing.assert_close(weight / num_draws, torch.ones(NUM_WORDS), atol=0.3, rtol=0.0)
    assert weight.mean().item() / num_draws == pytest.approx(1.0, abs=0.02)


def test_the_error_of_the_sampled_gradient_shrinks_as_samples_grow():
    hidden, target_ids = positions()
    hidden = hidden.detach().mul(0.3).requires_grad_()  # at larger logits a single word, drawn or not, decides
    exact = torch.cat([gradient.flatten() for gradient in gradients(make("full"), hidden, target_ids)])
    errors = []
    for num_samples in (4, 16, 45):
        softmax = make("sampled", num_samples=num_samples)
        draws = [torch.cat([g.flatten() for g in gradients(softmax, hidden, target_ids)]) for _ in range(30)]
        errors.append(torch.stack([(draw - exact).norm() for draw in draws]).mean().item() / exact.norm().item())
    assert errors[0] > 1.5 * errors[1] > 1.5 * 1.5 * errors[2], errors


def test_sampling_only_the_target_itself_leaves_finite_gradients():
    softmax = make("sampled", num_samples=1)
    hidden, _ = positions()
    drawn = softmax._draw().ids
    torch.manual_seed(0)
    target_ids = drawn.expand(NUM_POSITIONS)
    softmax._draw = lambda: type(SampledSoftmax._draw(softmax))(drawn, torch.tensor(1.0))
    assert softmax.training_nll(hidden, target_ids).tolist() == [0.0] * NUM_POSITIONS
    assert all(gradient.isfinite().all() for gradient in gradients(softmax, hidden, target_ids))


class Predicting(torch.nn.Module):
    """The least that DistributedDataParallel can wrap."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.softmax = make("sampled", num_samples=5, sparse=sparse)
        self._ddp_params_and_buffers_to_ignore = [f"softmax.{name}" for name in self.softmax.reduced_here]

    def forward(self, hidden, target_ids):
        return self.softmax.training_nll(hidden, target_ids).sum()


def _train_a_share(rank: int, sparse: bool, num_positions, folder) -> None:
    store = torch.distributed.FileStore(str(folder / f"store {sparse}"), 2)
    timeout = datetime.timedelta(seconds=300)
    torch.distributed.init_process_group("gloo", store=store, world_size=2, rank=rank, timeout=timeout)
    model, num_bytes = Predicting(sparse), [0]
    if rank and sparse:
        model.softmax.weight.data.zero_()  # rank 0's is everyone's
    parallel = torch.nn.parallel.DistributedDataParallel(model)

    def reduce(state, bucket):
        num_bytes[0] += bucket.buffer().nbytes
        return default_hooks.allreduce_hook(state, bucket)

    def gather(tensors, tensor, original=torch.distributed.all_gather):
        num_bytes[0] += tensor.nbytes
        return original(tensors, tensor)

    parallel.register_comm_hook(None, reduce)
    torch.distributed.all_gather = gather
    torch.manual_seed(rank)
    hidden, target_ids = torch.randn(num_positions[rank], DIM), torch.randint(NUM_WORDS, (num_positions[rank],))
    parallel(hidden, target_ids).backward()
    weight = model.softmax.weight
    assert weight.grad.is_sparse == sparse
    found = {"weight": weight.data, "gradient": weight.grad.to_dense(), "bytes": torch.tensor(num_bytes)}
    torch.save(found, folder / f"{sparse} {rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    # Otherwise torch may wait for one of its threads, and that one for Python's lock, for ever.
    os._exit(0)


@pytest.mark.parametrize("num_positions", [(3, 3), (2, 4)])
def test_processes_exchange_the_rows_they_took_and_get_the_dense_gradient(tmp_path, num_positions):
    found = {}
    for sparse in (False, True):
        torch.multiprocessing.start_processes(
            _train_a_share, args=(sparse, num_positions, tmp_path), nprocs=2, start_method="fork"
        )
        found[sparse] = [torch.load(tmp_path / f"{sparse} {rank}.pt") for rank in range(2)]
    for of_rank in found[True]:
        torch.testing.assert_close(of_rank["weight"], found[False][0]["weight"], rtol=0, atol=0)
        torch.testing.assert_close(of_rank["gradient"], found[False][0]["gradient"])
    # 5 drawn rows and the targets' with their ids, beside the bias; instead of all rows and the bias.
    rows = 5 + max(num_positions)
    assert [of_rank["bytes"].item() for of_rank in found[True]] == [rows * (DIM * 4 + 8) + NUM_WORDS * 4] * 2
    assert [of_rank["bytes"].item() for of_rank in found[False]] == [NUM_WORDS * (DIM + 1) * 4] * 2


def test_sparse_gradients_equal_dense_ones_and_touch_only_drawn_and_target_rows():
    dense, sparse = make("sampled", num_samples=5), make("sampled", num_samples=5, sparse=True)
    hidden, target_ids = positions()
    results = []
    for softmax in (dense, sparse):
        torch.manual_seed(4)
        results.append(dict(zip(["hidden", "weight", "bias"], gradients(softmax, hidden, target_ids), strict=True)))
    assert results[1]["weight"].is_sparse
    assert len(results[1]["weight"].coalesce().indices()[0]) <= 5 + NUM_POSITIONS
    for name, expected in results[0].items():
        torch.testing.assert_close(results[1][name].to_dense(), expected)


def test_sampling_depends_on_torchs_global_generator_alone():
    softmax = make("sampled", num_samples=5)
    torch.manual_seed(7)
    state = torch.get_rng_state()
    first = softmax._draw().ids
    assert not torch.equal(first, softmax._draw().ids)
    torch.set_rng_state(state)
    assert torch.equal(first, softmax._draw().ids)


def test_full_and_sampled_share_their_parameters_and_start_as_the_original():
    full, sampled = FullSoftmax(2000, 64), SampledSoftmax(2000, 64, num_samples=8)
    assert set(full.state_dict()) == set(sampled.state_dict()) == {"weight", "bias"}
    assert full.weight.std().item() == pytest.approx(1 / 8, rel=0.02)
    assert not full.bias.any()


def test_top_k_ranks_by_the_sum_of_both_contexts():
    softmax = make("adaptive", cutoffs=[10, 20])
    (one, _), (other, _) = positions(1), positions(2)
    scores, ids = softmax.top_k([one, other], 3)
    expected = (softmax.log_probs(one) + softmax.log_probs(other)).sort(dim=-1, descending=True)
    torch.testing.assert_close(scores, expected.values[:, :3])
    assert torch.equal(ids, expected.indices[:, :3])
    assert softmax.top_k([one], 10 * NUM_WORDS)[1].shape == (NUM_POSITIONS, NUM_WORDS)


@pytest.mark.parametrize("name, arguments", SOFTMAXES)
def test_no_positions_at_all(name, arguments):
    softmax = make(name, **arguments)
    assert softmax.exact_nll(torch.zeros(0, DIM), torch.zeros(0, dtype=torch.long)).shape == (0,)
    assert softmax.top_k([torch.zeros(0, DIM)], 2)[0].shape == (0, 2)


@pytest.mark.parametrize("name, arguments", SOFTMAXES)
def test_measuring_ignores_mixed_precision_and_training_survives_it(name, arguments):
    softmax = make(name, **arguments)
    hidden, target_ids = positions()
    expected = softmax.exact_nll(hidden, target_ids)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(softmax.exact_nll(hidden, target_ids), expected)
        loss = softmax.training_nll(hidden, target_ids).sum()
    loss.backward()
    assert hidden.grad.isfinite().all()


@pytest.mark.parametrize("num_words, expected", [(2, [1]), (9, [1]), (10, [1, 2]), (800_000, [40_000, 160_000])])
def test_default_cutoffs_fit_any_vocabulary(num_words, expected):
    assert default_cutoffs(num_words) == expected
    AdaptiveSoftmax(min(num_words, 100), DIM)


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("adaptive", {"cutoffs": [20, 10]}, r"rise.*50 words; got \[20, 10\]"),
        ("adaptive", {"cutoffs": [10, 50]}, "less than the vocabulary's 50 words"),
        ("adaptive", {"cutoffs": [5, 10, 20]}, "0 wide"),
        ("sampled", {"num_samples": 0}, "num_samples has to be at least 1, got 0"),
        ("full", {"max_chunk_elements": 0}, "max_chunk_elements has to be at least 1"),
    ],
)
def test_impossible_settings_are_refused(name, arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        make(name, **arguments)
