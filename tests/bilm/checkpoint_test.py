import json
import logging
from pathlib import Path

import h5py
import numpy
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as AllenNlpElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin.bilm import BiLm, BiLmOptions, BiLmSource, checkpoint

SIZES = {
    "tiny": dict(),
    "no projection": dict(lstm={"dim": 8}),
    "filters as wide as the projection": dict(lstm={"projection_dim": 16, "dim": 20}),
    "one layer": dict(lstm={"n_layers": 1}),
    "no highway": dict(char_cnn={"n_highway": 0}),
    "short tokens": dict(char_cnn={"max_characters_per_token": 12}),
}


def datasets(path):
    with h5py.File(path, "r") as file:
        found = {}
        file.visititems(lambda name, item: found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)
        return found


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_reading_then_writing_gives_back_every_dataset_bit_for_bit(make_bilm_files, tmp_path, sizes):
    files = make_bilm_files(**sizes)
    checkpoint.write(BiLmSource.from_files(*files), tmp_path / "w.hdf5", tmp_path / "o.json")
    before, after = datasets(files.weight_file), datasets(tmp_path / "w.hdf5")
    assert before.keys() == after.keys()
    for name in before:
        assert before[name].dtype == after[name].dtype and numpy.array_equal(before[name], after[name])
    assert checkpoint.read_options(tmp_path / "o.json") == checkpoint.read_options(files.options_file)


def test_a_written_file_gives_the_same_vectors_in_allennlps_elmo(tmp_path):
    torch.manual_seed(0)
    bilm = BiLm(BiLmOptions(projection_dim=6, cell_dim=10, char_dim=3, filters=((1, 4), (2, 5))))
    checkpoint.write(bilm, tmp_path / "w.hdf5", tmp_path / "o.json")
    reference = AllenNlpElmo(
        str(tmp_path / "o.json"), str(tmp_path / "w.hdf5"), 1, dropout=0.0, scalar_mix_parameters=[-9e10, -9e10, 1]
    )
    ids = batch_to_ids([["a", "word"], ["another"]])
    expected = reference(ids)["elmo_representations"][0]
    ours = bilm(ids).layers[-1, :, 1:-1] * (ids > 0).any(-1, keepdim=True)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def test_a_one_layer_model_is_read_under_bilm_tfs_name_too(make_bilm_files):
    files = make_bilm_files(lstm={"n_layers": 1})
    expected = BiLmSource.from_files(*files).state_dict()
    with h5py.File(files.weight_file, "a") as file:
        for direction in range(2):
            file.move(f"RNN_{direction}/RNN/MultiRNNCell/Cell0/LSTMCell", f"RNN_{direction}/RNN/LSTMCell")
    torch.testing.assert_close(BiLmSource.from_files(*files).state_dict(), expected)


@pytest.mark.parametrize(
    "lstm, char_cnn, reason",
    [
        ({"use_skip_connections": False}, {}, "no skip connections"),
        ({}, {"max_characters_per_token": 12}, "it reads 12 characters"),
        ({"dim": 8}, {}, "LSTMs have no projection"),
        ({"projection_dim": 16, "dim": 20}, {}, "CNN has no projection"),
    ],
)
def test_writing_warns_of_what_allennlp_cannot_load(make_bilm_files, tmp_path, caplog, lstm, char_cnn, reason):
    bilm = BiLmSource.from_files(*make_bilm_files(lstm, char_cnn))
    with caplog.at_level(logging.WARNING):
        checkpoint.write(bilm, tmp_path / "w.hdf5", tmp_path / "o.json")
    assert reason in caplog.text


def test_a_wrong_shape_is_refused_with_name_and_both_shapes(bilm_files):
    with h5py.File(bilm_files.weight_file, "a") as file:
        del file["CNN_proj/W_proj"]
        file["CNN_proj/W_proj"] = numpy.zeros((16, 9), dtype=numpy.float32)
    with pytest.raises(
        ConfigurationError, match=r"'CNN_proj/W_proj' has shape \(16, 9\), but the options ask for \(16, 8\)"
    ):
        BiLmSource.from_files(*bilm_files)


def test_a_missing_dataset_is_named(bilm_files):
    with h5py.File(bilm_files.weight_file, "a") as file:
        del file["CNN_high_1/b_carry"]
    with pytest.raises(ConfigurationError, match="no dataset 'CNN_high_1/b_carry'"):
        BiLmSource.from_files(*bilm_files)


