"""What an archive from a stranger may not do. Every payload here is harmless: at worst it leaves a file behind."""

import io
import json
import os
import sys
import tarfile
from pathlib import Path

import pytest
import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model, archival
from allennlp.models.archival import load_archive

from elmo_plugin import archives
from elmo_plugin.archives import ArchiveError

ROOT = Path(__file__).resolve().parent.parent
READER = {"type": "sequence_tagging"}
MODEL = {
    "type": "simple_tagger",
    "text_field_embedder": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}},
    "encoder": {"type": "lstm", "input_size": 4, "hidden_size": 3},
}
ELMO_FILES = {
    "options_file": str(ROOT / "fixtures/bilm/options.json"),
    "weight_file": str(ROOT / "fixtures/bilm/weights.hdf5"),
}


@pytest.fixture
def make_archive(tmp_path):
    """Archives a tagger that was never trained, with what is given in the place of its parts."""

    def make(reader=READER, model=MODEL, config=None, built=MODEL, **files) -> str:
        folder = tmp_path / "run"
        (folder / "vocabulary").mkdir(parents=True, exist_ok=True)
        data = tmp_path / "data.txt"
        data.write_text("the###DET mill###NOUN\n")
        vocab = Vocabulary.from_instances(DatasetReader.from_params(Params(dict(READER))).read(str(data)))
        vocab.save_to_files(folder / "vocabulary")
        torch.save(
            Model.from_params(Params(json.loads(json.dumps(built))), vocab=vocab).state_dict(), folder / "best.th"
        )
        (folder / "config.json").write_text(config or json.dumps({"dataset_reader": reader, "model": model}))
        for name, content in files.items():
            (folder / name).write_bytes(content)
        return archival.archive_model(folder, weights="weights.th" if "weights.th" in files else "best.th")

    return make


# ---- The tar file ----


