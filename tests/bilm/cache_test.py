import copy
import logging
import os
import pickle
import re

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin.bilm import BiLm, BiLmOutput, BiLmSource
from elmo_plugin.bilm.cache import DiskCache, LayerCache, NoCache, RamCache, fingerprint

SENTENCES = [["The", "cat", "sat", "down"], ["Hello"], ["A", "dog", "ran"], ["Hello"], ["Two", "words"]]
IDS = batch_to_ids(SENTENCES)


@pytest.fixture
def bilm(bilm_files):
    return BiLmSource.from_files(*bilm_files).requires_grad_(False).eval()


@pytest.fixture(params=["ram", "disk"])
def make_cache(request, tmp_path):
    """Makes a cache of either kind; every one on disk with the same name lies in the same folder."""

    def make(name="cache", **arguments):
        if request.param == "ram":
            return RamCache(**arguments)
        return DiskCache(str(tmp_path / name), **{"megabytes": 64, **arguments})

    return make


@pytest.fixture
def disk(tmp_path):
    return DiskCache(str(tmp_path / "cache"), megabytes=64)


@pytest.fixture
def runs(bilm, monkeypatch):
    """The shapes of the batches that the biLM is run on."""
    shapes = []
    original = bilm.forward
    monkeypatch.setattr(bilm, "forward", lambda ids: shapes.append(tuple(ids.shape[:2])) or original(ids))
    return shapes


def assert_same(output, expected, **tolerance):
    torch.testing.assert_close(output.layers, expected.layers, **{"atol": 1e-6, "rtol": 0, **tolerance})
    assert torch.equal(output.mask, expected.mask)


def test_the_same_batch_gives_exactly_the_same_layers_and_is_run_once(bilm, runs, make_cache):
    expected = bilm(IDS)
    runs.clear()
    cache = make_cache()
    for _ in range(3):
        assert_same(cache.run(bilm, IDS), expected, atol=0)
    assert runs == [(5, 4)]


def test_only_the_sentences_that_are_not_there_are_run_and_no_longer_than_they_are(bilm, runs, make_cache):
    cache = make_cache()
    cache.run(bilm, IDS[:2])
    runs.clear()
    mixed = batch_to_ids([["New", "here"], SENTENCES[0], ["Hello"], ["New", "too", "!"], ["New", "here"]])
    output = cache.run(bilm, mixed)
    assert runs == [(3, 3)]
    assert_same(output, bilm(mixed))


def test_a_sentence_is_found_in_a_batch_padded_otherwise(bilm, runs, make_cache):
    cache = make_cache()
    cache.run(bilm, IDS)
    runs.clear()
    longer = torch.nn.functional.pad(IDS[2:4], (0, 0, 0, 3))
    output = cache.run(bilm, longer)
    assert not runs
    assert_same(output, bilm(longer))
    assert (output.layers[:, 1, 3:] == 0).all()


def test_rows_without_tokens_are_cached_too(bilm, runs, make_cache):
    cache = make_cache()
    ids = torch.cat([IDS, torch.zeros_like(IDS[:1])])
    expected = bilm(ids)
    runs.clear()
    for _ in range(2):
        assert_same(cache.run(bilm, ids), expected)
    assert len(runs) == 1


def test_float16_keeps_about_three_digits(bilm, make_cache):
    cache = make_cache(float16=True)
    expected = bilm(IDS)
    for _ in range(2):
        output = cache.run(bilm, IDS)
        assert output.layers.dtype == torch.float32
        assert_same(output, expected, atol=1e-4, rtol=1e-3)
    assert not torch.equal(output.layers, expected.layers)


def test_float16_takes_half_the_room(bilm):
    full, half = RamCache(), RamCache(float16=True)
    for cache in (full, half):
        cache.run(bilm, IDS)
    assert full.store.num_bytes == 2 * half.store.num_bytes > 0


def test_the_token_layer_is_kept_at_half_width(bilm):
    cache = RamCache()
    cache.run(bilm, IDS[1:2])
    assert cache.store.num_bytes == 3 * (2 * 3 - 1) * bilm.options.projection_dim * 4


def test_first_come_stays_and_the_budget_is_kept(bilm, runs):
    roomy = RamCache()
    roomy.run(bilm, IDS[:1])
    cache = RamCache(megabytes=1.5 * roomy.store.num_bytes / 2**20)  # for one and a half of these
    runs.clear()
    for _ in range(3):
        for ids in (IDS[:1], IDS[2:3]):
            assert_same(cache.run(bilm, ids), BiLm.forward(bilm, ids))
    assert runs == [(1, 4)] * 4  # the first once, the other three times
    assert cache.store.num_bytes == roomy.store.num_bytes


