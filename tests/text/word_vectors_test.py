import shutil

import numpy
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, Vocabulary
from allennlp.modules import TokenEmbedder

from elmo_plugin.text.word_vectors import WordIndexer, WordVectors

FILE = "the 3 4\ncat 1 2\nsat 0.5 0.25\nzero 0 0\n"


@pytest.fixture
def vocab():
    return Vocabulary({"tokens": {"the": 2, "unheard": 1, "zero": 1}})


@pytest.fixture
def file(tmp_path):
    (tmp_path / "vectors.txt").write_text(FILE, encoding="utf-8")
    return str(tmp_path / "vectors.txt")


def ids(vocab, *words):
    indexed = WordIndexer().tokens_to_indices([Token(word) for word in words], vocab)
    return torch.tensor([indexed["tokens"]])


# ---- The indexer ----


def test_words_of_the_vocabulary_have_its_ids_and_others_negative_ones(vocab):
    (numbers,) = ids(vocab, "the", "cat", "unheard", "cat", "sat").tolist()
    assert numbers[0] == vocab.get_token_index("the") and numbers[2] == vocab.get_token_index("unheard")
    assert numbers[1] == numbers[3] < 0 and numbers[4] < 0 and numbers[4] != numbers[1]


@pytest.mark.parametrize(
    "word, written",
    [
        ("1996", "0"),
        ("1,234.5", "0"),
        ("-7", "0"),
        (".5", "0"),
        ("1996-08-22", "000"),
        ("B52s", "b0s"),
        ("1.", "0."),
        ("a-b", "a-b"),
        ("...", "..."),
        ("²", "²"),
    ],
)
def test_numbers_may_become_zeros_as_in_sennas_list(word, written):
    counter = {"tokens": {written: 0}}
    indexer = WordIndexer(lowercase_tokens=True, zero_numbers=True)
    indexer.count_vocab_items(Token(word), counter)
    assert counter == {"tokens": {written: 1}}
    vocab = Vocabulary(counter)
    assert indexer.tokens_to_indices([Token(word)], vocab)["tokens"] == [vocab.get_token_index(written)]


def test_words_are_written_as_they_are_by_default(vocab):
    counter = {"tokens": {"The7": 0}}
    WordIndexer().count_vocab_items(Token("The7"), counter)
    assert counter == {"tokens": {"The7": 1}}


# ---- The embedder ----


def test_words_outside_the_vocabulary_have_the_files_vectors(vocab, file):
    embedder = WordVectors(2, vocab, pretrained_file=file).eval()
    (vectors,) = embedder(ids(vocab, "the", "cat", "nowhere", "sat"))
    assert vectors[[0, 1, 3]].tolist() == [[3, 4], [1, 2], [0.5, 0.25]]
    assert torch.equal(vectors[2], embedder.weight[vocab.get_token_index("@@UNKNOWN@@")])


def test_texts_of_several_sentences_are_embedded_too(vocab, file):
    embedder = WordVectors(2, vocab, pretrained_file=file).eval()
    tokens = torch.stack([ids(vocab, "cat", "the"), ids(vocab, "the", "sat")]).unsqueeze(0)
    assert embedder(tokens).tolist() == [[[[[1, 2], [3, 4]]], [[[3, 4], [0.5, 0.25]]]]]


def test_in_training_what_the_vocabulary_lacks_is_unknown_and_what_it_has_is_trained(vocab, file):
    embedder = WordVectors(2, vocab, pretrained_file=file).train()
    embedder(ids(vocab, "the", "cat")).sum().backward()
    grads = embedder.weight.grad.sum(dim=1)
    rows = [vocab.get_token_index("the"), vocab.get_token_index("@@UNKNOWN@@")]
    assert grads[rows].tolist() == [2, 2] and grads.sum() == 4


def test_gradients_reach_the_vocabularys_words_beside_others_in_evaluation(vocab, file):
    embedder = WordVectors(2, vocab, pretrained_file=file).eval()
    embedder(ids(vocab, "the", "cat")).sum().backward()
    assert embedder.weight.grad[vocab.get_token_index("the")].tolist() == [1, 1]
    assert embedder.weight.grad.sum() == 2


def test_fixed_vectors_are_not_trained(vocab, file):
    assert not WordVectors(2, vocab, pretrained_file=file, trainable=False).weight.requires_grad


def test_vectors_may_be_scaled_to_length_one_and_missing_ones_be_zeros(vocab, file):
    embedder = WordVectors(2, vocab, pretrained_file=file, unit_length=True, missing="zeros").eval()
    (vectors,) = embedder(ids(vocab, "the", "unheard", "zero", "cat", "nowhere"))
    expected = [[0.6, 0.8], [0, 0], [0, 0], [5**-0.5, 2 * 5**-0.5], [0, 0]]
    torch.testing.assert_close(vectors, torch.tensor(expected), atol=3e-4, rtol=0)


