"""Opening a model archive that a stranger may have made.

To AllenNLP an archive is code: a `type` in its config.json can name any class that Python can import, config.json may
be jsonnet that reads files, components fetch whatever path or URL they are given, and a tar file may hold anything. So
whatever opens an archive, AllenNLP's own `predict` and `evaluate` included, goes through here:

- members are plain files and folders inside the archive, and neither their number nor their total size is excessive;
- config.json is plain JSON, and the classes it names are registered ones, also those that are built later, such as the
  data loader of `evaluate`;
- while the model is built, nothing outside the archive is fetched or read: no file, no URL, no model of transformers',
  and of spaCy's only those that are installed. A biLM's two files are the exception, local ones and those at the
  published addresses: they hold numbers only, and archives trained by AllenNLP's own ELMo need them.

Weights are read by torch's `weights_only` loader, which runs nothing, and aren't compressed. What the user's own
overrides name is trusted; ELMO_TRUST_ARCHIVES=1 turns off the checks of config.json, for one's own archives.
"""

import functools
import gzip
import json
import lzma
import os
import pickle
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Callable, Container, Dict, FrozenSet, Iterator, Mapping, NamedTuple, Optional, Union

import torch

from elmo_plugin.errors import ConfigurationError
from elmo_plugin.files import strings_in

TRUST_VARIABLE = "ELMO_TRUST_ARCHIVES"
CONFIG_NAME, META_NAME = "config.json", "meta.json"
MAX_MEMBERS = 10_000
MAX_BYTES = 8 * 2**30
# gzip seldom shrinks weights to a tenth; a bomb shrinks to a thousandth.
MAX_RATIO = 100
ALWAYS_ALLOWED_BYTES = 2**30
# A long name, say; tarfile reads it whole before there is a member to look at.
MAX_EXTRA_HEADER_BYTES = 2**20
_DAMAGE = (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError, ValueError, RecursionError)
_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_REMEDY = (
    f"If you trust where the archive comes from, set {TRUST_VARIABLE}=1; otherwise get it from a source you trust."
)

PathOrName = Union[str, os.PathLike]


class ArchiveError(ConfigurationError):
    """An archive that is damaged, or was refused."""


# ---- Unpacking ----


def unpack(archive_file: PathOrName, folder: PathOrName, only: Optional[Container[str]] = None) -> None:
    """Unpacks an archive, or `only` the members of some names, and stops at the first member that is refused."""
    budget = _Budget(archive_file)
    try:
        with tarfile.open(archive_file, "r:*", tarinfo=_Member) as archive:
            for member in archive:
                budget.take(member)
                if only is None or member.name in only:
                    archive.extract(member, folder, filter="data")
    except tarfile.FilterError as error:
        raise _refused(
            archive_file, f"its member {error.tarinfo.name!r} would leave the folder it is unpacked in"
        ) from error
    except _OddMember as error:
        raise _refused(archive_file, str(error)) from error
    except (tarfile.TarError, *_DAMAGE) as error:
        raise ArchiveError(
            f"The archive {archive_file} can't be unpacked: {error}. Get it again, or train again."
        ) from error
    except OSError as error:
        raise ArchiveError(f"The archive {archive_file} can't be unpacked into {folder}: {error}") from error
    _check_files(archive_file, Path(folder))


class _OddMember(Exception):
    pass