@pytest.mark.parametrize(
    "section, key, value, message",
    [
        ("lstm", "n_layers", 1, "lstm.n_layers makes 1, but .*weights.hdf5 holds 2"),
        ("lstm", "n_layers", 60, "lstm.n_layers makes 60, but"),
        ("char_cnn", "n_highway", 64, "char_cnn.n_highway makes 64, but"),
        ("char_cnn", "filters", [[1, 2]] * 9, "char_cnn.filters makes 9, but"),
        ("lstm", "dim", 60000, "'RNN_0/.*W_0' has shape .*, but the options ask for .*240000"),
    ],
)
def test_sizes_that_are_not_the_weights_are_refused_before_anything_is_built(
    bilm_files, monkeypatch, section, key, value, message
):
    options = json.loads(Path(bilm_files.options_file).read_text())
    options[section][key] = value
    Path(bilm_files.options_file).write_text(json.dumps(options))
    built = []
    original = checkpoint.BiLm.__init__

    def init(bilm, options):
        original(bilm, options)
        built.append(next(bilm.parameters()).device.type)

    monkeypatch.setattr(checkpoint.BiLm, "__init__", init)
    with pytest.raises(ConfigurationError, match=message):
        BiLm.load(*bilm_files)
    assert "cpu" not in built


def test_a_dataset_that_belongs_to_nothing_is_refused(bilm_files):
    with h5py.File(bilm_files.weight_file, "a") as file:
        file["RNN_1/more"] = numpy.zeros(1)
    with pytest.raises(ConfigurationError, match="'RNN_1/more' that its options.json has no place for"):
        BiLm.load(*bilm_files)


@pytest.mark.parametrize("kind", ["text", "another file's"])
def test_numbers_in_another_file_or_none_at_all_are_refused(bilm_files, tmp_path, kind):
    (tmp_path / "secret").write_bytes(bytes(1000))
    with h5py.File(bilm_files.weight_file, "a") as file:
        shape = file["CNN/b_cnn_0"].shape
        del file["CNN/b_cnn_0"]
        if kind == "text":
            file.create_dataset("CNN/b_cnn_0", shape, "S4")
        else:
            file.create_dataset("CNN/b_cnn_0", shape, "f4", external=[(str(tmp_path / "secret"), 0, 1000)])
    with pytest.raises(ConfigurationError, match="'CNN/b_cnn_0' has to hold floating point numbers of its own"):
        BiLm.load(*bilm_files)


def test_a_truncated_file_is_refused_by_name(bilm_files):
    path = Path(bilm_files.weight_file)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ConfigurationError, match=r"weights.hdf5 can't be read as HDF5"):
        BiLmSource.from_files(*bilm_files)


def test_options_that_are_no_json_are_refused_by_name(bilm_files):
    Path(bilm_files.options_file).write_text("{")
    with pytest.raises(ConfigurationError, match=r"options.json isn't JSON"):
        BiLmSource.from_files(*bilm_files)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "kept").write_text("old")
    with pytest.raises(KeyError):
        with checkpoint.replacing(tmp_path / "kept") as temporary:
            temporary.write_text("half")
            raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["kept"] and (tmp_path / "kept").read_text() == "old"


def test_compact_weights_are_rounded_to_bfloat16_and_load_in_any_reader(make_bilm_files, tmp_path):
    bilm = BiLmSource.from_files(*make_bilm_files())
    checkpoint.write(bilm, tmp_path / "w.hdf5", tmp_path / "o.json", compact=True)
    for name, array in datasets(tmp_path / "w.hdf5").items():
        assert array.dtype == numpy.float32 and not (array.view(numpy.uint32) & 0xFFFF).any(), name
    rounded = BiLmSource.from_files(str(tmp_path / "o.json"), str(tmp_path / "w.hdf5"))
    for name, parameter in bilm.named_parameters():
        torch.testing.assert_close(rounded.get_parameter(name), parameter.bfloat16().float(), rtol=0, atol=0)


def test_compact_weights_keep_the_significant_digits_asked_for(tmp_path):
    bilm = BiLm(BiLmOptions(projection_dim=4, cell_dim=6, char_dim=3, filters=((1, 4), (2, 5))))
    with torch.no_grad():
        bilm.forward_layers[0].bias[:4] = torch.tensor([1.0, 1.1, -1.3, 0.55])
    checkpoint.write(bilm, tmp_path / "w.hdf5", tmp_path / "o.json", compact=True, significant_bits=3)
    rounded = checkpoint.read(tmp_path / "o.json", tmp_path / "w.hdf5").forward_layers[0].bias
    assert rounded[:4].tolist() == [1.0, 1.0, -1.25, 0.5]


def test_compact_weights_take_less_than_half_the_room(tmp_path):
    bilm = BiLm(BiLmOptions(projection_dim=64, cell_dim=128, filters=((1, 16), (2, 32))))
    checkpoint.write(bilm, tmp_path / "plain.hdf5", tmp_path / "o.json")
    checkpoint.write(bilm, tmp_path / "compact.hdf5", tmp_path / "o.json", compact=True)
    assert (tmp_path / "compact.hdf5").stat().st_size < 0.5 * (tmp_path / "plain.hdf5").stat().st_size
