import itertools
import os
import random
import time
from typing import Callable, Iterator, Optional

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.training import Checkpointer, Trainer
from allennlp.training.trainer import TrainerCheckpoint

from elmo_plugin.training import checkpointer as checkpointer_module
from elmo_plugin.training.checkpointer import AtomicCheckpointer


class Killed(BaseException):
    """Not an Exception, as a kill can't be handled either."""


class CountingTrainer(Trainer):
    """Stands in for a trainer: its whole state is a number."""

    def __init__(self, epochs: int = 0, batches: int = 0, value: float = 0.0) -> None:
        self.epochs, self.batches, self.value = epochs, batches, value

    def get_checkpoint_state(self) -> Optional[TrainerCheckpoint]:
        training_state = {
            "epochs_completed": self.epochs,
            "batches_in_epoch_completed": self.batches,
            "value": self.value,
        }
        return TrainerCheckpoint({"weight": torch.tensor([self.value])}, training_state)


def save(folder, *points, **kwargs) -> AtomicCheckpointer:
    checkpointer = AtomicCheckpointer(folder, **kwargs)
    for epochs, batches in points:
        checkpointer.save_checkpoint(CountingTrainer(epochs, batches, epochs + batches / 100))
    return checkpointer


def load(folder) -> TrainerCheckpoint:
    checkpoint = AtomicCheckpointer(folder).load_checkpoint()
    assert checkpoint.model_state["weight"].item() == pytest.approx(checkpoint.trainer_state["value"])
    return checkpoint


def killed_after(num_calls: int, calls: Iterator[int], function: Callable) -> Callable:
    """The function, as long as `calls` has counted no more than `num_calls`."""

    def wrapper(*args, **kwargs):
        if next(calls) >= num_calls:
            raise Killed()
        return function(*args, **kwargs)

    return wrapper


def test_it_is_built_by_name(tmp_path):
    checkpointer = Checkpointer.from_params(
        Params({"type": "elmo::atomic", "keep_most_recent_by_count": 3}), serialization_dir=tmp_path
    )
    assert isinstance(checkpointer, AtomicCheckpointer)


def test_what_was_saved_is_loaded(tmp_path):
    save(tmp_path, (0, 5), (1, 0))
    assert load(tmp_path).trainer_state["epochs_completed"] == 1


def test_an_empty_or_missing_folder_has_no_checkpoint(tmp_path):
    assert AtomicCheckpointer(tmp_path).load_checkpoint() is None
    assert AtomicCheckpointer(tmp_path / "missing").find_latest_checkpoint() is None


def test_no_temporary_file_stays(tmp_path):
    save(tmp_path, (0, 5))
    assert sorted(os.listdir(tmp_path)) == ["model_state_e0_b5.th", "training_state_e0_b5.th"]


def test_a_kill_at_any_step_of_saving_leaves_a_whole_checkpoint(tmp_path, monkeypatch):
    """Kills at each call that touches the disk in turn, until saving gets through."""
    for steps in range(100):
        folder = tmp_path / str(steps)
        folder.mkdir()
        save(folder, (0, 1), (0, 2))
        calls = itertools.count()
        with monkeypatch.context() as patch:
            for module, name in ((os, "replace"), (os, "remove"), (os, "fsync"), (torch, "save")):
                patch.setattr(module, name, killed_after(steps, calls, getattr(module, name)))
            try:
                save(folder, (0, 3), keep_most_recent_by_count=1)
            except Killed:
                assert load(folder).trainer_state["batches_in_epoch_completed"] in (2, 3)
            else:
                break
    assert steps > 8
    assert load(folder).trainer_state["batches_in_epoch_completed"] == 3


