"""Scripts of AllenNLP 0.9's days: what they import, how they call it, and what they do with what they get."""

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import h5py
import numpy
import pytest
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from elmo_plugin.embedding import allennlp_0_9
from elmo_plugin.embedding.allennlp_0_9 import ElmoEmbedder, empty_embedding

PROTEINS = ["MKTAYIAKQR", "SEQ", "GGGGGGGG"]


@pytest.fixture
def embedder(bilm_files):
    return ElmoEmbedder(options_file=bilm_files.options_file, weight_file=bilm_files.weight_file, cuda_device=-1)


def test_the_old_import_works_as_the_first_line_of_a_script(bilm_files):
    script = f"""
from allennlp.commands.elmo import ElmoEmbedder, batch_to_ids, DEFAULT_BATCH_SIZE
import allennlp.commands.elmo
embedder = allennlp.commands.elmo.ElmoEmbedder({bilm_files.options_file!r}, {bilm_files.weight_file!r})
print(embedder.embed_sentence(["I", "ate"]).shape, DEFAULT_BATCH_SIZE)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout == "(3, 2, 16) 64\n", result.stderr


def test_the_old_module_has_its_old_names():
    import allennlp.commands.elmo as old

    assert old.ElmoEmbedder is ElmoEmbedder and old.empty_embedding is empty_embedding
    assert old.DEFAULT_OPTIONS_FILE.endswith(
        "/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway_options.json"
    )
    assert old.DEFAULT_WEIGHT_FILE.endswith(
        "/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5"
    )
    assert old.batch_to_ids is batch_to_ids


def test_the_signature_is_that_of_0_9():
    positional = [
        (name, parameter.default)
        for name, parameter in inspect.signature(ElmoEmbedder).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert positional == [
        ("options_file", allennlp_0_9.DEFAULT_OPTIONS_FILE),
        ("weight_file", allennlp_0_9.DEFAULT_WEIGHT_FILE),
        ("cuda_device", -1),
    ]


def test_vectors_are_those_of_allennlps_own_bilm(embedder, bilm_files):
    reference = _ElmoBiLm(*bilm_files)(batch_to_ids([list(PROTEINS[0])]))
    expected = torch.stack(reference["activations"])[:, 0, 1:-1].detach().numpy()
    vectors = embedder.embed_sentence(list(PROTEINS[0]))
    assert vectors.dtype == numpy.float32
    numpy.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_files_may_be_paths_and_need_no_ending(bilm_files, tmp_path):
    options_file, weight_file = tmp_path / "options_file", tmp_path / "weights_file"
    options_file.write_bytes(Path(bilm_files.options_file).read_bytes())
    weight_file.write_bytes(Path(bilm_files.weight_file).read_bytes())
    assert ElmoEmbedder(options_file, weight_file).embed_sentence(["A"]).shape == (3, 1, 16)


def test_a_batch_of_proteins_is_a_list_of_arrays_and_repeats(embedder):
    batch = embedder.embed_batch([list(protein) for protein in PROTEINS])
    assert [vectors.shape for vectors in batch] == [(3, 10, 16), (3, 3, 16), (3, 8, 16)]
    assert batch[0].sum(0).mean(0).shape == (16,)
    for vectors, protein in zip(batch, PROTEINS, strict=True):
        numpy.testing.assert_allclose(vectors, embedder.embed_sentence(list(protein)), atol=1e-6)


@pytest.mark.parametrize("make", [str, tuple, lambda text: numpy.array(list(text))], ids=["str", "tuple", "array"])
def test_a_sentence_may_be_any_sequence_as_it_could_be_in_0_9(embedder, make):
    expected = embedder.embed_batch([list(protein) for protein in PROTEINS])
    given = [make(protein) for protein in PROTEINS]
    numpy.testing.assert_allclose(embedder.embed_sentence(given[0]), expected[0], atol=1e-6)
    for vectors, other in zip(embedder.embed_batch(given), expected, strict=True):
        numpy.testing.assert_allclose(vectors, other, atol=1e-6)
    assert embedder.batch_to_embeddings(given)[1].sum() == sum(map(len, PROTEINS))


def test_a_string_of_several_words_is_read_letter_by_letter_with_a_warning(embedder):
    with pytest.warns(UserWarning, match="letter by letter"):
        assert embedder.embed_sentence("I ate").shape == (3, 5, 16)


def test_sentences_come_from_a_generator(embedder):
    vectors = embedder.embed_sentences([list(protein) for protein in PROTEINS], 2)
    assert next(vectors).shape == (3, 10, 16)
    assert [rest.shape[1] for rest in vectors] == [3, 8]


def test_a_sentence_without_tokens_has_the_empty_embedding(embedder):
    assert empty_embedding().shape == (3, 0, 1024) and empty_embedding().dtype == numpy.float64
    for vectors in (embedder.embed_sentence([]), embedder.embed_batch([["a"], []])[1], *embedder.embed_sentences([[]])):
        numpy.testing.assert_array_equal(vectors, empty_embedding())


def test_tensors_of_a_batch_can_be_trained_on(embedder):
    activations, mask = embedder.batch_to_embeddings([["a", "b"], ["c"]])
    assert activations.shape == (2, 3, 2, 16) and mask.tolist() == [[1, 1], [1, 0]] and mask.dtype == torch.long
    head = torch.nn.Linear(16, 1)
    head(activations[:, 2]).sum().backward()
    assert head.weight.grad.abs().sum() > 0


def test_carried_states_are_by_choice(embedder, bilm_files):
    sentence = ["a", "b"]
    numpy.testing.assert_array_equal(embedder.embed_sentence(sentence), embedder.embed_sentence(sentence))
    stateful, reference = ElmoEmbedder(*bilm_files, stateful=True), _ElmoBiLm(*bilm_files)
    for _ in range(2):
        expected = torch.stack(reference(batch_to_ids([sentence]))["activations"])[:, 0, 1:-1].detach().numpy()
        numpy.testing.assert_allclose(stateful.embed_sentence(sentence), expected, atol=1e-5)
    stateful.elmo_bilm._elmo_lstm.reset_states()
    numpy.testing.assert_allclose(stateful.embed_sentence(sentence), embedder.embed_sentence(sentence), atol=1e-6)


def test_the_bilm_is_called_as_allennlps_own(embedder, bilm_files):
    ids = batch_to_ids([["a", "b"], ["c"]])
    output, expected = embedder.elmo_bilm(ids), _ElmoBiLm(*bilm_files)(ids)
    torch.testing.assert_close(output["activations"], [layer.detach() for layer in expected["activations"]])
    _, mask = remove_sentence_boundaries(output["activations"][0], output["mask"])
    assert mask.tolist() == [[1, 1], [1, 0]]
    assert embedder.elmo_bilm.num_layers == 3 and embedder.elmo_bilm.get_output_dim() == 16


def test_a_pickled_embedder_goes_on_where_it_is_put(embedder):
    expected = embedder.embed_sentence(["a", "b"])
    embedder.elmo_bilm.eval()
    restored = pickle.loads(pickle.dumps(embedder))
    restored.cuda_device = -1
    restored.elmo_bilm.to(device=torch.device("cpu"))
    restored.elmo_bilm._elmo_lstm._states = tuple(state.to("cpu") for state in restored.elmo_bilm._elmo_lstm._states)
    numpy.testing.assert_array_equal(restored.embed_sentence(["a", "b"]), expected)
    assert restored.elmo_bilm.bilm is restored.bilm


def test_lack_of_gpu_memory_stays_the_runtime_error_that_scripts_catch(embedder, monkeypatch):
    def out_of_memory(*unused):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(embedder.bilm, "forward", out_of_memory)
    with pytest.raises(RuntimeError, match="out of memory"):
        embedder.embed_batch([list(PROTEINS[0])])


def test_a_file_is_embedded_as_before(embedder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The cat sat\nHello\n")
    with open(text) as file:
        embedder.embed_file(file, str(tmp_path / "vectors.hdf5"), "average", 64, False, False)
    with h5py.File(tmp_path / "vectors.hdf5") as output:
        assert output["0"].shape == (3, 16) and output["1"].shape == (1, 16)
