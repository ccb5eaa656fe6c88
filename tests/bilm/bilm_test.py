import copy
import pickle

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from torch.utils._pytree import tree_leaves

from elmo_plugin.bilm import BiLm, BiLmOptions, BiLmSource, directions
from elmo_plugin.bilm import frozen as frozen_weights

TINY = dict(projection_dim=4, cell_dim=6, char_dim=3, filters=((1, 4), (2, 5)))

SENTENCES = [
    ["The", "cat", "sat", "."],
    ["Hello"],
    ["x" * 60, "naïve", "\U0001f600", "<S>", ""],
    ["The", "cat", "sat", "."],
    ["the"] * 7,
]

SIZES = {
    "tiny": dict(),
    "mid-size": dict(
        lstm={"projection_dim": 64, "dim": 256},
        char_cnn={"filters": [[1, 16], [2, 32], [5, 64]], "embedding": {"dim": 16}},
    ),
    "tanh": dict(char_cnn={"activation": "tanh"}),
    "one highway": dict(char_cnn={"n_highway": 1}),
    "one layer": dict(lstm={"n_layers": 1}),
    "three layers": dict(lstm={"n_layers": 3}),
    "no clipping": dict(lstm={"cell_clip": None, "proj_clip": None}),
    "clips that bite": dict(lstm={"cell_clip": 0.4, "proj_clip": 0.2}, scale=2.0),
}


def assert_equals_allennlp(files, bilm, batches, atol=1e-5):
    reference = _ElmoBiLm(*files).eval()
    for sentences in batches:
        ids = batch_to_ids(sentences)
        with torch.no_grad():
            expected, actual = reference(ids), bilm(ids)
        assert torch.equal(actual.mask, expected["mask"])
        for layer, expected_layer in zip(actual.layers, expected["activations"], strict=True):
            torch.testing.assert_close(layer, expected_layer, atol=atol, rtol=0)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_every_layer_equals_allennlps(make_bilm_files, sizes):
    files = make_bilm_files(**sizes)
    assert_equals_allennlp(files, BiLmSource.from_files(*files), [SENTENCES])


@pytest.mark.parametrize(
    "sentences", [[["word"]], [[f"w{i}" for i in range(300)]], [[], ["a"]]], ids=["one token", "300 tokens", "empty"]
)
def test_odd_lengths_equal_allennlps(bilm_files, sentences):
    assert_equals_allennlp(bilm_files, BiLmSource.from_files(*bilm_files), [sentences])


def test_clipping_really_bites_where_it_is_tested(make_bilm_files):
    sizes = SIZES["clips that bite"]
    clipped = BiLmSource.from_files(*make_bilm_files(**sizes))
    unclipped = BiLmSource.from_files(
        *make_bilm_files(lstm={"cell_clip": None, "proj_clip": None}, scale=sizes["scale"], name="unclipped")
    )
    ids = batch_to_ids(SENTENCES)
    assert (clipped(ids).layers[1] - unclipped(ids).layers[1]).abs().max() > 0.1


def test_carried_states_equal_allennlps_batch_after_batch(bilm_files):
    bilm = BiLmSource.from_files(*bilm_files, stateful=True)
    batches = [[["a", "b"], ["c"]], [["d"], ["e", "f"], ["g"]], [["h"]], [["i", "j"], ["k"]], SENTENCES]
    assert_equals_allennlp(bilm_files, bilm, batches)


def test_a_stateful_bilm_starts_over_after_a_reset(bilm_files):
    bilm = BiLmSource.from_files(*bilm_files, stateful=True)
    ids = batch_to_ids(SENTENCES)
    first, second = bilm(ids).layers, bilm(ids).layers
    bilm.reset_state()
    assert not torch.allclose(first, second)
    assert torch.equal(bilm(ids).layers, first)


def test_carried_states_are_no_part_of_the_state_dict(bilm_files):
    bilm = BiLmSource.from_files(*bilm_files, stateful=True)
    names = set(bilm.state_dict())
    bilm(batch_to_ids(SENTENCES))
    assert set(bilm.state_dict()) == names == {name for name, _ in bilm.named_parameters()}


def test_a_sentences_vectors_depend_on_that_sentence_alone(bilm_files):
    bilm = BiLmSource.from_files(*bilm_files)
    batch = bilm(batch_to_ids(SENTENCES)).layers
    for row in (2, 4, 0, 1, 3):  # another order, no batch-mates, no padding, and after other sentences
        alone = bilm(batch_to_ids([SENTENCES[row]])).layers[:, 0]
        torch.testing.assert_close(batch[:, row, : alone.size(1)], alone, atol=1e-6, rtol=0)
        assert (batch[:, row, alone.size(1) :] == 0).all()


def test_a_word_type_goes_through_the_character_cnn_once(bilm_files, monkeypatch):
    bilm = BiLmSource.from_files(*bilm_files)
    seen = []
    original = bilm.character_cnn.forward
    monkeypatch.setattr(bilm.character_cnn, "forward", lambda ids: seen.append(len(ids)) or original(ids))
    bilm(batch_to_ids([["a", "b", "a"], ["b", "b"]]))
    assert seen == [5]  # a, b, the two boundaries, and padding


