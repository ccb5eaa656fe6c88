"""What an archive from a stranger may not do. Every payload here is harmless: at worst it leaves a file behind."""

import gzip
import io
import json
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy
import pytest
import torch
from allennlp.commands.evaluate import evaluate_from_archive
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model, archival
from allennlp.models.archival import load_archive
from allennlp.nn.initializers import Initializer
from allennlp.predictors import Predictor

from elmo_plugin import archives
from elmo_plugin.analysis import layer_weights
from elmo_plugin.archives import ArchiveError
from elmo_plugin.bilm import BiLm
from elmo_plugin.demo_page.task_models import open_tasks
from elmo_plugin.elmo.conversion import convert
from elmo_plugin.tasks.common.ensemble import Ensemble
from elmo_plugin.text.vector_table import VectorTable

ROOT = Path(__file__).resolve().parent.parent
READER = {"type": "sequence_tagging"}
NESTED = {"type": "simple", "batch_serializer": {"type": "payload.Payload"}}
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


def packed(path: Path, *blocks: bytes) -> Path:
    """A gzipped tar file of headers that tarfile wouldn't write."""
    path.write_bytes(gzip.compress(b"".join(blocks) + bytes(1024)))
    return path


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_of_any_length_is_refused_before_it_is_read(tmp_path, kind):
    header = member("long", kind)
    header.size = 2**40
    archive = packed(tmp_path / "model.tar.gz", header.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(ArchiveError, match=r"model\.tar\.gz was refused: its header 'long' has 1,099.* bytes"):
        archives.unpack(archive, tmp_path)


def test_files_with_holes_are_refused(tmp_path):
    archive = packed(tmp_path / "model.tar.gz", member("weights.th", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(ArchiveError, match="its member 'weights.th' is a file with holes"):
        archives.unpack(archive, tmp_path)


def test_headers_without_end_are_told_by_name(tmp_path):
    header = member("x", tarfile.GNUTYPE_LONGNAME)
    header.size = 1
    block = header.tobuf(tarfile.GNU_FORMAT) + b"y".ljust(512, b"\0")
    with pytest.raises(ArchiveError, match=r"model\.tar\.gz"):
        archives.unpack(packed(tmp_path / "model.tar.gz", block * 5000), tmp_path)


def test_a_member_given_twice_is_checked_as_it_stays(tmp_path):
    contents = (b"{}", b"local secret = importstr '/etc/passwd'; {}")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        for content in contents:
            info = tarfile.TarInfo("config.json")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    with pytest.raises(ArchiveError, match="config.json that isn't JSON"):
        archives.unpack(tmp_path / "model.tar.gz", tmp_path)


def test_members_that_are_not_asked_for_stay_packed_and_count_all_the_same(tmp_path, monkeypatch):
    archive = tar_file(tmp_path / "model.tar.gz", member("weights.th"), member("vocabulary/tokens.txt"))
    archives.unpack(archive, tmp_path / "unpacked", only=("weights.th",))
    assert [path.name for path in (tmp_path / "unpacked").iterdir()] == ["weights.th"]
    monkeypatch.setattr(archives, "MAX_BYTES", 10)
    with pytest.raises(ArchiveError, match="would unpack to more than"):
        archives.unpack(archive, tmp_path / "again", only=("weights.th",))


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


@pytest.mark.parametrize(
    "part", [{"data_loader": {"type": "payload.Payload"}}, {"data_loader": "payload.Payload"}, {"evaluation": NESTED}]
)
def test_what_is_built_after_the_archive_is_opened_is_not_imported_either(make_archive, payload, tmp_path, part):
    config = {"dataset_reader": READER, "model": MODEL, "data_loader": {"batch_size": 1}, **part}
    archive = make_archive(config=json.dumps(config))
    with pytest.raises(ArchiveError, match="names 'payload.Payload', which isn't a registered class"):
        evaluate_from_archive(archive, str(tmp_path / "data.txt"))
    assert not payload.exists()


@pytest.mark.parametrize(
    "part",
    [
        {"tokenizer": {"type": "pretrained_transformer", "model_name": "someone/model"}},
        {"tokenizer": {"type": "spacy", "language": "not_installed"}},
    ],
)
def test_models_of_other_libraries_are_not_fetched(make_archive, part):
    reader = {"type": "text_classification_json", **part}
    with pytest.raises(ArchiveError, match="refers to '(someone/model|not_installed)', outside the archive"):
        load_archive(make_archive(reader=reader))


def test_weights_outside_the_archive_are_not_read(tmp_path):
    torch.save({}, tmp_path / "other.th")
    initializer = {"type": "pretrained", "weights_file_path": str(tmp_path / "other.th")}
    with archives.guarded("model.tar.gz", tmp_path / "unpacked", {}):
        with pytest.raises(ArchiveError, match="refers to '.*other.th', outside the archive"):
            Initializer.from_params(Params(initializer))


def test_what_a_reader_opens_later_is_checked_when_it_is_built(make_archive, tmp_path):
    finder = {"type": "tagger", "archive_file": str(tmp_path / "tagger.tar.gz")}
    reader = {"type": "elmo::srl", "predicate_finder": finder}
    with pytest.raises(ArchiveError, match="refers to '.*tagger.tar.gz', outside the archive"):
        load_archive(make_archive(reader=reader))


@pytest.mark.parametrize("config", ["{} + {a: importstr '/etc/passwd'}", "[]"])
def test_a_folder_is_checked_as_an_archive_is(tmp_path, config):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ArchiveError, match="config.json that isn't"):
        load_archive(tmp_path)


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
        with pytest.raises(ArchiveError, match="outside the archive"):
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
    with pytest.raises(ArchiveError, match="its weights hold something other than tensors"):
        load_archive(make_archive(**{"weights.th": harmful(tmp_path / "ran")}))
    assert not (tmp_path / "ran").exists()


def harmful(path: Path) -> bytes:
    weights = io.BytesIO()
    torch.save({"weight": TouchesAFile(path)}, weights)
    return weights.getvalue()


@pytest.mark.parametrize(
    "open_archive",
    [
        lambda archive: layer_weights.read_archive(archive),
        lambda archive: convert(archive, f"{archive}.new"),
        lambda archive: BiLm.load(archive),
        lambda archive: open_tasks([archive]),
        lambda archive: Ensemble.from_archives(Vocabulary(), [archive]),
        lambda archive: evaluate_from_archive(archive, "data.txt"),
        lambda archive: Predictor.from_path(archive),
    ],
    ids=["elmo-layers", "elmo-convert", "--bilm", "elmo-demo", "ensemble", "evaluate", "predict"],
)
def test_whatever_opens_an_archive_runs_none_of_its_code(make_archive, tmp_path, payload, open_archive):
    in_weights = make_archive(**{"weights.th": harmful(tmp_path / "ran")})
    with pytest.raises(ArchiveError, match="its weights hold something other than tensors"):
        open_archive(in_weights)
    assert not payload.exists()


def test_a_word_vector_table_runs_no_code(tmp_path):
    numpy.save(tmp_path / "00.index.npy", numpy.array([TouchesAFile(tmp_path / "ran")], dtype=object))
    (tmp_path / "00.float16").write_bytes(bytes(12))
    with pytest.raises(ConfigurationError, match="word vectors '00' .* are damaged"):
        VectorTable.open(tmp_path, "00", 3)
    assert not (tmp_path / "ran").exists()


def test_a_record_of_an_ensemble_writes_nothing_outside_its_folder(tmp_path):
    (tmp_path / "run" / "vocabulary").mkdir(parents=True)
    (tmp_path / "run" / "weights.th").touch()
    record = [{"model": {"type": "elmo::ner"}, "files": {"../../../escaped": "text"}}]
    (tmp_path / "run" / "vocabulary" / ".ensemble_members.json").write_text(json.dumps(record))
    with pytest.raises(ConfigurationError, match="ensemble_members.json was refused: '../../../escaped'"):
        Ensemble.from_archives(Vocabulary(), [], serialization_dir=str(tmp_path / "run"))


def test_weights_that_unpack_to_more_than_they_are_refused(make_archive, tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data/0", bytes(2**21))
    bomb = (tmp_path / "bomb.zip").read_bytes()
    with pytest.raises(ArchiveError, match="its weights.th is compressed"):
        load_archive(make_archive(**{"weights.th": bomb}))


SPANNING = b"PK\x06\x07" + bytes(12) + (7).to_bytes(4, "little") + b"PK\x05\x06" + bytes(18)  # several disks


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"PK\x03\x04 cut", SPANNING], ids=["empty", "garbage", "cut", "spanning"]
)
def test_weights_that_are_none_are_told_by_the_archives_name(make_archive, content):
    with pytest.raises(ArchiveError, match=r"model\.tar\.gz (can't be opened|has a weights.th that is damaged)"):
        load_archive(make_archive(**{"weights.th": content}))
