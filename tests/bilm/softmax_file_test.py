import h5py
import numpy
import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import softmax_file
from elmo_plugin.bilm.softmax_file import WordSoftmax

DIM = 8


@pytest.fixture
def softmax():
    torch.manual_seed(0)
    words = ["<S>", "</S>", "<UNK>", "the", "mill", "caf\u00e9"]
    return WordSoftmax(words, torch.randn(len(words), DIM), torch.randn(len(words)))


@pytest.fixture
def path(softmax, tmp_path):
    softmax_file.write(softmax, tmp_path / "softmax.hdf5")
    return tmp_path / "softmax.hdf5"


@pytest.mark.parametrize("dim", [DIM, None])
def test_words_and_biases_come_back_as_they_were_and_weights_nearly(softmax, path, dim):
    words, weight, bias = softmax_file.read(path, dim)
    assert words == softmax.words and torch.equal(bias, softmax.bias)
    largest = softmax.weight.abs().amax(dim=1, keepdim=True)
    assert ((weight - softmax.weight).abs() <= largest / 254 * 1.001).all()


def test_fewer_bits_round_to_fewer_levels(softmax, tmp_path):
    softmax_file.write(softmax, tmp_path / "coarse.hdf5", bits=3)
    weight = softmax_file.read(tmp_path / "coarse.hdf5").weight
    largest = softmax.weight.abs().amax(dim=1, keepdim=True)
    assert ((weight - softmax.weight).abs() <= largest / 6 * 1.001).all()
    torch.testing.assert_close(weight, (weight / largest * 3).round() * largest / 3)


def test_a_softmax_over_other_states_is_refused(path):
    with pytest.raises(ConfigurationError, match="weight is .6, 8. large, where .6, 16. was expected"):
        softmax_file.read(path, 2 * DIM)


def test_a_softmax_is_found_by_name_or_folder(path, tmp_path):
    assert softmax_file.find(str(tmp_path)) == path
    assert softmax_file.find("wiki-base").name == "softmax.hdf5"
    assert softmax_file.find("wiki-small") is None and softmax_file.find(str(tmp_path / "elsewhere")) is None


@pytest.mark.parametrize("damage", ["text", "missing", "short", "elsewhere", "huge", "repeated"])
def test_a_damaged_file_is_told_by_name(path, damage):
    if damage == "text":
        path.write_text("no softmax")
    else:
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
        softmax_file.read(path, DIM)