class _Member(tarfile.TarInfo):
    """Refuses what tarfile would read without end, in search of a member: headers of any length, maps of holes."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _EXTRA_HEADERS and self.size > MAX_EXTRA_HEADER_BYTES:
            raise _OddMember(f"its header {self.name!r} has {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc]

    def _refuse_holes(self, *_: Any) -> None:
        raise _OddMember(f"its member {self.name!r} is a file with holes")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_holes


_EXTRA_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class _Budget:
    """How much an archive may still unpack to."""

    def __init__(self, archive_file: PathOrName) -> None:
        self._archive_file = archive_file
        packed = os.path.getsize(archive_file)
        self._max_bytes = min(MAX_BYTES, max(ALWAYS_ALLOWED_BYTES, MAX_RATIO * packed))
        self._num_bytes = self._num_members = 0

    def take(self, member: tarfile.TarInfo) -> None:
        if not (member.isfile() or member.isdir()):
            raise _refused(self._archive_file, f"its member {member.name!r} is neither a file nor a folder")
        self._num_members += 1
        self._num_bytes += member.size
        if self._num_members > MAX_MEMBERS:
            raise _refused(self._archive_file, f"it has more than {MAX_MEMBERS:,} members")
        if self._num_bytes > self._max_bytes:
            limit = f"{self._max_bytes / 2**30:.1f} GB"
            raise _refused(self._archive_file, f"it would unpack to more than {limit} (elmo_plugin.archives.MAX_BYTES)")


def _refused(archive_file: PathOrName, reason: str) -> ArchiveError:
    return ArchiveError(
        f"The archive {archive_file} was refused: {reason}. A model archive holds plain files and folders only; this "
        "one is damaged or was made to do harm. Get it again from a source you trust."
    )


def _check_files(archive_file: PathOrName, folder: Path) -> None:
    for name in (CONFIG_NAME, META_NAME):
        if (folder / name).exists():
            _check_json(archive_file, folder / name)
    for path in folder.glob("*.th"):
        _check_weights(archive_file, path)


def _check_json(archive_file: PathOrName, path: Path) -> None:
    """AllenNLP would evaluate config.json as jsonnet, which can read files."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise ArchiveError(f"The archive {archive_file} has a {path.name} that isn't JSON: {error}") from error
    if not isinstance(content, dict):
        raise ArchiveError(f"The archive {archive_file} has a {path.name} that isn't a JSON object")


def _check_weights(archive_file: PathOrName, path: Path) -> None:
    """torch stores weights as they are; compressed ones could be of any size in memory."""
    try:
        if not zipfile.is_zipfile(path):
            return  # what torch wrote before 1.6, or what it will refuse
        with zipfile.ZipFile(path) as file:
            is_compressed = any(entry.file_size > max(entry.compress_size, 2**20) for entry in file.infolist())
    except Exception as error:  # depending on the damage, zipfile raises almost anything
        raise ArchiveError(f"The archive {archive_file} has a {path.name} that is damaged: {error}") from error
    if is_compressed:
        raise _refused(archive_file, f"its {path.name} is compressed, which weights aren't")


def read_weights(archive_file: PathOrName, path: PathOrName) -> Mapping[str, torch.Tensor]:
    """The tensors in an archive's file of weights, mapped into memory where torch can do so."""
    try:
        is_mappable = zipfile.is_zipfile(path)  # torch has saved so since 1.6
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=is_mappable)
        if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
            raise pickle.UnpicklingError
    except Exception as error:  # depending on the damage, torch raises almost anything
        raise ArchiveError(
            f"The archive {archive_file} can't be read: {_in_a_sentence(error)}. Get it again."
        ) from error
    return state


# ---- While a model is built from a config that came with an archive ----


class _Opening(NamedTuple):
    """The archive that is being opened, the folder it was unpacked in, and what the user's own overrides say."""

    archive: str
    folder: Path
    trusted: FrozenSet[str]


_opening: ContextVar[Optional[_Opening]] = ContextVar("opening", default=None)
# What the configs of archives say, and which archive: some of what they name is built after it is opened.
_said_by_archives: Dict[str, str] = {}


def _trusts_archives() -> bool:
    return os.environ.get(TRUST_VARIABLE, "") not in ("", "0")


@contextmanager
def guarded(archive: PathOrName, folder: PathOrName, config: Any) -> Iterator[None]:
    """Lets nothing that config.json names reach outside the archive, until the block ends."""
    if _trusts_archives():
        yield
        return
    path = Path(folder, CONFIG_NAME)
    own = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    said = dict.fromkeys(strings_in(own), str(archive))
    _said_by_archives.update(said)
    trusted = frozenset(strings_in(config)) - said.keys()
    token = _opening.set(_Opening(str(archive), Path(folder).resolve(), trusted))
    try:
        yield
    finally:
        _opening.reset(token)


def check_class_name(name: str, is_registered: bool) -> None:
    """Refuses a class that an archive's config names and that isn't registered, before anything is imported for it."""
    if is_registered or "." not in name or _trusts_archives():
        return
    opening = _opening.get()
    if name in _said_by_archives if opening is None else name not in opening.trusted:
        archive = _said_by_archives[name] if opening is None else opening.archive
        raise ArchiveError(
            f"The archive {archive} was refused: its {CONFIG_NAME} names {name!r}, which isn't a registered class but "
            f"something to import. {_REMEDY}"
        )


