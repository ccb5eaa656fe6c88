import os

import torch
from allennlp.common import Params

from elmo_plugin.bilm import BiLm, pretrained, sources


def test_the_shipped_bilm_is_what_a_config_gets_by_name_and_by_default():
    by_name = BiLm.from_params(Params({"type": "pretrained", "name": "wiki-small"}))
    by_default = BiLm.from_params(Params({"type": "pretrained"}))
    torch.testing.assert_close(by_name.state_dict(), by_default.state_dict(), rtol=0, atol=0)


def test_the_shipped_bilm_takes_no_more_room_than_it_may():
    assert os.path.getsize(pretrained.PRETRAINED["wiki-small"].weight_file) <= 20_000_000


def test_the_shipped_weights_are_bfloat16_numbers_stored_as_float32():
    for name, parameter in BiLm.load("wiki-small").named_parameters():
        assert parameter.dtype == torch.float32 and torch.equal(parameter, parameter.bfloat16().float()), name


def test_the_shipped_bilm_has_a_model_card(root):
    card = (root / "elmo_plugin" / "bilm" / "pretrained" / "wiki-small" / "README.md").read_text()
    assert all(word in card for word in ("CC BY-SA", "perplexity", "limits"))


def test_a_run_records_the_name_and_not_where_the_plugin_is_installed(tmp_path):
    (tmp_path / "vocabulary").mkdir()
    bilm = BiLm.from_params(Params({"type": "pretrained"}), serialization_dir=str(tmp_path))
    torch.save(bilm.state_dict(), tmp_path / "best.th")
    record = (tmp_path / "vocabulary" / sources.RECORD_NAME).read_text()
    assert "wiki-small" in record and "options.json" not in record
