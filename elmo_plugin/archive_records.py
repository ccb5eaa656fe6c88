"""What parts of a model leave in their archive beside weights.th and config.json, to be built without their files.

They leave it in the run's `vocabulary/` folder, which AllenNLP puts into `model.tar.gz`, under names that begin with a
dot, which `Vocabulary` skips.
"""

import json
from pathlib import Path
from typing import Any, Callable, Optional

from elmo_plugin.files import read_json, replacing

# In order of preference: an archive's, a run's best, a run's checkpoint.
_SAVED_WEIGHTS = ("weights.th", "best.th", "model_state_e*_b*.th")


def saved_weights(folder: Path) -> Optional[Path]:
    """The weights in a run's folder or an unpacked archive, if there are any."""
    return next((path for pattern in _SAVED_WEIGHTS for path in sorted(folder.glob(pattern))), None)


def read_record(folder: Path, name: str, kind: type = dict) -> Any:
    """The record `name` of a run's folder or an unpacked archive; an empty one of its `kind` if there is none."""
    path = folder / "vocabulary" / name
    return read_json(path, "get the archive again, or train again", kind) if path.is_file() else kind()


def write_record(folder: Path, name: str, record: Any) -> None:
    with replacing(folder / "vocabulary" / name) as temporary:
        temporary.write_text(json.dumps(record), encoding="utf-8")


class WhenFirstSaved:
    """A module's state_dict_pre_hook: calls `write(module, folder)` when its weights are first saved in a run's folder.

    Not earlier, because AllenNLP warns if the vocabulary folder holds anything when it saves the vocabulary.
    """

    def __init__(self, folder: Path, write: Callable[[Any, Path], None]) -> None:
        self._folder: Optional[Path] = folder
        self._write = write

    def __call__(self, module: Any, prefix: str, keep_vars: bool) -> None:
        if self._folder is not None and (self._folder / "vocabulary").is_dir():
            self._write(module, self._folder)
            self._folder = None
