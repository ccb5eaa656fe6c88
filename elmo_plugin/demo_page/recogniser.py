"""The entity recogniser that a page shows if it is given no archive: trained once, when the page is first started."""

import contextlib
import hashlib
import io
import os
import tempfile
from pathlib import Path
from typing import Callable, Iterator

import torch
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.util import prepare_environment
from allennlp.models.archival import archive_model

from elmo_plugin.bilm.pretrained import PRETRAINED, SHIPPED_SMALLER

_HERE = Path(__file__).parent
_CONFIG, _SENTENCES = _HERE / "recogniser.jsonnet", _HERE / "entities.txt"


def cache_folder() -> Path:
    """Where the user's caches are."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elmo-plugin"


def recogniser_archive(tell: Callable[[str], None] = print) -> str:
    """The archive of the recogniser, which is trained if it isn't in the cache yet."""
    archive = cache_folder() / f"entity-recogniser-{_identity()}" / "model.tar.gz"
    if not archive.is_file():
        tell(f"Training an entity recogniser on a few sentences, once and for under a minute; kept in {archive.parent}")
        _train_into(archive.parent)
    return str(archive)


def _identity() -> str:
    """Changes with everything the recogniser is made from, so that another version of the plugin trains its own."""
    digest = hashlib.sha256()
    for path in (_CONFIG, _SENTENCES, Path(PRETRAINED[SHIPPED_SMALLER].weight_file)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _train_into(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".training-") as temporary:
        run = Path(temporary) / "run"
        _train(run)
        folder.mkdir(exist_ok=True)
        os.replace(run / "model.tar.gz", folder / "model.tar.gz")


def _train(run: Path) -> None:
    """What `allennlp train` does, without its log file and its output, which a visitor needn't see."""
    params = Params.from_file(_CONFIG)
    params["train_data_path"] = str(_SENTENCES)
    run.mkdir()
    params.to_file(str(run / "config.json"))
    with contextlib.redirect_stderr(io.StringIO()), _one_thread():
        prepare_environment(params)
        TrainModel.from_params(params=params, serialization_dir=str(run), local_rank=0).run()
        archive_model(str(run))


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """The model is too small for more threads: they would only wait for each other."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