def check_reachable(path: PathOrName) -> None:
    """Refuses, while an archive is opened, a path or URL outside of it."""
    opening = _opening.get()
    if opening is None or str(path) in opening.trusted:
        return
    text = str(path)
    if "://" in text:
        is_harmless = _is_published_bilm(text)
    else:
        is_harmless = opening.folder in [*Path(text).resolve().parents, Path(text).resolve()] or _is_bilm(text)
    if is_harmless:
        return
    raise ArchiveError(
        f"The archive {opening.archive} was refused: its {CONFIG_NAME} refers to {text!r}, outside the archive. "
        f"{_REMEDY} Or name a file of yours instead with --overrides."
    )


def _is_published_bilm(address: str) -> bool:
    from elmo_plugin.bilm.pretrained import PUBLISHED_ADDRESSES  # not above: what it imports, imports this

    return address.startswith(PUBLISHED_ADDRESSES) and address.endswith((".json", ".hdf5"))


def check_spacy_model(name: str) -> None:
    """Refuses, while an archive is opened, a spaCy model that isn't installed: AllenNLP would fetch and import it."""
    from spacy.util import is_package

    if not is_package(name):
        check_reachable(name)


def _is_bilm(path: str) -> bool:
    """Whether a file is one of a biLM's two: HDF5, or an options.json."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            start = file.read(2**20)
        if start.startswith(_HDF5_MAGIC):
            return True
        options = json.loads(start)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(options, dict) and {"lstm", "char_cnn"} <= options.keys()


# ---- In AllenNLP's place ----


_archive: ContextVar[Optional[PathOrName]] = ContextVar("archive", default=None)


@contextmanager
def extracted_archive(resolved_archive_file: PathOrName, cleanup: bool = True) -> Iterator[str]:
    """AllenNLP's function of this name, with `unpack`."""
    check_reachable(resolved_archive_file)
    folder = tempfile.mkdtemp()
    remove = True  # half an archive is of no use, whatever the caller wants
    try:
        unpack(resolved_archive_file, folder)
        remove = cleanup
        yield folder
    finally:
        if remove:
            shutil.rmtree(folder, ignore_errors=True)


def opening_by_name(load_archive: Callable) -> Callable:
    """AllenNLP's `load_archive`, whose errors name the archive, and which opens a biLM that has a softmax too."""

    @functools.wraps(load_archive)
    def load(archive_file: PathOrName, *args, **kwargs):
        from elmo_plugin.bilm.language_model_folder import open_archive  # not at the top: it imports this module

        archive = open_archive(str(archive_file))
        if archive is not None:
            return archive
        check_reachable(archive_file)
        if os.path.isdir(archive_file):  # one that is unpacked already
            _check_files(archive_file, Path(archive_file))
        token = _archive.set(archive_file)
        try:
            return load_archive(archive_file, *args, **kwargs)
        except (ArchiveError, MemoryError, torch.cuda.OutOfMemoryError):
            raise
        except Exception as error:
            if isinstance(error, FileNotFoundError) and not os.path.exists(archive_file):
                raise
            raise _unopened(archive_file, error) from error
        finally:
            _archive.reset(token)

    return load


def _unopened(archive_file: PathOrName, error: Exception) -> ArchiveError:
    if isinstance(error, ConfigurationError):
        return ArchiveError(f"The archive {archive_file} can't be opened: {error.message}")
    return ArchiveError(
        f"The archive {archive_file} can't be opened: {_in_a_sentence(error)}. It is damaged, or was made by code "
        "other than that installed here; get it again, or train again."
    )


def _in_a_sentence(error: Exception) -> str:
    if isinstance(error, pickle.UnpicklingError):  # torch's message advises loading the file anyway
        return "its weights hold something other than tensors, which isn't loaded since it could run code"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def guarding(load_part: Callable) -> Callable:
    """One of the steps in which AllenNLP builds what an archive's config names, guarded."""

    @functools.wraps(load_part)
    def load(config, *args):
        folder = args[-2] if len(args) > 1 else args[0]  # (config, folder), or (config, weights, folder, device)
        with guarded(_archive.get() or folder, folder, config.as_dict(quiet=True)):
            return load_part(config, *args)

    return load