def test_identical_sentences_run_once(bilm_files, monkeypatch):
    bilm = BiLmSource.from_files(*bilm_files)
    rows = []
    original = bilm.run
    monkeypatch.setattr(bilm, "run", lambda inputs, *rest: rows.append(len(inputs)) or original(inputs, *rest))
    layers = bilm(batch_to_ids(SENTENCES)).layers
    assert rows == [4]
    assert torch.equal(layers[:, 0], layers[:, 3])


def test_the_forward_direction_sees_no_future_and_the_backward_no_past(bilm_files):
    bilm = BiLmSource.from_files(*bilm_files)
    dim = bilm.options.projection_dim
    before, after = (bilm(batch_to_ids([["a", "b", word, "d", "e"]])).layers[1:, 0] for word in ("c", "other"))
    changed = 3  # the third word, behind <S>
    assert torch.equal(before[:, :changed, :dim], after[:, :changed, :dim])
    assert torch.equal(before[:, changed + 1 :, dim:], after[:, changed + 1 :, dim:])
    assert not torch.allclose(before[:, changed:, :dim], after[:, changed:, :dim])


def test_run_in_two_parts_equals_run_at_once():
    torch.manual_seed(0)
    bilm = BiLm(BiLmOptions(**TINY))
    forward, backward = torch.randn(2, 3, 9, 4)
    whole = bilm.run(forward, backward)
    first = bilm.run(forward[:, :4], backward[:, :4])
    second = bilm.run(forward[:, 4:], backward[:, 4:], state=first.state)
    for one, two, both in zip(
        first.forward + first.backward, second.forward + second.backward, whole.forward + whole.backward, strict=True
    ):
        torch.testing.assert_close(torch.cat([one, two], dim=1), both)
    torch.testing.assert_close(second.state, whole.state)


def test_a_reset_forgets_what_came_before():
    torch.manual_seed(0)
    bilm = BiLm(BiLmOptions(**TINY))
    inputs = torch.randn(2, 6, 4)
    resets = torch.zeros(2, 6, dtype=torch.bool)
    resets[1, 3] = True
    output = bilm.run(inputs, inputs, resets=resets).forward[-1]
    torch.testing.assert_close(output[0], bilm.run(inputs, inputs).forward[-1][0])
    torch.testing.assert_close(output[1, 3:], bilm.run(inputs[:, 3:], inputs[:, 3:]).forward[-1][1])


def test_rows_that_end_early_keep_their_last_state():
    torch.manual_seed(0)
    bilm = BiLm(BiLmOptions(**TINY))
    inputs = torch.randn(3, 5, 4)
    output = bilm.run(inputs, inputs, lengths=torch.tensor([2, 5, 0]))
    alone = bilm.run(inputs[:1, :2], inputs[:1, :2])
    torch.testing.assert_close(output.state.forward[1].cell[0], alone.state.forward[1].cell[0])
    assert (output.state.forward[1].cell[2] == 0).all()
    assert (output.forward[1][0, 2:] == 0).all()


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    bilm = BiLm(BiLmOptions(**TINY), dropout=0.5)
    ids = batch_to_ids(SENTENCES)
    assert not torch.equal(bilm(ids).layers, bilm(ids).layers)
    bilm.eval()
    assert torch.equal(bilm(ids).layers, bilm(ids).layers)


def test_without_skip_connections_the_input_is_not_added(make_bilm_files):
    with_skips = BiLmSource.from_files(*make_bilm_files())
    without = BiLmSource.from_files(*make_bilm_files(lstm={"use_skip_connections": False}, name="without"))
    ids = batch_to_ids([["a", "b"]])
    torch.testing.assert_close(
        with_skips(ids).layers[2] - with_skips(ids).layers[1], without(ids).layers[2], atol=1e-6, rtol=0
    )


def test_other_widths_of_a_token_are_refused(bilm_files):
    with pytest.raises(ConfigurationError, match=r"came with 20 characters, but this biLM reads 50"):
        BiLmSource.from_files(*bilm_files)(torch.ones(1, 2, 20, dtype=torch.long))


def frozen(bilm):
    return bilm.requires_grad_(False).eval()


def test_laid_out_weights_two_threads_and_remembered_words_change_no_layer(bilm_files, monkeypatch):
    monkeypatch.setattr(frozen_weights, "mkl_has_avx512", lambda: False)
    monkeypatch.setattr(frozen_weights, "_LEAST_PACKED_NUMBERS", 0)
    monkeypatch.setattr(directions, "_LEAST_MULTIPLY_ADDS_PER_THREAD", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda num_threads: None)
    threads = []
    original = directions.side_by_side
    monkeypatch.setattr(directions, "side_by_side", lambda *both: threads.append(2) or original(*both))
    bilm = frozen(BiLmSource.from_files(*bilm_files))
    # Once with nothing remembered and once with all words; a batch and a single sentence.
    assert_equals_allennlp(bilm_files, bilm, [SENTENCES])
    assert_equals_allennlp(bilm_files, bilm, [SENTENCES])
    assert_equals_allennlp(bilm_files, bilm, [SENTENCES[:1]])
    assert len(threads) == 3 and len(bilm.token_cache) > 5
    kinds = {type(product).__name__ for _, product in bilm.forward_layers[0]._products._made.values()}
    assert kinds == {"PackedProduct", "TransposedProduct"}


