import bz2
import gzip
import lzma
import os
import zipfile

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin import files
from elmo_plugin.files import check_encoding, numbered_lines, read_lines, read_text, replacing

TEXT = "One sentence .\n\nAnother\u2028one .\n"


def write(path, text):
    data = text.encode("utf-8")
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_lines_end_at_newlines_only_and_keep_their_numbers(tmp_path, name):
    path = write(tmp_path / name, "\ufeff" + TEXT)
    assert list(numbered_lines(path)) == [(1, "One sentence .\n"), (3, "Another\u2028one .\n")]
    assert list(numbered_lines(path, skip_blank=False))[1] == (2, "\n")
    assert read_text(path) == TEXT


def test_text_that_is_not_utf8_is_refused_with_file_and_line(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"fine\nna\xefve\n")
    with pytest.raises(ConfigurationError, match=r"latin.txt:2: this line isn't UTF-8: .* at byte 2"):
        list(read_lines(str(path)))


def test_a_named_encoding_is_used_and_is_the_remedy(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"na\xefve\n")
    assert read_text(str(path), encoding="latin-1") == "naïve\n"
    with pytest.raises(
        ConfigurationError, match=r"latin.txt:1: this line isn't ASCII: .* at byte 2 .*Set the reader's enc"
    ):
        read_text(str(path), encoding="ascii")


@pytest.mark.parametrize("encoding", ["utf-16", "hex", "no-such", "", "a\0b"])
def test_encodings_without_newline_bytes_are_refused(encoding):
    with pytest.raises(ConfigurationError, match="isn't an encoding that files can be read in"):
        check_encoding(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "gb18030"])
def test_encodings_with_newline_bytes_are_taken(encoding):
    check_encoding(encoding)


def test_gzip_data_cut_off_is_refused_with_file_and_line(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("".join(f"sentence {n}\n" for n in range(1000)).encode())[:-200])
    with pytest.raises(ConfigurationError, match=r"text.txt.gz:\d+: the gzip data is cut off"):
        list(read_lines(str(path)))


def test_damaged_gzip_data_is_refused_with_file_and_line(tmp_path):
    path = tmp_path / "text.txt.gz"
    data = bytearray(gzip.compress(TEXT.encode()))
    data[-6] ^= 255  # in the checksum
    path.write_bytes(data)
    with pytest.raises(ConfigurationError, match=r"text.txt.gz:\d+: the gzip data is cut off or damaged"):
        list(read_lines(str(path)))


def test_plain_text_that_is_named_gz_is_refused(tmp_path):
    path = tmp_path / "text.gz"
    path.write_text(TEXT)
    with pytest.raises(ConfigurationError, match="text.gz:1: the name ends in .gz"):
        list(read_lines(str(path)))


@pytest.mark.parametrize(
    "data, kind", [(b"PK\x03\x04...", "zip"), (bz2.compress(b"a"), "bzip2"), (lzma.compress(b"a"), "xz")]
)
def test_other_packed_files_are_refused_by_name(tmp_path, data, kind):
    (tmp_path / "text").write_bytes(data)
    with pytest.raises(ConfigurationError, match=f"text: this is a {kind} file, not text; unpack it first"):
        list(read_lines(str(tmp_path / "text")))


def test_text_that_begins_like_a_packed_file_is_text(tmp_path):
    assert list(read_lines(write(tmp_path / "names.txt", "BZhivago PK\n"))) == ["BZhivago PK\n"]


def test_a_file_inside_of_a_zip_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("allennlp.common.file_utils.CACHE_DIRECTORY", str(tmp_path / "cache"))
    with zipfile.ZipFile(tmp_path / "trees.zip", "w") as archive:
        archive.writestr("trees/dev.txt", TEXT)
    assert read_text(f"{tmp_path}/trees.zip!trees/dev.txt") == TEXT
    with pytest.raises(FileNotFoundError, match="trees/gone.txt"):
        read_text(f"{tmp_path}/trees.zip!trees/gone.txt")


def test_a_name_may_have_an_exclamation_mark(tmp_path):
    assert read_text(write(tmp_path / "go!.txt", TEXT)) == TEXT


def test_progress_adds_up_to_the_size_of_the_file(tmp_path):
    for name in ("text.txt", "text.txt.gz"):
        path = write(tmp_path / name, "some words\n" * 10_000)
        steps = []
        list(read_lines(path, advance=steps.append))
        assert sum(steps) == (tmp_path / name).stat().st_size
        assert len(steps) == 3


def test_a_replaced_file_appears_whole_or_not_at_all(tmp_path):
    (tmp_path / "out").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "out") as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and (tmp_path / "out").read_text() == "old"
    with replacing(tmp_path / "out") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "out").read_text() == "new"


def test_a_file_can_be_replaced_by_a_link_to_itself(tmp_path):
    (tmp_path / "out").write_text("same")
    with replacing(tmp_path / "out") as temporary:
        os.link(tmp_path / "out", temporary)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_line_without_end_is_refused_by_number_before_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 10)
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"123456789\n" + bytes(10**6)))
    lines = files.read_lines(str(path))
    assert next(lines) == "123456789\n"
    with pytest.raises(ConfigurationError, match=r"text.gz:2: more than 10 bytes .*elmo_plugin.files.MAX_LINE_BYTES"):
        next(lines)


def test_a_file_that_is_read_whole_has_a_limit_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 3)
    monkeypatch.setattr(files, "MAX_TEXT_BYTES", 10)
    path = tmp_path / "data.json"
    path.write_text("1234567\n1\n")
    assert files.read_text(str(path)) == "1234567\n1\n"
    path.write_text("1234567\n1234\n")
    with pytest.raises(ConfigurationError, match="data.json:2: more than 10 bytes .*MAX_TEXT_BYTES"):
        files.read_text(str(path))


def test_json_that_cannot_be_read_is_told_by_name_with_the_remedy(tmp_path):
    with pytest.raises(ConfigurationError, match=r"record.json can't be read \(No such file.*\); make it again"):
        files.read_json(tmp_path / "record.json", "make it again")


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_json_that_is_not_as_written_is_told_by_name_with_the_remedy(tmp_path, content):
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"record.json isn't JSON as expected \(.*\); make it again"):
        files.read_json(path, "make it again")