def test_both_files_are_complete_before_either_gets_its_name(tmp_path, monkeypatch):
    replaced = []

    def replace(source, destination):
        if not replaced:
            for kind in ("model_state", "training_state"):
                torch.load(tmp_path / f".{kind}_e1_b0.th.{os.getpid()}.tmp")
        replaced.append(os.path.basename(destination))

    monkeypatch.setattr(checkpointer_module.os, "replace", replace)
    save(tmp_path, (1, 0))
    assert replaced == ["model_state_e1_b0.th", "training_state_e1_b0.th"]


@pytest.mark.parametrize("kind", ["model_state", "training_state"])
def test_an_incomplete_pair_is_ignored(tmp_path, kind):
    save(tmp_path, (0, 5), (1, 0))
    os.remove(tmp_path / f"{kind}_e1_b0.th")
    assert load(tmp_path).trainer_state["batches_in_epoch_completed"] == 5


def test_an_incomplete_pair_alone_is_no_checkpoint(tmp_path):
    save(tmp_path, (1, 0))
    os.remove(tmp_path / "training_state_e1_b0.th")
    assert AtomicCheckpointer(tmp_path).load_checkpoint() is None


def test_incomplete_pairs_of_the_past_and_temporary_files_are_cleaned_up(tmp_path):
    save(tmp_path, (0, 5))
    os.remove(tmp_path / "training_state_e0_b5.th")
    for name in (".model_state_e0_b7.th.12.tmp", ".training_state_e0_b7.th.12.tmp", "mine.tmp"):
        (tmp_path / name).write_text("left behind")
    save(tmp_path, (1, 0))
    assert sorted(os.listdir(tmp_path)) == ["mine.tmp", "model_state_e1_b0.th", "training_state_e1_b0.th"]


def test_the_model_of_a_killed_run_is_replaced(tmp_path):
    save(tmp_path, (1, 0))
    os.remove(tmp_path / "training_state_e1_b0.th")
    AtomicCheckpointer(tmp_path).save_checkpoint(CountingTrainer(1, 0, value=7.0))
    assert load(tmp_path).trainer_state["value"] == 7.0


def test_a_pair_of_an_earlier_run_never_mixes_with_the_new_one(tmp_path, monkeypatch):
    save(tmp_path, (0, 5), (1, 0))

    replace = os.replace

    def stop_after_the_model(source, destination):
        replace(source, destination)
        raise Killed()

    monkeypatch.setattr(checkpointer_module.os, "replace", stop_after_the_model)
    with pytest.raises(Killed):
        AtomicCheckpointer(tmp_path).save_checkpoint(CountingTrainer(1, 0, value=7.0))
    assert load(tmp_path).trainer_state["batches_in_epoch_completed"] == 5


def test_a_point_is_not_saved_twice(tmp_path):
    checkpointer = save(tmp_path, (1, 0))
    before = os.stat(tmp_path / "model_state_e1_b0.th").st_ino
    checkpointer.save_checkpoint(CountingTrainer(1, 0))
    assert os.stat(tmp_path / "model_state_e1_b0.th").st_ino == before


@pytest.mark.parametrize("kind", ["model_state", "training_state"])
@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"not torch's"])
def test_an_unreadable_file_is_passed_over_for_an_earlier_pair(tmp_path, kind, damage, caplog):
    save(tmp_path, (0, 5), (1, 0))
    damaged = tmp_path / f"{kind}_e1_b0.th"
    damaged.write_bytes(damage(damaged.read_bytes()))
    assert load(tmp_path).trainer_state["batches_in_epoch_completed"] == 5
    assert str(damaged) in caplog.text


def test_nothing_readable_is_an_error_that_names_the_folder_and_the_remedy(tmp_path):
    save(tmp_path, (1, 0))
    (tmp_path / "training_state_e1_b0.th").write_bytes(b"")
    reason = "training_state_e1_b0.th can't be read: File is not a zip file"
    with pytest.raises(ConfigurationError, match=f"{tmp_path}.*{reason}.*remove them"):
        AtomicCheckpointer(tmp_path).load_checkpoint()


