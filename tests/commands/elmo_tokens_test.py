import gzip
import sys

import h5py
import numpy
import pytest
from allennlp.commands import main
from allennlp.data import Vocabulary
from allennlp.modules.token_embedders import Embedding

from elmo_plugin import ElmoEmbedder
from elmo_plugin.commands import elmo_tokens  # noqa: F401  (registers the command)

WORDS = ["the", "naïve", "\U0001f600", "<S>", "cat"]


@pytest.fixture
def bilm(root):
    return str(root / "fixtures/bilm/options.json"), str(root / "fixtures/bilm/weights.hdf5")


@pytest.fixture
def run(monkeypatch, bilm):
    def run(*arguments):
        files = ["--options-file", bilm[0], "--weight-file", bilm[1]]
        monkeypatch.setattr(sys, "argv", ["allennlp", "elmo-tokens", *map(str, arguments), *files])
        main()

    return run


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "words"
    path.write_bytes(gzip.compress("".join(f"{word}\n" for word in [*WORDS, "the"]).encode()))
    return path


def test_both_forms_hold_each_words_half_of_layer_0(run, vocabulary, tmp_path, bilm, capsys):
    run(vocabulary, tmp_path / "out.hdf5", tmp_path / "out.txt", "--batch-size", 2)
    expected = [ElmoEmbedder(*bilm).embed_sentence([word])[0, 0, :8] for word in WORDS]
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert list(file["words"].asstr()) == WORDS
        assert file["embedding"].dtype == numpy.float32
        numpy.testing.assert_allclose(file["embedding"], expected, atol=1e-6)
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "5 8" and [line.split(" ")[0] for line in lines[1:]] == WORDS
    numpy.testing.assert_allclose([[float(x) for x in line.split(" ")[1:]] for line in lines[1:]], expected, atol=1e-6)
    assert "wrote 5 words" in capsys.readouterr().out


def test_allennlp_reads_the_text_form(run, vocabulary, tmp_path):
    run(vocabulary, tmp_path / "out.txt", tmp_path / "out.hdf5")
    vocab = Vocabulary(tokens_to_add={"tokens": WORDS})
    embedding = Embedding(embedding_dim=8, vocab=vocab, pretrained_file=str(tmp_path / "out.txt"))
    with h5py.File(tmp_path / "out.hdf5") as file:
        found = embedding.weight[vocab.get_token_index("cat")].detach()
        numpy.testing.assert_allclose(found, file["embedding"][4], atol=1e-6)


def test_text_is_zipped_if_its_name_says_so(run, vocabulary, tmp_path):
    run(vocabulary, tmp_path / "out.vec.gz")
    assert gzip.decompress((tmp_path / "out.vec.gz").read_bytes()).startswith(b"5 8\nthe ")


@pytest.mark.parametrize(
    "content, output, message",
    [
        ("a\n\nb\n", "out.hdf5", ":2: this line is blank"),
        ("a\nb c\n", "out.hdf5", ":2: this line holds several words: 'b c'"),
        ("", "out.hdf5", "it has no words"),
        (None, "out.hdf5", "No such file"),
        ("a\n", "out.bin", "can't tell in which format to write"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(run, tmp_path, content, output, message):
    if content is not None:
        (tmp_path / "in.txt").write_text(content)
    with pytest.raises(SystemExit) as exit:
        run(tmp_path / "in.txt", tmp_path / output)
    assert message in exit.value.code
    assert not (tmp_path / output).exists()


def test_help_shows_an_example(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["allennlp", "elmo-tokens", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert "example: allennlp elmo-tokens vocabulary.txt tokens.hdf5 tokens.txt" in capsys.readouterr().out