def test_words_are_remembered_by_a_frozen_bilm_until_a_weight_changes(bilm_files, monkeypatch):
    bilm = frozen(BiLmSource.from_files(*bilm_files))
    seen = []
    original = bilm.character_cnn.forward
    monkeypatch.setattr(bilm.character_cnn, "forward", lambda ids: seen.append(len(ids)) or original(ids))
    bilm(batch_to_ids([["a", "b"]]))
    bilm(batch_to_ids([["a", "c"]]))
    bilm.load_state_dict({name: 2 * tensor for name, tensor in bilm.state_dict().items()})
    doubled = bilm(batch_to_ids([["a", "c"]])).layers
    assert seen == [4, 1, 4]
    torch.testing.assert_close(doubled, frozen(copy.deepcopy(bilm))(batch_to_ids([["a", "c"]])).layers)


@pytest.mark.parametrize("keep_from", ["trainable", "size 0"])
def test_words_are_not_remembered_otherwise(bilm_files, keep_from):
    bilm = frozen(BiLmSource.from_files(*bilm_files))
    if keep_from == "trainable":
        bilm.requires_grad_()
    else:
        bilm.token_cache.megabytes = 0
    with torch.no_grad():
        bilm(batch_to_ids(SENTENCES))
    assert len(bilm.token_cache) == 0


def test_what_is_remembered_is_no_part_of_the_state_dict_copies_or_pickles(bilm_files):
    bilm = frozen(BiLmSource.from_files(*bilm_files))
    size = len(pickle.dumps(bilm))
    names = set(bilm.state_dict())
    layers = bilm(batch_to_ids(SENTENCES)).layers
    assert set(bilm.state_dict()) == names and len(pickle.dumps(bilm)) == size
    for other in (copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm))):
        assert len(other.token_cache) == 0
        torch.testing.assert_close(other(batch_to_ids(SENTENCES)).layers, layers)


def test_int8_is_near_and_by_choice(make_bilm_files):
    bilm = frozen(BiLmSource.from_files(*make_bilm_files(**SIZES["mid-size"])))
    ids = batch_to_ids(SENTENCES)
    exact = bilm(ids).layers
    bilm.precision = "int8"
    rounded = bilm(ids).layers
    error = (rounded - exact).abs()
    assert torch.equal(rounded[0], exact[0])
    assert 0 < error[1:].mean() < 0.05 * exact[1:].abs().mean()


@pytest.mark.parametrize("with_gradients", [True, False])
def test_int8_is_refused_where_weights_train(with_gradients):
    bilm = BiLm(BiLmOptions(**TINY), precision="int8")
    with torch.set_grad_enabled(with_gradients), pytest.raises(ConfigurationError, match="for embedding with a frozen"):
        bilm(batch_to_ids(SENTENCES))


@pytest.mark.parametrize("with_resets", [False, True])
def test_bfloat16_is_near_gradients_included(with_resets):
    torch.manual_seed(0)
    bilm = BiLm(BiLmOptions(**TINY))
    inputs, resets = torch.randn(2, 3, 6, 4), torch.rand(3, 6) < 0.3 if with_resets else None
    results = []
    for precision in ("float32", "bfloat16"):
        bilm.precision = precision
        output = bilm.run(*inputs, resets=resets)
        assert output.forward[0].dtype == output.state.backward[1].hidden.dtype == torch.float32
        bilm.zero_grad()
        sum(layer.square().sum() for layer in output.forward + output.backward).backward()
        with torch.no_grad():
            without_gradients = bilm.run(*inputs, resets=resets)
        results.append((output, without_gradients, [layer.grad for layer in bilm.forward_layers.parameters()]))
    for rounded, exact in zip(tree_leaves(results[1]), tree_leaves(results[0]), strict=True):
        assert 0 < (rounded - exact).norm() < 0.03 * exact.norm()


@pytest.mark.parametrize("precision, expected", [("tf32", "high"), ("float32", "highest")])
def test_tf32_is_allowed_where_it_is_asked_for(monkeypatch, precision, expected):
    bilm, chosen = BiLm(BiLmOptions(**TINY), precision=precision), ["highest"]
    monkeypatch.setattr(torch, "set_float32_matmul_precision", chosen.append)
    inputs = torch.randn(2, 3, 6, 4)
    bilm.run(*inputs)
    assert chosen == ["highest"], "a CPU has no TF32"
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)
    bilm.run(*inputs)
    assert chosen[-1] == expected


def test_sizes_of_the_token_cache_below_zero_are_refused():
    with pytest.raises(ConfigurationError, match="token_cache_megabytes has to be at least 0, got -1"):
        BiLm(BiLmOptions(**TINY), token_cache_megabytes=-1)