def test_after_passing_over_an_unreadable_pair_new_ones_are_kept_instead_of_it(tmp_path):
    save(tmp_path, (0, 5), (1, 0))
    (tmp_path / "model_state_e1_b0.th").write_bytes(b"")
    checkpointer = AtomicCheckpointer(tmp_path, keep_most_recent_by_count=1)
    checkpointer.load_checkpoint()
    checkpointer.save_checkpoint(CountingTrainer(0, 8))
    assert sorted(os.listdir(tmp_path)) == ["model_state_e0_b8.th", "training_state_e0_b8.th"]


class Malicious:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("kind", ["model", "training"])
def test_loading_never_runs_code_from_a_file(tmp_path, kind):
    save(tmp_path, (0, 1))
    torch.save({"weight": Malicious(tmp_path / "made")}, tmp_path / f"{kind}_state_e0_b1.th")
    with pytest.raises(
        ConfigurationError, match=f"{kind}_state_e0_b1.th can't be read: it holds posix.mkdir, which isn't"
    ):
        AtomicCheckpointer(tmp_path).load_checkpoint()
    assert not (tmp_path / "made").exists()


def test_the_most_recent_are_kept_by_count(tmp_path):
    checkpointer = save(tmp_path, (0, 2), (0, 20), (0, 200), (1, 0), keep_most_recent_by_count=3)
    assert checkpointer._find_all_checkpoints() == {(0, 20), (0, 200), (1, 0)}


@pytest.mark.parametrize("count", [0, 1])
def test_the_newest_is_always_kept(tmp_path, count):
    checkpointer = save(tmp_path, (0, 2), (1, 0), keep_most_recent_by_count=count)
    assert checkpointer._find_all_checkpoints() == {(1, 0)}


def test_recent_ones_are_kept_by_age(tmp_path):
    save(tmp_path, (0, 1), (0, 2), (0, 3), keep_most_recent_by_count=None)
    for path in tmp_path.glob("*_e0_b1.th"):
        os.utime(path, (time.time() - 100,) * 2)
    checkpointer = save(tmp_path, (1, 0), keep_most_recent_by_count=1, keep_most_recent_by_age=50)
    assert checkpointer._find_all_checkpoints() == {(0, 2), (0, 3), (1, 0)}


def test_all_are_kept_without_a_limit(tmp_path):
    points = {(0, batches) for batches in range(1, 13)}
    assert save(tmp_path, *points, keep_most_recent_by_count=None)._find_all_checkpoints() == points


def test_saving_every_so_many_batches_goes_on_counting_after_recovering(tmp_path):
    save(tmp_path, (0, 4))
    checkpointer = AtomicCheckpointer(tmp_path, save_every_num_batches=4)
    checkpointer.load_checkpoint()
    saved = [b for b in range(5, 13) if checkpointer.maybe_save_checkpoint(CountingTrainer(0, b), 0, b)]
    assert saved == [8, 12]


def test_a_failed_save_removes_what_it_wrote(tmp_path):
    trainer = CountingTrainer(1, 0)
    trainer.value = 2.0
    trainer.get_checkpoint_state = lambda: TrainerCheckpoint(
        {"weight": torch.ones(1)},
        {"epochs_completed": 1, "batches_in_epoch_completed": 0, "unpicklable": lambda: None},
    )
    with pytest.raises(Exception, match="pickle|local"):
        AtomicCheckpointer(tmp_path).save_checkpoint(trainer)
    assert os.listdir(tmp_path) == []


def test_a_sharded_checkpoint_needs_the_files_of_its_rank(tmp_path):
    checkpointer = AtomicCheckpointer(tmp_path)
    checkpointer.state_is_sharded = True
    checkpointer.save_checkpoint(CountingTrainer(1, 0))
    assert sorted(os.listdir(tmp_path)) == ["model_state_e1_b0_w0.th", "training_state_e1_b0_w0.th"]
    assert checkpointer._find_all_checkpoints() == {(1, 0)}
    os.remove(tmp_path / "model_state_e1_b0_w0.th")
    assert checkpointer._find_all_checkpoints() == set()


