import gzip

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.commands.lines import name_of, stripped_lines


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_come_stripped_and_blank_ones_too(tmp_path, pack):
    (tmp_path / "text").write_bytes(pack("\ufeff a b \r\n\n \u2028c\u2028d\nlast".encode()))
    assert list(stripped_lines(str(tmp_path / "text"))) == ["a b", "", "c\u2028d", "last"]


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "text").touch()
    assert list(stripped_lines(str(tmp_path / "text"))) == []


def test_a_folder_is_no_text(tmp_path):
    with pytest.raises(ConfigurationError, match="can't read .*: Is a directory"):
        list(stripped_lines(str(tmp_path)))


def test_standard_input_is_called_so():
    assert name_of("-") == "standard input" and name_of("a.txt") == "a.txt"
