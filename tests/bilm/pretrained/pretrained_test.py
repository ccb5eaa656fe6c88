import os

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLm, BiLmSource, pretrained, sources


def test_the_shipped_bilm_is_what_a_config_gets_by_name_and_by_default():
    by_name = BiLm.from_params(Params({"type": "pretrained", "name": "wiki-small"}))
    by_default = BiLm.from_params(Params({"type": "pretrained"}))
    torch.testing.assert_close(by_name.state_dict(), by_default.state_dict(), rtol=0, atol=0)


def test_the_shipped_bilm_takes_no_more_room_than_it_may():
    assert os.path.getsize(pretrained.PRETRAINED["wiki-small"].weight_file) <= 20_000_000


def test_the_shipped_weights_are_bfloat16_numbers_stored_as_float32():
    for name, parameter in BiLmSource.from_name().named_parameters():
        assert parameter.dtype == torch.float32 and torch.equal(parameter, parameter.bfloat16().float()), name


def test_the_shipped_bilm_has_a_model_card(root):
    card = (root / "elmo_plugin" / "bilm" / "pretrained" / "wiki-small" / "README.md").read_text()
    assert all(word in card for word in ("CC BY-SA", "perplexity", "limits"))


def test_an_unknown_name_is_refused_with_the_names_there_are():
    with pytest.raises(ConfigurationError, match="no pretrained biLM 'huge'; the names are wiki-small, small, medium"):
        BiLmSource.from_name("huge")


def test_a_published_bilm_is_fetched_from_its_address(monkeypatch, bilm_files):
    fetched = []

    def cached_path(address):
        fetched.append(address)
        return bilm_files.options_file if address.endswith(".json") else bilm_files.weight_file

    monkeypatch.setattr(sources, "cached_path", cached_path)
    bilm = BiLmSource.from_name("original")
    torch.testing.assert_close(bilm.state_dict(), BiLmSource.from_files(*bilm_files).state_dict())
    assert fetched[0].startswith("https://") and "2x4096_512_2048cnn_2xhighway" in fetched[0]


def test_a_published_bilm_that_cannot_be_fetched_is_named_with_the_remedy(monkeypatch):
    def offline(address):
        raise ConnectionError("no network")

    monkeypatch.setattr(sources, "cached_path", offline)
    with pytest.raises(ConfigurationError, match=r"elmo_2x1024.*no network.*give a local path"):
        BiLmSource.from_name("small")


def test_a_run_records_the_name_and_not_where_the_plugin_is_installed(tmp_path):
    (tmp_path / "vocabulary").mkdir()
    bilm = BiLm.from_params(Params({"type": "pretrained"}), serialization_dir=str(tmp_path))
    torch.save(bilm.state_dict(), tmp_path / "best.th")
    record = (tmp_path / "vocabulary" / sources.RECORD_NAME).read_text()
    assert "wiki-small" in record and "options.json" not in record
