"""Checkpoints that survive a kill, for any model and any trainer."""

import logging
import os
import re
import time
import zipfile
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, Union

import torch
import torch.distributed as dist
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import is_distributed
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.trainer import Trainer, TrainerCheckpoint

from elmo_plugin.files import remove_leftovers, replacing

logger = logging.getLogger(__name__)

_KINDS = ("model_state", "training_state")


class Point(NamedTuple):
    """A moment of a training run. Later moments compare greater."""

    epochs_completed: int
    batches_in_epoch_completed: int


def read_state(path: str) -> Dict[str, Any]:
    """A state that `torch.save` wrote, as data only: no code that a file may hold is run.

    Raises ConfigurationError, which names the file, for anything but a whole and undamaged one. A flipped bit would be
    read as another number by torch, which doesn't look at the checksums.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise ValueError(f"its part {damaged} is damaged")
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict):
            raise ValueError(f"it holds a {type(state).__name__}, not a state")
        return state
    except Exception as error:  # depending on the damage, torch raises almost anything
        raise ConfigurationError(f"{path} can't be read: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """What is wrong, in a sentence: torch's unpickler takes a page to explain itself."""
    forbidden = re.search(r"GLOBAL (\S+)", str(error))
    if forbidden is not None:
        return f"it holds {forbidden.group(1)}, which isn't plain data and isn't loaded"
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


def _remove(path: str) -> None:
    """Removes a file, if there is one. A folder of that name is left to whoever put it there."""
    if os.path.isfile(path):
        os.remove(path)


def _check_point(point: Point, training_state: Dict[str, Any], path: str) -> None:
    saved = [training_state.get(name) for name in ("epochs_completed", "batches_in_epoch_completed")]
    if saved != list(point):
        raise ConfigurationError(f"{path} can't be read: it says it was saved at {saved}, its name says {list(point)}")