def tar_file(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            member.size = 0 if member.type != tarfile.REGTYPE else 7
            archive.addfile(member, io.BytesIO(b"content"))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.fixture
def temporary_folder(tmp_path, monkeypatch) -> Path:
    """Where archives are unpacked, so that what escapes is seen."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    "members",
    [
        [member("../escaped")],
        [member("/etc/escaped")],
        [member("out", tarfile.SYMTYPE, ".."), member("out/escaped")],
        [member("secret", tarfile.LNKTYPE, "/etc/passwd")],
        [member("pipe", tarfile.FIFOTYPE)],
        [member("device", tarfile.CHRTYPE)],
    ],
    ids=["parent", "absolute", "link", "hard link", "pipe", "device"],
)
def test_what_is_no_file_inside_the_archive_is_refused_and_nothing_stays(members, tmp_path, temporary_folder):
    archive = tar_file(tmp_path / "model.tar.gz", member("weights.th"), *members)
    if members[0].name == "/etc/escaped":  # taken as etc/escaped, inside
        archives.unpack(archive, temporary_folder)
        assert not Path("/etc/escaped").exists()
        return
    with pytest.raises(ArchiveError, match=r"model\.tar\.gz was refused: its member"):
        load_archive(archive)
    assert list(temporary_folder.iterdir()) == []


@pytest.mark.parametrize("cleanup", [True, False])
def test_a_sound_archive_is_unpacked_and_removed_if_so_wanted(cleanup, tmp_path, temporary_folder):
    archive = tar_file(tmp_path / "model.tar.gz", member("vocabulary/tokens.txt"))
    with archival.extracted_archive(archive, cleanup=cleanup) as folder:
        assert Path(folder, "vocabulary", "tokens.txt").read_bytes() == b"content"
    assert os.path.exists(folder) != cleanup


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, temporary_folder):
    """Ten gigabytes that aren't there: what is refused is what the header says."""
    bomb = member("weights.th")
    bomb.size = 10 * 2**30
    (tmp_path / "bomb.tar").write_bytes(bomb.tobuf() + bytes(1024))
    with pytest.raises(ArchiveError, match=r"bomb.tar was refused: it would unpack to more than 1.0 GB"):
        archives.unpack(tmp_path / "bomb.tar", temporary_folder)
    assert list(temporary_folder.iterdir()) == []


def test_too_many_members_are_refused(tmp_path, temporary_folder, monkeypatch):
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    archive = tar_file(tmp_path / "model.tar.gz", *(member(f"{number}.txt") for number in range(4)))
    with pytest.raises(ArchiveError, match="more than 3 members"):
        archives.unpack(archive, temporary_folder)


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "flipped"])
def test_a_damaged_archive_is_told_by_name(make_archive, damage):
    path = Path(make_archive())
    content = path.read_bytes()
    damaged = {"cut": content[: len(content) // 2], "text": b"no archive", "empty": b""}.get(damage)
    path.write_bytes(content[:200] + bytes(50) + content[250:] if damaged is None else damaged)
    with pytest.raises(ArchiveError, match=r"The archive .*model\.tar\.gz"):
        load_archive(path)


# ---- config.json ----


@pytest.fixture
def payload(tmp_path, monkeypatch) -> Path:
    """A module that leaves a file behind when it is imported. Returns the file."""
    (tmp_path / "payload.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Payload: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "payload", raising=False)
    return tmp_path / "ran"


@pytest.mark.parametrize("part", ["reader", "model", "nested"])
def test_a_class_that_is_not_registered_is_not_imported(make_archive, payload, part):
    changed = {
        "reader": {"reader": {"type": "payload.Payload"}},
        "model": {"model": {"type": "payload.Payload"}},
        "nested": {"model": {**MODEL, "encoder": "payload.Payload"}},
    }[part]
    with pytest.raises(ArchiveError, match="names 'payload.Payload', which isn't a registered class"):
        load_archive(make_archive(**changed))
    assert not payload.exists()


def test_trusted_archives_may_name_any_class(make_archive, payload, monkeypatch):
    monkeypatch.setenv("ELMO_TRUST_ARCHIVES", "1")
    with pytest.raises(ArchiveError, match="can't be opened"):  # it isn't a model
        load_archive(make_archive(model={"type": "payload.Payload"}))
    assert payload.exists()


def test_classes_that_the_users_overrides_name_are_imported(make_archive, payload):
    with pytest.raises(ArchiveError, match="can't be opened"):  # it isn't an encoder
        load_archive(make_archive(), overrides={"model.encoder": {"type": "payload.Payload"}})
    assert payload.exists()


def test_a_config_is_json_and_not_jsonnet(make_archive, tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    config = json.dumps({"dataset_reader": READER, "model": MODEL})
    with pytest.raises(ArchiveError, match="config.json that isn't JSON"):
        load_archive(make_archive(config=config[:-1] + f", read: importstr '{tmp_path}/secret.txt'}}"))


def with_elmo(**files):
    embedder = {"type": "elmo_token_embedder", "do_layer_norm": False, "dropout": 0.0, **ELMO_FILES, **files}
    embedders = {"token_embedders": {"elmo": embedder}}
    return {**MODEL, "text_field_embedder": embedders, "encoder": {**MODEL["encoder"], "input_size": 16}}


@pytest.mark.parametrize("name", ["https://example.invalid/options.json", "hf://someone/options", "{tmp}/notes.txt"])
def test_nothing_outside_the_archive_is_fetched_or_read(make_archive, tmp_path, name):
    (tmp_path / "notes.txt").write_text("{}")
    name = name.format(tmp=tmp_path)
    with pytest.raises(ArchiveError, match=f"refers to '{name}', outside the archive"):
        load_archive(make_archive(model=with_elmo(options_file=name), built=with_elmo()))


def test_a_bilms_two_files_may_be_read(make_archive):
    assert load_archive(make_archive(model=with_elmo(), built=with_elmo())).model is not None


@pytest.mark.parametrize("place", ["s3-us-west-2.amazonaws.com/allennlp", "allennlp.s3.amazonaws.com"])
def test_published_bilms_may_be_fetched_and_nothing_else_from_there(tmp_path, place):
    with archives.guarded("model.tar.gz", tmp_path, {}):
        for name in ("options.json", "weights.hdf5"):
            archives.check_reachable(f"https://{place}/models/elmo/2x1024_128_2048cnn_1xhighway/elmo_{name}")
        with pytest.raises(ArchiveError, match="reaches outside of it"):
            archives.check_reachable(f"https://{place}/models/elmo/model.tar.gz")


def test_an_archive_inside_an_archives_config_is_refused(make_archive, tmp_path):
    inner = Path(make_archive()).rename(tmp_path / "inner.tar.gz")
    with pytest.raises(ArchiveError, match="inner.tar.gz"):
        load_archive(make_archive(model={"type": "from_archive", "archive_file": str(inner)}))


def test_an_archive_without_oddities_is_opened(make_archive):
    archive = load_archive(make_archive())
    assert type(archive.model).__name__ == "SimpleTagger"


# ---- Weights ----


class TouchesAFile:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_weights_run_no_code(make_archive, tmp_path):
    weights = io.BytesIO()
    torch.save({"weight": TouchesAFile(tmp_path / "ran")}, weights)
    with pytest.raises(ArchiveError, match="its weights hold something other than tensors"):
        load_archive(make_archive(**{"weights.th": weights.getvalue()}))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 cut"], ids=["empty", "garbage", "cut"])
def test_weights_that_are_none_are_told_by_the_archives_name(make_archive, content):
    with pytest.raises(ArchiveError, match=r"model\.tar\.gz can't be opened"):
        load_archive(make_archive(**{"weights.th": content}))
