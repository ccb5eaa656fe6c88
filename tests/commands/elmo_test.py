import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy
import pytest
from allennlp.commands import main

from elmo_plugin import ElmoEmbedder
from elmo_plugin.bilm import loading
from elmo_plugin.bilm.pretrained import BiLmFiles
from elmo_plugin.commands import elmo as elmo_command  # noqa: F401  (registers the command)

LINES = ["The cat sat .", "Hello / world", "naïve \U0001f600", "The cat sat ."]


@pytest.fixture
def bilm(root):
    return [
        *("--options-file", str(root / "fixtures/bilm/options.json")),
        *("--weight-file", str(root / "fixtures/bilm/weights.hdf5")),
    ]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out.hdf5"


@pytest.fixture
def run(monkeypatch, bilm):
    def run(*arguments, bilm=bilm):
        monkeypatch.setattr(sys, "argv", ["allennlp", "elmo", *map(str, arguments), *bilm])
        main()

    return run


def error_of(run, *arguments, **keywords):
    with pytest.raises(SystemExit) as exit:
        run(*arguments, **keywords)
    return exit.value.code


def contents(path):
    with h5py.File(path) as file:
        return {key: file[key][...] for key in file if key != "sentence_to_index"}


@pytest.mark.parametrize("flag, layers", [("--all", slice(None)), ("--top", -1), ("--average", None)])
def test_the_command_writes_the_layout_of_allennlp_0_9(run, text, output, bilm, flag, layers, capsys):
    run(text, output, flag)
    found = contents(output)
    assert found.keys() == {"0", "1", "2", "3"}
    for line, sentence in enumerate(LINES):
        vectors = ElmoEmbedder(bilm[1], bilm[3]).embed_sentence(sentence.split())
        expected = vectors.mean(axis=0) if layers is None else vectors[layers]
        numpy.testing.assert_allclose(found[str(line)], expected, atol=1e-6)
        assert found[str(line)].dtype == numpy.float32
    with h5py.File(output) as file:
        assert json.loads(file["sentence_to_index"][0]) == {LINES[0]: "3", LINES[1]: "1", LINES[2]: "2"}
    assert f"wrote {output}" in capsys.readouterr().out


def test_every_flag_of_allennlp_0_9_is_taken(run, text, output):
    run(text, output, "--all", "--batch-size", 2, "--cuda-device", -1, "--forget-sentences", "--vocab-path", "unused")
    assert len(contents(output)) == 4
    run(text, output, "--all", "--use-sentence-keys", "--file-friendly-logging", "--include-package", "elmo_plugin")
    with h5py.File(output) as file:
        assert file["Hello / world"].shape == (3, 3, 16) and file[LINES[0]].shape == (3, 4, 16)
        assert json.loads(file["sentence_to_index"][0]) == {}


def test_without_a_bilm_it_is_the_one_that_ships(run, text, output, monkeypatch, bilm):
    monkeypatch.setattr(loading, "locate", lambda name: BiLmFiles(bilm[1], bilm[3]))
    run(text, output, "--all", bilm=[])
    assert contents(output)["0"].shape == (3, 4, 16)


def test_half_precision_and_carried_states_are_by_choice(run, text, output):
    run(text, output, "--all", "--float16")
    assert contents(output)["0"].dtype == numpy.float16
    run(text, output, "--all", "--batch-size", 1)
    assert numpy.allclose(contents(output)["0"], contents(output)["3"], atol=1e-6)
    run(text, output, "--all", "--batch-size", 1, "--stateful")
    assert not numpy.allclose(contents(output)["0"], contents(output)["3"], atol=1e-4)


@pytest.mark.parametrize("zipped", [False, True])
def test_standard_input_and_gzip_give_the_same_vectors(run, text, output, tmp_path, monkeypatch, zipped):
    run(text, output, "--top")
    expected = contents(output)
    content = gzip.compress(text.read_bytes()) if zipped else text.read_bytes()
    (tmp_path / "named_anyhow").write_bytes(content)
    run(tmp_path / "named_anyhow", output, "--top")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))
    run("-", tmp_path / "from_stdin.hdf5", "--top")
    for path in (output, tmp_path / "from_stdin.hdf5"):
        assert contents(path).keys() == expected.keys()
        for key, vectors in contents(path).items():
            numpy.testing.assert_array_equal(vectors, expected[key])


def test_blank_lines_are_refused_by_number_before_any_work(run, output, tmp_path):
    (tmp_path / "blank.txt").write_text("a\n\nb\n \t \n" + "\n" * 10)
    message = error_of(run, tmp_path / "blank.txt", output, "--all")
    assert "has blank lines: 2, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more" in message and "--blank-lines keep" in message
    assert not output.exists() and not (tmp_path / "out.hdf5.partial").exists()


def test_blank_lines_can_be_kept_as_empty_datasets(run, output, tmp_path):
    (tmp_path / "blank.txt").write_text("a\n\nb\n")
    run(tmp_path / "blank.txt", output, "--all", "--blank-lines", "keep")
    assert {key: vectors.shape for key, vectors in contents(output).items()} == {
        "0": (3, 1, 16),
        "1": (3, 0, 16),
        "2": (3, 1, 16),
    }


