import json
import logging
import shutil
from pathlib import Path

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules import TokenEmbedder
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin.bilm import BiLm, BiLmSource
from elmo_plugin.bilm.sources import RECORD_NAME


def from_config(files, folder=None):
    params = Params({"options_file": files.options_file, "weight_file": files.weight_file})
    return BiLm.from_params(params, **({} if folder is None else {"serialization_dir": str(folder)}))


def test_a_config_without_a_type_means_files(bilm_files):
    torch.testing.assert_close(from_config(bilm_files).state_dict(), BiLmSource.from_files(*bilm_files).state_dict())


@pytest.mark.parametrize("settings", [{}, {"dropout": 0.25}])
def test_a_config_names_a_bilm_by_the_one_string_alone_or_with_settings(bilm_files, settings):
    folder = str(Path(bilm_files.weight_file).parent)
    named = {"type": "pretrained", "name": folder, **settings} if settings else folder
    bilm = TokenEmbedder.from_params(Params({"type": "elmo::token_embedder", "bilm": named})).elmo.bilm
    torch.testing.assert_close(bilm.state_dict(), BiLm.load(folder).state_dict(), rtol=0, atol=0)
    assert bilm.dropout.p == settings.get("dropout", 0.0)


def test_a_misspelt_type_is_refused(bilm_files):
    with pytest.raises(ConfigurationError, match="fles not in acceptable choices for type"):
        BiLm.from_params(Params({"type": "fles", "options_file": "o", "weight_file": "w"}))


def test_a_random_bilm_takes_its_sizes_from_the_config():
    bilm = BiLm.from_params(
        Params(
            {"type": "random", "projection_dim": 4, "cell_dim": 6, "num_layers": 3, "filters": [[1, 5]], "dropout": 0.1}
        )
    )
    assert (bilm.options.projection_dim, bilm.num_layers, bilm.options.filters, bilm.dropout.p) == (
        4,
        4,
        ((1, 5),),
        0.1,
    )


def test_a_missing_file_is_named(bilm_files):
    with pytest.raises(ConfigurationError, match=r"weight_file 'nowhere.hdf5'"):
        BiLmSource.from_files(bilm_files.options_file, "nowhere.hdf5")


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "run"
    (folder / "vocabulary").mkdir(parents=True)
    return folder


def save(bilm, folder, name="best.th"):
    torch.save(bilm.state_dict(), folder / name)


def test_sizes_are_recorded_when_weights_are_saved_and_not_before(bilm_files, run_folder):
    bilm = from_config(bilm_files, run_folder)
    assert not (run_folder / "vocabulary" / RECORD_NAME).exists()
    save(bilm, run_folder)
    (options,) = json.loads((run_folder / "vocabulary" / RECORD_NAME).read_text()).values()
    assert options == bilm.options.to_json()


def test_with_a_record_and_weights_the_files_are_not_needed(bilm_files, run_folder):
    bilm = from_config(bilm_files, run_folder)
    save(bilm, run_folder)
    shutil.rmtree(Path(bilm_files.weight_file).parent)
    rebuilt = from_config(bilm_files, run_folder)
    rebuilt.load_state_dict(torch.load(run_folder / "best.th"))
    ids = batch_to_ids([["a", "b"]])
    assert torch.equal(rebuilt(ids).layers, bilm(ids).layers)


def test_a_rebuilt_bilm_refuses_to_run_without_weights(bilm_files, run_folder):
    save(from_config(bilm_files, run_folder), run_folder)
    with pytest.raises(RuntimeError, match="no weights were loaded"):
        from_config(bilm_files, run_folder)(batch_to_ids([["a"]]))


def test_without_saved_weights_the_files_are_read_again(bilm_files, run_folder):
    bilm = from_config(bilm_files, run_folder)
    save(bilm, run_folder)
    (run_folder / "best.th").unlink()  # killed before the first checkpoint
    torch.testing.assert_close(from_config(bilm_files, run_folder).state_dict(), bilm.state_dict())


def test_two_bilms_in_one_model_keep_their_own_sizes(make_bilm_files, run_folder):
    small, large = make_bilm_files(name="small"), make_bilm_files(lstm={"dim": 20}, name="large")
    save(torch.nn.ModuleList([from_config(small, run_folder), from_config(large, run_folder)]), run_folder)
    assert from_config(small, run_folder).options.cell_dim == 16
    assert from_config(large, run_folder).options.cell_dim == 20


def test_saving_elsewhere_is_none_of_its_business(bilm_files, tmp_path, caplog):
    bilm = from_config(bilm_files, tmp_path / "gone")
    with caplog.at_level(logging.WARNING):
        bilm.state_dict()
    assert not (tmp_path / "gone").exists() and not caplog.records
