import copy
import pickle

import pytest
import torch

from elmo_plugin.archive_records import WhenFirstSaved, read_record, saved_weights, write_record


def write_weight(module, folder):
    """A module-level function, as what is pickled has to be."""
    write_record(folder, ".weight.json", [*read_record(folder, ".weight.json", list), module.weight.item()])


@pytest.fixture
def module(tmp_path):
    module = torch.nn.Linear(1, 1, bias=False)
    module.register_state_dict_pre_hook(WhenFirstSaved(tmp_path, write_weight))
    return module


def test_a_record_is_written_when_weights_are_first_saved_and_there_is_a_vocabulary(module, tmp_path):
    module.state_dict()
    assert read_record(tmp_path, ".weight.json", list) == []
    (tmp_path / "vocabulary").mkdir()
    for _ in range(2):
        module.state_dict()
    assert read_record(tmp_path, ".weight.json", list) == [module.weight.item()]


@pytest.mark.parametrize("make", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_copy_writes_its_own(module, tmp_path, make):
    (tmp_path / "vocabulary").mkdir()
    other = make(module)
    other.weight.data.fill_(7.0)
    other.state_dict()
    assert read_record(tmp_path, ".weight.json", list) == [7.0]


def test_an_archives_weights_come_before_those_of_a_run(tmp_path):
    assert saved_weights(tmp_path) is None
    for name in ("model_state_e1_b0.th", "best.th", "weights.th"):
        (tmp_path / name).touch()
        assert saved_weights(tmp_path) == tmp_path / name