def test_a_blank_line_in_standard_input_is_refused_when_it_comes(run, output, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a\n\n"))))
    assert "standard input has blank lines: 2." in error_of(run, "-", output, "--all")


def test_a_file_that_changes_while_it_is_read_is_named(run, text, output, monkeypatch):
    survey = elmo_command._survey

    def survey_before_more_is_written(arguments):
        num_lines = survey(arguments)
        with text.open("a") as file:
            file.write("One more .\n")
        return num_lines

    monkeypatch.setattr(elmo_command, "_survey", survey_before_more_is_written)
    assert "in.txt had 4 lines when it was first read, and 5 afterwards" in error_of(run, text, output, "--all")
    assert not output.exists()


def test_a_line_with_too_many_tokens_is_refused_by_number_before_any_work(run, output, tmp_path):
    (tmp_path / "long.txt").write_text("short\n" + "w " * 30 + "\n" + "x" * 44_000 + "\n")
    message = error_of(run, tmp_path / "long.txt", output, "--all", "--max-tokens", 29)
    assert "long.txt:2: this line has 30 tokens" in message and "--max-tokens" in message
    assert not output.exists() and not (tmp_path / "out.hdf5.partial").exists()
    run(tmp_path / "long.txt", output, "--all", "--max-tokens", 30)
    assert [contents(output)[line].shape[1] for line in "012"] == [1, 30, 1]


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "can't read .*: No such file or directory"),
        (b"", "it has no lines"),
        (b"ok\n\xff\xfe\n", ":2: this line isn't UTF-8"),
        (gzip.compress(b"many words\n" * 1000)[:-20], "the gzip data is cut off or damaged"),
    ],
)
def test_a_missing_or_wrong_input_is_told_in_one_line(run, output, tmp_path, content, message):
    if content is not None:
        (tmp_path / "in.txt").write_bytes(content)
    found = error_of(run, tmp_path / "in.txt", output, "--all")
    assert found.startswith("error: ") and "\n" not in found
    assert re.search(message, found)
    assert not output.exists()


def test_a_folder_that_is_not_there_is_told_before_any_work(run, text, tmp_path):
    assert "there is no folder" in error_of(run, text, tmp_path / "nowhere" / "out.hdf5", "--all")


def test_a_folder_that_cannot_be_written_to_is_told_before_any_work(run, text, output, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "no permission to write in" in error_of(run, text, output, "--all")


def test_the_input_is_not_overwritten(run, text):
    assert "is both input and output" in error_of(run, text, text, "--all")


def test_a_bilm_that_is_not_there_leaves_nothing_behind(run, text, output, tmp_path):
    message = error_of(run, text, output, "--all", bilm=["--options-file", "no.json", "--weight-file", "no.hdf5"])
    assert "options_file 'no.json'" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt"]


@pytest.mark.parametrize("arguments", [[], ["--all", "--top"]])
def test_exactly_one_choice_of_layers_is_needed(run, text, output, arguments, capsys):
    assert error_of(run, text, output, *arguments) == 2


@pytest.mark.parametrize("arguments", [["--workers", 2], ["--engine", "ray"]])
def test_carried_states_and_several_workers_exclude_each_other(run, text, output, arguments):
    assert "one process has to read them all" in error_of(run, text, output, "--all", "--stateful", *arguments)


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(run, text, output, monkeypatch, capsys):
    embed = ElmoEmbedder.embed_sentences

    def embed_then_interrupt(self, sentences, batch_size):
        sentences = list(sentences)
        if sentences[0][0] != "The":
            raise KeyboardInterrupt
        return embed(self, sentences, batch_size)

    with monkeypatch.context() as patch:
        patch.setattr(ElmoEmbedder, "embed_sentences", embed_then_interrupt)
        assert error_of(run, text, output, "--all", "--batch-size", 1, "--shard-size", 1) == 130
    assert "out.hdf5.partial: continue with --resume" in capsys.readouterr().err
    run(text, output, "--all", "--batch-size", 1, "--shard-size", 1, "--resume")
    assert contents(output).keys() == {"0", "1", "2", "3"}


def test_a_command_killed_with_its_workers_resumes(run, output, tmp_path, bilm, root):
    """The command itself, in a process of its own, with workers that mustn't outlive it."""
    lines = [f"line {number} .\n" for number in range(16)]
    arguments = ["--all", "--batch-size", "2", "--shard-size", "2"]
    program = "from elmo_plugin.commands import elmo; from allennlp.__main__ import run; run()"
    command = subprocess.Popen(
        [sys.executable, "-c", program, "elmo", "-", str(output), *arguments, "--workers", "2", *bilm],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=root,
        text=True,
    )
    command.stdin.writelines(lines[:14])  # and the rest doesn't come
    command.stdin.flush()
    partial = tmp_path / "out.hdf5.partial"
    while not (partial / "progress.npz").exists():
        assert command.poll() is None
        time.sleep(0.05)
    command.send_signal(signal.SIGKILL)
    command.wait()
    command.stdin.close()
    (tmp_path / "in.txt").write_text("".join(lines))
    run(tmp_path / "in.txt", tmp_path / "expected.hdf5", *arguments)
    run(tmp_path / "in.txt", output, *arguments, "--resume")
    expected = contents(tmp_path / "expected.hdf5")
    assert contents(output).keys() == expected.keys()
    for key, vectors in contents(output).items():
        numpy.testing.assert_allclose(vectors, expected[key], atol=1e-6)


def test_help_shows_an_example(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["allennlp", "elmo", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "allennlp elmo sentences.txt vectors.hdf5 --all" in " ".join(capsys.readouterr().out.split())
