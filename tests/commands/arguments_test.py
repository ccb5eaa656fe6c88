import argparse

import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLmSource, sources
from elmo_plugin.commands import arguments as shared
from elmo_plugin.embedding import ElmoEmbedder


def parse(*words):
    parser = argparse.ArgumentParser()
    shared.add_bilm_arguments(parser)
    return parser.parse_args(words)


def test_the_two_files_are_opened(bilm_files):
    embedder = shared.open_embedder(parse("--options-file", bilm_files[0], "--weight-file", bilm_files[1]))
    expected = ElmoEmbedder(*bilm_files).embed_sentence(["a", "word"])
    numpy.testing.assert_array_equal(embedder.embed_sentence(["a", "word"]), expected)


def test_an_archive_is_opened(bilm_files, monkeypatch):
    bilm = BiLmSource.from_files(*bilm_files)
    monkeypatch.setattr(BiLmSource, "from_archive", lambda path: bilm)
    embedder = shared.open_embedder(parse("--archive", "model.tar.gz"))
    expected = ElmoEmbedder(*bilm_files).embed_sentence(["a", "word"])
    numpy.testing.assert_array_equal(embedder.embed_sentence(["a", "word"]), expected)


def test_without_flags_the_shipped_bilm_is_opened(bilm_files, monkeypatch):
    names = []
    monkeypatch.setattr(sources, "pretrained_files", lambda name: names.append(name) or bilm_files)
    shared.open_embedder(parse())
    shared.open_embedder(parse("--bilm", "small"))
    assert names == [shared.SHIPPED, "small"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--options-file", "a"], "options file .a. needs its weight file beside it"),
        (["--weight-file", "a"], "weight file .a. needs its options file beside it"),
        (["--archive", "a", "--options-file", "b", "--weight-file", "c"], "b and a name two biLMs"),
        (["--archive", "a", "--bilm", "small"], "small and a name two biLMs"),
        (["--bilm", "huge"], "no pretrained biLM 'huge'"),
        (["--archive", "nowhere.tar.gz"], "nowhere.tar.gz"),
    ],
)
def test_flags_that_name_no_single_bilm_are_refused(words, message):
    with pytest.raises(ConfigurationError, match=message):
        shared.open_embedder(parse(*words))


def failing(error):
    @shared.one_line_errors
    def command(arguments):
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigurationError("line one\n  line two"), "error: line one line two"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "error: a.txt: No such file or directory"),
        (OSError("disk trouble"), "error: disk trouble"),
    ],
)
def test_what_a_user_can_cause_is_one_line(error, line):
    with pytest.raises(SystemExit) as exit_info:
        failing(error)(argparse.Namespace())
    assert exit_info.value.code == line


def test_an_interruption_has_its_own_code(capsys):
    with pytest.raises(SystemExit) as exit_info:
        failing(KeyboardInterrupt())(argparse.Namespace())
    assert exit_info.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_bug_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError())(argparse.Namespace())