def test_what_would_hold_the_data_is_said_once(bilm, caplog):
    batches = [batch_to_ids([[f"word{number}"] * 80]) for number in range(30)]
    roomy, small = RamCache(), RamCache(megabytes=0.2)
    with caplog.at_level(logging.WARNING, "elmo_plugin.bilm.cache"):
        for _ in range(2):
            for ids in batches:
                roomy.run(bilm, ids)
                small.run(bilm, ids)
            roomy.report()
            small.report()
    (message,) = [record.message for record in caplog.records]
    assert "0.2 of 0 MB, full" in message
    assert roomy.store.num_bytes / 2**20 < int(re.search(r"'megabytes' of (\d+) ", message).group(1)) < 3


@pytest.mark.parametrize("num_bytes", [2**30, 2**34])
def test_the_default_is_a_quarter_of_the_memory(num_bytes, monkeypatch):
    monkeypatch.setattr("os.sysconf", {"SC_PHYS_PAGES": num_bytes // 4096, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert RamCache().megabytes == num_bytes / 4 / 2**20


def test_a_full_disk_store_goes_on_with_what_it_has(bilm, tmp_path):
    cache = DiskCache(str(tmp_path / "cache"), megabytes=0.02)
    for _ in range(2):
        for number in range(40):
            ids = batch_to_ids([[f"word{number}"] * 5])
            assert_same(cache.run(bilm, ids), bilm(ids))
    assert cache.is_full
    assert 0.015 * 2**20 < sum(file.stat().st_size for file in (tmp_path / "cache").iterdir()) <= 0.02 * 2**20


def test_a_megabyte_figure_of_zero_turns_it_off(bilm, runs, make_cache):
    cache = make_cache(megabytes=0)
    for _ in range(2):
        cache.run(bilm, IDS)
    assert len(runs) == 2


def unfreeze(bilm):
    next(bilm.parameters()).requires_grad_()


def drop(bilm):
    bilm.train().dropout.p = 0.5


def carry(bilm):
    bilm.stateful = True


@pytest.mark.parametrize("change", [unfreeze, drop, carry])
def test_it_steps_aside_where_a_sentence_may_give_other_vectors_the_next_time(bilm, runs, make_cache, change):
    cache = make_cache()
    cache.run(bilm, IDS)
    change(bilm)
    runs.clear()
    first, second = cache.run(bilm, IDS), cache.run(bilm, IDS)
    assert len(runs) == 2
    if change is unfreeze:
        assert first.layers.requires_grad
    else:
        assert not torch.equal(first.layers, second.layers)


def test_dropout_that_is_not_at_work_does_not_matter(bilm, runs, make_cache):
    bilm.dropout.p = 0.5
    cache = make_cache()
    for _ in range(2):
        cache.run(bilm.eval(), IDS)
    assert len(runs) == 1


def load(bilm):
    bilm.load_state_dict({name: weight * 1.5 for name, weight in bilm.state_dict().items()})


def assign(bilm):
    bilm.load_state_dict({name: weight * 1.5 for name, weight in bilm.state_dict().items()}, assign=True)
    bilm.requires_grad_(False)


def change_in_place(bilm):
    with torch.no_grad():
        bilm.forward_layers[0].bias.add_(0.5)


def quantize(bilm):
    bilm.precision = "int8"


@pytest.mark.parametrize("change", [load, assign, change_in_place, quantize, torch.nn.Module.double])
def test_what_old_weights_computed_is_forgotten(bilm, make_cache, change):
    cache = make_cache()
    before = cache.run(bilm, IDS)
    change(bilm)
    after = cache.run(bilm, IDS)
    assert_same(after, bilm(IDS), atol=0)
    assert not torch.equal(before.layers, after.layers)


def test_a_full_cache_has_room_again_for_new_weights(bilm):
    cache = RamCache(megabytes=0.0001)
    cache.run(bilm, IDS[:1])
    assert cache.is_full
    cache.megabytes = 1
    change_in_place(bilm)
    cache.run(bilm, IDS)
    assert not cache.is_full and len(cache.store._entries) == 4


def test_mixed_precision_has_entries_of_its_own(bilm, make_cache):
    cache = make_cache()
    plain = cache.run(bilm, IDS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = cache.run(bilm, IDS)
        again = cache.run(bilm, IDS)
    assert not torch.equal(mixed.layers, plain.layers)
    assert torch.equal(mixed.layers, again.layers)
    assert torch.equal(cache.run(bilm, IDS).layers, plain.layers)


def test_tokens_of_another_width_are_refused_by_a_warm_cache_too(bilm, make_cache):
    cache = make_cache()
    cache.run(bilm, IDS)
    with pytest.raises(ConfigurationError, match="max_characters_per_token"):
        cache.run(bilm, IDS.reshape(5, 8, 25))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_entries_are_neither_copied_nor_pickled(bilm, runs, make_cache, duplicate):
    cache = make_cache()
    cache.run(bilm, IDS)
    other = duplicate(cache)
    assert len(pickle.dumps(other)) < 1000
    runs.clear()
    assert_same(other.run(bilm, IDS), cache.run(bilm, IDS))
    assert len(runs) == isinstance(cache, RamCache)


def test_it_reports_what_it_holds_and_how_often_it_served(bilm, make_cache, caplog):
    cache = make_cache()
    with caplog.at_level(logging.INFO, "elmo_plugin.bilm.cache"):
        cache.run(bilm, IDS)
        cache.run(bilm, IDS[:2])
        cache.report()
        cache.report()
    (message,) = [record.message for record in caplog.records]
    assert "4 sentences" in message and message.endswith("2 of 7 sentences came from it")


# ---- On a GPU ----

WAIT_FOR_IDS = {"bilm/cache.py _Sentences.of": 1}
WAIT_FOR_LAYERS = {"bilm/cache.py _Packing.pack": 1}


def test_on_a_gpu_all_is_as_on_the_cpu(bilm, make_cache, gpu):
    cache, expected = make_cache(), bilm(IDS)
    on_gpu = bilm.cuda()
    cache.run(on_gpu, IDS[:2].cuda())
    for _ in range(2):  # some found, then all
        output = cache.run(on_gpu, IDS.cuda())
        assert output.layers.is_cuda and output.mask.is_cuda
        assert_same(BiLmOutput(output.layers.cpu(), output.mask.cpu()), expected)


def test_on_a_gpu_the_host_waits_for_ids_and_once_for_what_it_keeps(bilm, make_cache, gpu):
    cache, on_gpu = make_cache(), bilm.cuda()
    cache.run(on_gpu, IDS[:1].cuda())  # when a disk cache reads the weights
    with gpu.counted() as first:
        cache.run(on_gpu, IDS.cuda())
    with gpu.counted() as second:
        cache.run(on_gpu, IDS.cuda())
    assert first.waits == {**WAIT_FOR_IDS, **WAIT_FOR_LAYERS}
    assert second.waits == WAIT_FOR_IDS


def test_on_a_gpu_a_full_cache_leaves_layers_where_they_are(bilm, gpu):
    cache, on_gpu = RamCache(megabytes=0.001), bilm.cuda()
    cache.run(on_gpu, IDS[1:2].cuda())
    cache.run(on_gpu, IDS[:1].cuda())
    assert cache.is_full and cache.store._entries
    for ids in (IDS[2:3], IDS[:3]):  # nothing found, something found
        with gpu.counted() as counts:
            output = cache.run(on_gpu, ids.cuda())
        assert counts.waits == WAIT_FOR_IDS
        torch.testing.assert_close(output.layers.cpu(), on_gpu(ids.cuda()).layers.cpu())


@pytest.mark.parametrize("float16", [False, True])
def test_another_process_s_cache_can_be_filled_with_the_very_same_vectors(bilm, bilm_files, float16):
    cache, filled = RamCache(float16=float16), RamCache(float16=float16)
    for rows in ([0, 1], [1, 2, 0], [4], [2, 3, 4]):
        cache.run(bilm, IDS[rows])
    other = BiLmSource.from_files(*bilm_files).requires_grad_(False).eval()
    filled.load_state_dict(pickle.loads(pickle.dumps(cache.state_dict())), other)
    assert filled.store._entries == cache.store._entries
    assert other.token_cache._rows == bilm.token_cache._rows
    assert filled.state_dict()["batches"] == cache.state_dict()["batches"]
    other.forward = None  # everything is found
    assert torch.equal(filled.run(other, IDS).layers, cache.run(bilm, IDS).layers)


@pytest.mark.parametrize("kind", ["disk", "none"])
def test_words_come_again_where_no_sentences_have_to(bilm, bilm_files, disk, kind):
    cache = disk if kind == "disk" else NoCache()
    for ids in (IDS[:2], IDS[:2], IDS):
        cache.run(bilm, ids)
    assert len(cache.state_dict()["batches"]) == 2  # once without a new word
    other = BiLmSource.from_files(*bilm_files).requires_grad_(False).eval()
    type(cache).load_state_dict(copy.copy(cache), cache.state_dict(), other)
    assert other.token_cache._rows == bilm.token_cache._rows


# ---- On disk ----


def test_a_damaged_store_costs_a_warning_and_no_run(bilm, disk, caplog):
    expected = disk.run(bilm, IDS)
    disk._opened = None  # as in the next run
    (name,) = os.listdir(disk.path)
    os.truncate(os.path.join(disk.path, name), 50)
    for _ in range(2):
        assert_same(disk.run(bilm, IDS), expected)
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) <= 1


def test_a_disk_that_takes_no_more_is_warned_of_once(bilm, disk, caplog, monkeypatch):
    def no_space(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    for _ in range(2):
        assert_same(disk.run(bilm, IDS), bilm(IDS))
    (warning,) = [record.message for record in caplog.records]
    assert disk.path in warning and "No space left" in warning


def test_a_store_outlives_its_cache(bilm, runs, disk):
    expected = disk.run(bilm, IDS)
    runs.clear()
    path = disk.path
    del disk
    assert_same(DiskCache(path, megabytes=64).run(bilm, IDS), expected, atol=0)
    assert not runs


def test_processes_share_a_store_and_one_that_ends_abruptly_leaves_it_whole(bilm, runs, disk):
    disk.run(bilm, IDS[:1])
    runs.clear()
    process_id = os.fork()
    if process_id == 0:
        try:
            torch.set_num_threads(1)  # OpenMP's threads don't survive a fork
            disk.run(bilm, IDS)
        finally:
            os._exit(0 if runs == [(4, 3)] else 1)
    assert os.waitpid(process_id, 0)[1] == 0
    runs.clear()
    output = disk.run(bilm, IDS)
    assert not runs
    assert_same(output, bilm(IDS))


def test_two_caches_in_one_process_share_a_store(bilm, runs, disk):
    disk.run(bilm, IDS)
    DiskCache(disk.path, megabytes=64).run(bilm, IDS)
    assert len(runs) == 1


def test_another_bilm_never_reads_what_the_first_one_wrote(bilm, make_bilm_files, disk):
    disk.run(bilm, IDS)
    other = BiLmSource.from_files(*make_bilm_files(seed=7, name="other")).requires_grad_(False).eval()
    assert_same(DiskCache(disk.path, megabytes=64).run(other, IDS), other(IDS), atol=0)


def test_a_fingerprint_depends_on_weights_and_options(bilm, make_bilm_files):
    same = BiLmSource.from_files(*make_bilm_files(name="same"))
    clipped = BiLmSource.from_files(*make_bilm_files(lstm={"cell_clip": 0.1}, name="clipped"))
    assert fingerprint(bilm) == fingerprint(same)
    assert fingerprint(bilm) != fingerprint(clipped)
    change_in_place(bilm)
    assert fingerprint(bilm) != fingerprint(same)


def test_float16_and_float32_live_in_one_store_side_by_side(bilm, disk):
    expected = bilm(IDS)
    DiskCache(disk.path, megabytes=64, float16=True).run(bilm, IDS)
    assert_same(disk.run(bilm, IDS), expected, atol=0)


def test_a_folder_that_cannot_be_opened_is_refused_by_name(bilm, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="can't open the biLM's cache in .*file"):
        DiskCache(str(tmp_path / "file")).run(bilm, IDS)


# ---- By config ----


@pytest.mark.parametrize(
    "config, kind",
    [
        ({}, RamCache),
        ({"type": "ram", "megabytes": 3, "float16": True}, RamCache),
        ({"type": "disk", "path": "somewhere", "megabytes": 3}, DiskCache),
        ({"type": "none"}, NoCache),
    ],
)
def test_a_config_builds_it(config, kind):
    assert type(LayerCache.from_params(Params(config))) is kind


def test_a_negative_size_is_refused():
    with pytest.raises(ConfigurationError, match="not -1"):
        RamCache(megabytes=-1)
