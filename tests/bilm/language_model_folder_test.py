import json
import math

import pytest
import torch
from allennlp.commands import main
from allennlp.common import Lazy
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.bilm import BiLm, BiLmLanguageModel, checkpoint, open_archive, softmax_file
from elmo_plugin.bilm.options import BiLmOptions
from elmo_plugin.bilm.softmax import SampledSoftmax
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
    softmax_file.write(model.word_softmax(), folder / "softmax.hdf5")
    return folder


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
    assert open_archive(str(tmp_path)) is None