def test_words_that_the_file_lacks_start_at_random_like_the_others(file):
    vocab = Vocabulary({"tokens": {"the": 1, "cat": 1, **{f"unheard{number}": 1 for number in range(2000)}}})
    weight = WordVectors(2, vocab, pretrained_file=file).weight.data
    found = numpy.array([[3, 4], [1, 2]])
    assert weight[4:].mean().item() == pytest.approx(found.mean(), abs=0.1)
    assert weight[4:].std().item() == pytest.approx(found.std(), abs=0.1)


def test_without_a_file_only_the_vocabularys_words_are_known(vocab):
    embedder = WordVectors(2, vocab).eval()
    (vectors,) = embedder(ids(vocab, "the", "cat"))
    assert torch.equal(vectors[0], embedder.weight[vocab.get_token_index("the")])
    assert torch.equal(vectors[1], embedder.weight[vocab.get_token_index("@@UNKNOWN@@")])


def test_missing_is_checked(vocab):
    with pytest.raises(ConfigurationError, match="missing must be 'random' or 'zeros', not 'ones'"):
        WordVectors(2, vocab, missing="ones")


# ---- Archives ----


def saved(folder, embedder):
    (folder / "vocabulary").mkdir(parents=True, exist_ok=True)
    return embedder.state_dict()


def loaded(folder, vocab, state, **config):
    config = {"type": "elmo::word_vectors", "embedding_dim": 2, **config}
    embedder = TokenEmbedder.from_params(Params(config), vocab=vocab, serialization_dir=str(folder)).eval()
    embedder.load_state_dict(state)
    return embedder


def test_a_folder_with_saved_weights_has_all_vectors(vocab, file, tmp_path):
    (tmp_path / "run").mkdir()
    embedder = WordVectors(2, vocab, pretrained_file=file, serialization_dir=str(tmp_path / "run"))
    embedder.weight.data[vocab.get_token_index("the")] = 7.0
    state = saved(tmp_path / "run", embedder)
    assert state.keys() == {"weight"}
    moved = shutil.move(tmp_path / "run", tmp_path / "moved")
    (tmp_path / "vectors.txt").unlink()
    reloaded = loaded(moved, vocab, state)
    shutil.rmtree(moved)
    assert reloaded(ids(vocab, "the", "cat")).tolist() == [[[7, 7], [1, 2]]]


def test_the_vocabulary_folder_is_left_alone_until_weights_are_saved(vocab, file, tmp_path):
    (tmp_path / "run" / "vocabulary").mkdir(parents=True)
    WordVectors(2, vocab, pretrained_file=file, serialization_dir=str(tmp_path / "run"))
    assert not list((tmp_path / "run" / "vocabulary").iterdir())


def test_two_files_are_told_apart_by_name(vocab, file, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("cat 8 9\n", encoding="utf-8")
    embedders = {
        name: WordVectors(2, vocab, pretrained_file=str(path), name=name, serialization_dir=str(tmp_path))
        for name, path in {"words": file, "turian": other}.items()
    }
    states = {name: saved(tmp_path, embedder) for name, embedder in embedders.items()}
    cat = ids(vocab, "cat")
    assert loaded(tmp_path, vocab, states["words"])(cat).tolist() == [[[1, 2]]]
    assert loaded(tmp_path, vocab, states["turian"], name="turian")(cat).tolist() == [[[8, 9]]]
    nameless = WordVectors(2, vocab, pretrained_file=str(other), serialization_dir=str(tmp_path))
    with pytest.raises(ConfigurationError, match="two different files of word vectors are called 'words'"):
        saved(tmp_path, nameless)


# ---- Extended vocabularies ----


def extended(vocab, *words):
    for word in words:
        vocab.add_token_to_namespace(word)
    return vocab


def test_words_that_join_the_vocabulary_keep_the_files_vectors(vocab, file):
    embedder = WordVectors(2, vocab, pretrained_file=file).eval()
    before = embedder.weight.data.clone()
    embedder.extend_vocab(extended(vocab, "sat", "nowhere", "cat"))
    assert torch.equal(embedder.weight.data[: len(before)], before)
    assert embedder(ids(vocab, "cat", "sat")).tolist() == [[[1, 2], [0.5, 0.25]]]
    assert embedder.num_embeddings == vocab.get_vocab_size()


def test_words_that_join_the_vocabulary_may_come_from_another_file(vocab, file, tmp_path):
    (tmp_path / "more.txt").write_text("dog 6 8\n", encoding="utf-8")
    embedder = WordVectors(2, vocab, pretrained_file=file, unit_length=True, trainable=False).eval()
    embedder.extend_vocab(extended(vocab, "dog"), extension_pretrained_file=str(tmp_path / "more.txt"))
    torch.testing.assert_close(embedder(ids(vocab, "dog")), torch.tensor([[[0.6, 0.8]]]))
    assert not embedder.weight.requires_grad


def test_a_vocabulary_that_did_not_grow_changes_nothing(vocab):
    embedder = WordVectors(2, vocab)
    before = embedder.weight.data.clone()
    embedder.extend_vocab(vocab)
    assert torch.equal(embedder.weight.data, before)
