"""From the one string that names a biLM to the biLM.

The string is a shipped or published name, a folder with the two files, a model archive, or the URL of a folder or an
archive. AllenNLP is imported only for what needs it, archives and downloads.
"""

import os
import tarfile
from pathlib import Path
from typing import List, Optional, Union

from elmo_plugin.bilm import checkpoint
from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.pretrained import PRETRAINED, PUBLISHED_SIZES, SHIPPED, BiLmFiles
from elmo_plugin.errors import ConfigurationError

OPTIONS_NAME, WEIGHTS_NAME = "options.json", "weights.hdf5"
_ARCHIVE_ENDINGS = (".tar.gz", ".tgz", ".tar")
_KINDS = (
    f"a biLM is named by one of {', '.join(PRETRAINED)}, by a folder with {OPTIONS_NAME} and {WEIGHTS_NAME}, by a "
    "model archive (model.tar.gz), or by a URL of either"
)


def load(name: Optional[str] = None, options_file: Optional[str] = None, weight_file: Optional[str] = None) -> BiLm:
    """The biLM called `name`, by default the shipped one; or, AllenNLP 0.9's way, that of the two files."""
    if options_file is None and weight_file is None:
        return _read(locate(SHIPPED if name is None else name))
    if name is not None:
        raise ConfigurationError(
            f"{name} and {options_file or weight_file} name two biLMs; give one name, or one pair of files"
        )
    if options_file is None or weight_file is None:
        given, missing = ("weight", "options") if options_file is None else ("options", "weight")
        raise ConfigurationError(
            f"the biLM's {given} file ({options_file or weight_file}) needs its {missing} file beside it; or name the "
            "folder that holds both"
        )
    return read_files(options_file, weight_file)


def locate(name: str) -> Union[BiLmFiles, Path]:
    """Where the biLM called `name` is: its two files, paths or URLs, or a local archive (a file or an unpacked one).

    A name in `elmo_plugin.bilm.pretrained` comes first; write `./small` for a folder that has the same name.
    """
    if name in PRETRAINED:
        return PRETRAINED[name]
    if "://" in name:
        if name.endswith(_ARCHIVE_ENDINGS):
            return Path(_fetch(name))
        return BiLmFiles(*(f"{name.rstrip('/')}/{file}" for file in (OPTIONS_NAME, WEIGHTS_NAME)))
    path = Path(name).expanduser()
    if path.is_dir():
        return path if (path / "config.json").is_file() else _files_in(path)
    if not path.is_file():
        raise ConfigurationError(f"there is no biLM {name!r}: {_KINDS}")
    if not tarfile.is_tarfile(path):
        raise ConfigurationError(f"{name} isn't a model archive: {_KINDS}")
    return path


def _files_in(folder: Path) -> BiLmFiles:
    """The two files under their plain names, or under longer ones, as they are published, if there is one of each."""
    return BiLmFiles(
        str(_only_one(folder, OPTIONS_NAME, "*options*.json")), str(_only_one(folder, WEIGHTS_NAME, "*weights*.hdf5"))
    )


def _only_one(folder: Path, plain_name: str, pattern: str) -> Path:
    candidates: List[Path] = [folder / plain_name]
    if not candidates[0].is_file():
        candidates = sorted(folder.glob(pattern))
    if len(candidates) != 1:
        found = f"several: {', '.join(path.name for path in candidates)}" if candidates else "none"
        raise ConfigurationError(
            f"the biLM's folder {folder} has to hold {plain_name}, or one file like {pattern}, but has {found}"
        )
    return candidates[0]


def _read(place: Union[BiLmFiles, Path]) -> BiLm:
    return read_archive(str(place)) if isinstance(place, Path) else read_files(*place)


def read_files(options_file: str, weight_file: str) -> BiLm:
    """The biLM of the published pair of files, each a path or a URL."""
    files = _fetch(options_file, "options_file"), _fetch(weight_file, "weight_file")
    try:
        return checkpoint.read(*files)
    except ConfigurationError as error:
        if files == (options_file, weight_file):
            raise
        raise ConfigurationError(
            f"{error}. The files were fetched from {options_file} and {weight_file}; remove {files[0]} and {files[1]} "
            "to fetch them again"
        ) from error


def read_archive(archive_file: str) -> BiLm:
    """The biLM inside a model archive: that of a language model trained here, or of a task model."""
    from allennlp.models.archival import load_archive

    model = load_archive(_fetch(archive_file)).model
    bilms = [module for module in model.modules() if isinstance(module, BiLm)]
    if len(bilms) != 1:
        raise ConfigurationError(f"{archive_file} holds {len(bilms)} biLMs; it takes an archive with exactly one")
    bilm = BiLm(bilms[0].options)
    bilm.load_state_dict(bilms[0].state_dict())
    return bilm


def _fetch(path: str, what: str = "archive") -> str:
    """A local path for a path or URL."""
    if "://" not in path and Path(path).exists():
        return path
    try:
        from allennlp.common.file_utils import cached_path

        local = str(cached_path(path))
    except Exception as error:  # offline, a server's refusal, a missing file: the remedy is the same
        raise ConfigurationError(
            f"can't get the biLM's {what} {path!r} ({type(error).__name__}: {error}); give a local path or check the "
            "address"
        ) from error
    _check_size(local, path)
    return local


def _check_size(local: str, address: str) -> None:
    """The last resort against half a download: fetching itself fails where the server says how long the file is."""
    size, expected = os.path.getsize(local), PUBLISHED_SIZES.get(address)
    if expected is not None and size != expected:
        raise ConfigurationError(
            f"{local}, fetched from {address}, has {size:,} bytes where {expected:,} were published: it was cut short, "
            "or isn't the published file; remove it to fetch it again"
        )