@Checkpointer.register("elmo::atomic")
class AtomicCheckpointer(Checkpointer):
    """Saves the same two files at the same times as AllenNLP's checkpointer, but in such a way that a run killed at any
    moment finds a whole checkpoint when it recovers.

    A checkpoint is a pair: `model_state_e*_b*.th` and `training_state_e*_b*.th`. Both are written under temporary names
    before either gets its own, and the training state is named last. So a pair with both files is complete, and any
    other is ignored and later removed. Old pairs are removed only after a newer one is complete, and the newest
    complete pair is always kept.

    A complete pair that can't be read (a damaged disk, an interrupted copy) is skipped for an earlier one, with a
    warning.

    Differs from AllenNLP's checkpointer also in:

    - A leftover file of the same name is replaced. AllenNLP keeps it, and so may pair the model of a killed run with
      the training state of the recovered one.
    - Removing batch 2 doesn't remove batches 20 to 29 with it.
    - `save_every_num_batches` counts from the checkpoint that was recovered from, not from the start of the epoch.
    - In distributed training, ranks that found different checkpoints are an error.

    The arguments are those of AllenNLP's checkpointer.
    """

    def __init__(
        self,
        serialization_dir: Union[str, os.PathLike],
        save_completed_epochs: bool = True,
        save_every_num_seconds: Optional[float] = None,
        save_every_num_batches: Optional[int] = None,
        keep_most_recent_by_count: Optional[int] = 2,
        keep_most_recent_by_age: Optional[int] = None,
    ) -> None:
        super().__init__(
            serialization_dir,
            save_completed_epochs=save_completed_epochs,
            save_every_num_seconds=save_every_num_seconds,
            save_every_num_batches=save_every_num_batches,
            keep_most_recent_by_count=keep_most_recent_by_count,
            keep_most_recent_by_age=keep_most_recent_by_age,
        )
        self._last_save_time = time.monotonic()  # a clock that nobody can set
        self._current: Optional[Point] = None  # the point last saved or loaded
        self._unreadable: Set[Point] = set()

    def maybe_save_checkpoint(
        self, trainer: Trainer, num_epochs_completed: int, num_batches_in_epoch_completed: int
    ) -> bool:
        """Saves if a checkpoint is due. Returns whether it was."""
        last_epochs, last_batches = self._current or Point(0, 0)
        num_batches = num_batches_in_epoch_completed - (last_batches if last_epochs == num_epochs_completed else 0)
        every_batches, every_seconds = self._save_every_num_batches, self._save_every_num_seconds
        is_due = (
            (num_batches_in_epoch_completed == 0 and self._save_completed_epochs)
            or (every_batches is not None and num_batches >= every_batches)
            or (every_seconds is not None and time.monotonic() - self._last_save_time >= every_seconds)
        )
        if is_due:
            self.save_checkpoint(trainer)
            # Also where another rank saves: all have to agree on when the next one is due.
            self._remember(Point(num_epochs_completed, num_batches_in_epoch_completed))
        return is_due

    def save_checkpoint(self, trainer: Trainer) -> None:
        checkpoint = trainer.get_checkpoint_state()
        if checkpoint is None:  # another rank saves
            return
        state = checkpoint.trainer_state
        point = Point(state["epochs_completed"], state["batches_in_epoch_completed"])
        if point == self._current and point in self._find_all_checkpoints():
            return

        self._remove_temporary_files()
        self._write_pair(point, checkpoint)
        self._unreadable.discard(point)
        self._remember(point)
        if self._is_primary:
            self._remove_old_checkpoints()

    def _write_pair(self, point: Point, checkpoint: TrainerCheckpoint) -> None:
        model_path, training_path = self._model_state_path(*point), self._training_state_path(*point)
        # The inner file gets its name first.
        with replacing(training_path) as training_file, replacing(model_path) as model_file:
            torch.save(checkpoint.model_state, model_file)
            torch.save(checkpoint.trainer_state, training_file)
            # A training state of an earlier run at exactly this point would make the pair look complete too soon.
            _remove(training_path)

    def _remember(self, point: Point) -> None:
        self._current = point
        self._last_save_time = time.monotonic()

    def _remove_old_checkpoints(self) -> None:
        complete = sorted(self._find_all_checkpoints(), reverse=True)
        if not complete:  # other ranks haven't finished their parts of the first one
            return
        kept = self._points_to_keep(complete)
        for point in self._files_by_point():
            # The newest complete pair always stays. An incomplete one after it may be another rank's work in progress.
            is_past = point < complete[0] or point in self._unreadable
            if is_past and point not in kept:
                self._remove_checkpoint(*point)

    def _points_to_keep(self, complete: List[Point]) -> Set[Point]:
        count, age = self._keep_most_recent_by_count, self._keep_most_recent_by_age
        if count is None and age is None:
            return set(complete)
        kept = set(complete[: count or 0])
        if age is not None:
            kept.update(point for point in complete if time.time() - self._time_of(point) <= age)
        return kept

    def _time_of(self, point: Point) -> float:
        paths = (self._model_state_path(*point), self._training_state_path(*point))
        return max(os.path.getmtime(path) for path in paths)

    def _remove_checkpoint(self, epochs_completed: int, batches_in_epoch_completed: int) -> None:
        names = self._files_by_point().get(Point(epochs_completed, batches_in_epoch_completed), set())
        for name in sorted(names, reverse=True):  # the training state first: a half-removed pair isn't complete
            _remove(os.path.join(self._serialization_dir, name))

    def _remove_temporary_files(self) -> None:
        """Removes what a kill left behind, and only where this process is the one that writes it."""
        shard = f"_w{self._rank}" if self.state_is_sharded else ""
        for kind in _KINDS:
            remove_leftovers(os.path.join(self._serialization_dir, f"{kind}_e*_b*{shard}.th"))

    def load_checkpoint(self) -> Optional[TrainerCheckpoint]:
        """Reads the latest complete checkpoint that can be read.

        Raises ConfigurationError if there are complete checkpoints and none of them can be read.
        """
        point, checkpoint = self._load_latest()
        if is_distributed():
            self._check_ranks_agree(point)
        if point is not None:
            self._remember(point)
        return checkpoint

    def _load_latest(self) -> Tuple[Optional[Point], Optional[TrainerCheckpoint]]:
        """A callback's own types can be loaded if they are on torch's list of safe globals."""
        failures: List[ConfigurationError] = []
        for point in sorted(self._find_all_checkpoints(), reverse=True):
            try:
                model_state = read_state(self._model_state_path(*point))
                training_state = read_state(self._training_state_path(*point))
                _check_point(point, training_state, self._training_state_path(*point))
                return point, TrainerCheckpoint(model_state, training_state)
            except ConfigurationError as error:
                logger.warning("%s. Looking for an earlier checkpoint.", error)
                self._unreadable.add(point)
                failures.append(error)
        if failures:
            raise ConfigurationError(
                f"None of the checkpoints in {self._serialization_dir} can be read. Of the latest, {failures[0]}. "
                "Restore model_state_e*_b*.th and training_state_e*_b*.th from a copy, or remove them to start again "
                "from the beginning."
            ) from failures[0]
        return None, None

    def _check_ranks_agree(self, point: Optional[Point]) -> None:
        points: List[Optional[Point]] = [None] * dist.get_world_size()
        dist.all_gather_object(points, point)
        if any(other != points[0] for other in points):
            raise ConfigurationError(
                f"The ranks found different checkpoints in {self._serialization_dir} (epochs and batches completed, by "
                f"rank: {points}). All nodes need the same files there."
            )

    def _find_all_checkpoints(self) -> Set[Point]:  # type: ignore[override]
        """The points of all complete checkpoints except those found unreadable."""
        return {
            point
            for point, names in self._files_by_point().items()
            if point not in self._unreadable and names.issuperset(self._expected_names(point))
        }

    def _expected_names(self, point: Point) -> Iterator[str]:
        world_size = dist.get_world_size() if is_distributed() else 1
        shards = [f"_w{rank}" for rank in range(world_size)] if self.state_is_sharded else [""]
        for shard in shards:
            for kind in _KINDS:
                yield f"{kind}_e{point.epochs_completed}_b{point.batches_in_epoch_completed}{shard}.th"

    def _files_by_point(self) -> Dict[Point, Set[str]]:
        files: Dict[Point, Set[str]] = {}
        for name in self._file_names():
            point = self._point_of(name)
            if point is not None:
                files.setdefault(point, set()).add(name)
        return files

    def _file_names(self) -> List[str]:
        return os.listdir(self._serialization_dir) if os.path.isdir(self._serialization_dir) else []

    @classmethod
    def _point_of(cls, name: str) -> Optional[Point]:
        parsed = cls._parse_model_state_path(name) or cls._parse_training_state_path(name)
        return None if parsed is None else Point(*parsed)