@pytest.mark.parametrize("other_rank", [None, (0, 5)])
def test_ranks_that_found_different_checkpoints_are_an_error(tmp_path, monkeypatch, other_rank):
    save(tmp_path, (1, 0))

    def gather(points, point):
        points[:] = [point, other_rank]

    monkeypatch.setattr(checkpointer_module, "is_distributed", lambda: True)
    monkeypatch.setattr(checkpointer_module.dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(checkpointer_module.dist, "all_gather_object", gather)
    with pytest.raises(ConfigurationError, match="different checkpoints"):
        AtomicCheckpointer(tmp_path).load_checkpoint()


def damaged(data: bytes, generator: random.Random) -> bytes:
    """A copy with one of the things that happen to files."""
    start = generator.randrange(len(data))
    kind = generator.choice(["flip", "cut", "zeros", "garbage", "twice"])
    if kind == "flip":
        return data[:start] + bytes([data[start] ^ 1 << generator.randrange(8)]) + data[start + 1 :]
    if kind == "cut":
        return data[:start]
    if kind == "twice":
        return data + data[:start]
    stretch = bytes(64) if kind == "zeros" else generator.randbytes(64)
    return (data[:start] + stretch + data[start + 64 :])[: len(data)]


@pytest.mark.parametrize("kind", ["model", "training"])
def test_a_damaged_file_is_read_as_it_was_or_passed_over_and_named(tmp_path, kind, caplog):
    save(tmp_path, (1, 0), (2, 0))
    path = tmp_path / f"{kind}_state_e2_b0.th"
    whole, generator = path.read_bytes(), random.Random(7)
    num_passed_over = 0
    for _ in range(150):
        path.write_bytes(damaged(whole, generator))
        caplog.clear()
        checkpoint = load(tmp_path)
        if checkpoint.trainer_state["value"] == 1.0:
            assert f"{path} can't be read: " in caplog.text
            num_passed_over += 1
        else:
            assert checkpoint.trainer_state == CountingTrainer(2, 0, 2.0).get_checkpoint_state().trainer_state
            assert checkpoint.model_state["weight"].tolist() == [2.0]
    assert num_passed_over > 75


def test_a_state_saved_at_another_point_than_its_name_says_is_passed_over(tmp_path):
    save(tmp_path, (1, 0), (2, 0))
    (tmp_path / "training_state_e2_b0.th").write_bytes((tmp_path / "training_state_e1_b0.th").read_bytes())
    assert load(tmp_path).trainer_state["epochs_completed"] == 1


@pytest.mark.parametrize("kind", ["model", "training"])
def test_a_folder_in_a_file_s_place_is_passed_over(tmp_path, kind, caplog):
    save(tmp_path, (1, 0), (2, 0))
    path = tmp_path / f"{kind}_state_e2_b0.th"
    path.unlink()
    path.mkdir()
    assert load(tmp_path).trainer_state["epochs_completed"] == 1
    assert f"{path} can't be read: " in caplog.text
    checkpointer = AtomicCheckpointer(tmp_path, keep_most_recent_by_count=1)
    checkpointer.load_checkpoint()
    checkpointer.save_checkpoint(CountingTrainer(1, 5, 1.05))
    assert checkpointer._find_all_checkpoints() == {(1, 5)}


def test_a_clock_that_is_set_does_not_matter(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(checkpointer_module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(checkpointer_module.time, "time", lambda: 1e12 - 1e9 * clock[0])
    checkpointer = AtomicCheckpointer(tmp_path, save_every_num_seconds=10)
    saved = []
    for batch, clock[0] in enumerate([5.0, 11.0, 15.0, 21.0], start=1):
        saved.append(checkpointer.maybe_save_checkpoint(CountingTrainer(0, batch), 0, batch))
    assert saved == [False, True, False, True]
