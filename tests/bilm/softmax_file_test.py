import json
import math

import h5py
import numpy
import pytest
import torch
from allennlp.commands import main
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.bilm import BiLm, BiLmLanguageModel, checkpoint, softmax_file
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.softmax import AdaptiveSoftmax, SampledSoftmax
from elmo_plugin.training import BiLmVocabulary

OPTIONS = BiLmOptions(projection_dim=8, cell_dim=12, filters=((1, 4), (2, 6)), num_highway=1, char_dim=4)
SENTENCE = ["the", "old", "mill"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("the old mill\nthe caf\u00e9 by the mill\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def model(text):
    torch.manual_seed(0)
    vocab = BiLmVocabulary.from_corpus(data_path=text)
    return BiLmLanguageModel(vocab, BiLm(OPTIONS), Lazy(SampledSoftmax)).eval()


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bilm")
    checkpoint.write(model.bilm, folder / "weights.hdf5", folder / "options.json")
    softmax_file.write(model, folder / "softmax.hdf5")
    return folder


def test_words_and_biases_come_back_as_they_were_and_weights_nearly(model, folder):
    words, weight, bias = softmax_file.read_softmax(folder / "softmax.hdf5", OPTIONS.projection_dim)
    assert words == [model.vocab.get_token_from_index(index, "bilm_words") for index in range(len(words))]
    assert torch.equal(bias, model.softmax.bias.detach())
    largest = model.softmax.weight.detach().abs().amax(dim=1, keepdim=True)
    assert ((weight - model.softmax.weight.detach()).abs() <= largest / 254 * 1.001).all()


def test_a_folder_is_opened_as_an_archive_is(folder):
    predictor = Predictor.from_archive(load_archive(str(folder)))
    output = predictor.predict_json({"tokens": SENTENCE, "top_k": 2})
    assert math.isfinite(output["perplexity"]["mean"]) and len(output["substitutes"][1]["both"]) == 2
    assert output["forward"][0]["scored_as"] == "the"


def test_the_command_line_predicts_from_a_folder(folder, tmp_path, monkeypatch):
    (tmp_path / "in.jsonl").write_text(json.dumps({"tokens": SENTENCE}) + "\n")
    arguments = ["predict", str(folder), str(tmp_path / "in.jsonl"), "--output-file", str(tmp_path / "out.jsonl")]
    monkeypatch.setattr("sys.argv", ["allennlp", *arguments, "--silent"])
    main()
    assert json.loads((tmp_path / "out.jsonl").read_text())["tokens"] == SENTENCE


def test_the_command_line_evaluates_a_folder(folder, text, tmp_path, monkeypatch):
    arguments = ["evaluate", str(folder), text, "--output-file", str(tmp_path / "metrics.json")]
    monkeypatch.setattr("sys.argv", ["allennlp", *arguments])
    main()
    assert json.loads((tmp_path / "metrics.json").read_text())["perplexity"] > 1.0


def test_a_folder_without_a_softmax_is_left_to_allennlp(tmp_path):
    assert softmax_file.open_archive(str(tmp_path)) is None


@pytest.mark.parametrize("damage", ["text", "missing", "short", "elsewhere", "huge", "repeated"])
def test_a_damaged_file_is_told_by_name(model, tmp_path, damage):
    path = tmp_path / "softmax.hdf5"
    if damage == "text":
        path.write_text("no softmax")
    else:
        softmax_file.write(model, path)
        with h5py.File(path, "a") as file:
            changed = "words" if damage == "repeated" else "bias"
            content = file[changed][...]
            del file[changed]
            if damage == "short":
                file["bias"] = content[:-1]
            elif damage == "elsewhere":
                file["bias"] = h5py.ExternalLink("other.hdf5", "/bias")
            elif damage == "huge":  # nothing of it is there
                del file["scale"]
                for name in ("bias", "scale"):
                    file.create_dataset(name, shape=(10**12,), dtype="f4", chunks=(1000,))
            elif damage == "repeated":
                file["words"] = numpy.frombuffer(content.tobytes().replace(b"mill", b"the"), dtype="u1")
    with pytest.raises(ConfigurationError, match="softmax.hdf5 .*bilm-export"):
        softmax_file.read_softmax(path, OPTIONS.projection_dim)


def test_an_adaptive_softmax_is_not_written(model, tmp_path):
    adaptive = BiLmLanguageModel(model.vocab, BiLm(OPTIONS), Lazy(AdaptiveSoftmax, div_value=1.5))
    with pytest.raises(ConfigurationError, match="not AdaptiveSoftmax"):
        softmax_file.write(adaptive, tmp_path / "softmax.hdf5")
