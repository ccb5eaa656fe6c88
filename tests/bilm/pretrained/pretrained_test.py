from pathlib import Path

import pytest
import torch
from allennlp.common import Params
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.bilm import BiLm, pretrained, sources

SHIPPED = ["wiki-small", "wiki-base", "wiki-large"]


def test_the_shipped_bilm_is_what_a_config_gets_by_name_and_by_default():
    by_name = BiLm.from_params(Params({"type": "pretrained", "name": "wiki-base"}))
    by_default = BiLm.from_params(Params({"type": "pretrained"}))
    torch.testing.assert_close(by_name.state_dict(), by_default.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_bilm_takes_no_more_room_than_it_may(name):
    folder = Path(pretrained.PRETRAINED[name].weight_file).parent
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 20_000_000


@pytest.mark.parametrize("shipped", SHIPPED)
def test_shipped_weights_are_bfloat16_numbers_stored_as_float32(shipped):
    for name, parameter in BiLm.load(shipped).named_parameters():
        assert parameter.dtype == torch.float32 and torch.equal(parameter, parameter.bfloat16().float()), name


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_bilm_has_a_model_card(root, name):
    card = (root / "elmo_plugin" / "bilm" / "pretrained" / name / "README.md").read_text()
    assert all(word in card for word in ("CC BY-SA", "perplexity", "limits"))


def test_the_shipped_language_model_knows_what_fits_a_gap():
    """Words it should have learnt from any text: a preposition stands where one stood, and not where a noun did."""
    predictor = Predictor.from_archive(load_archive("wiki-base"))
    output = predictor.predict_json({"sentence": "He was born in London in 1912 .", "top_k": 5})
    assert output["perplexity"]["mean"] < 100
    assert "in" in [word["word"] for word in output["substitutes"][3]["both"]]
    assert "in" not in [word["word"] for word in output["substitutes"][4]["both"]]


def test_a_run_records_the_name_and_not_where_the_plugin_is_installed(tmp_path):
    (tmp_path / "vocabulary").mkdir()
    bilm = BiLm.from_params(Params({"type": "pretrained"}), serialization_dir=str(tmp_path))
    torch.save(bilm.state_dict(), tmp_path / "best.th")
    record = (tmp_path / "vocabulary" / sources.RECORD_NAME).read_text()
    assert "wiki-base" in record and "options.json" not in record
