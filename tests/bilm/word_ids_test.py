import pickle

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.bilm.word_ids import WordIds


def test_unknown_words_get_the_class_of_unk():
    classes = ["<S>", "</S>", "<UNK>", *"abcde"]
    word_ids = WordIds(Vocabulary(non_padded_namespaces=["bilm_words"], tokens_to_add={"bilm_words": classes}))
    assert word_ids(["a", "zebra", "<UNK>", "<S>", "e"]) == [3, 2, 2, 0, 7]
    assert len(word_ids) == 8
    assert pickle.loads(pickle.dumps(word_ids))(["a", "zebra"]) == [3, 2]


def test_a_vocabulary_without_the_namespace_is_refused():
    with pytest.raises(ConfigurationError, match="has no namespace 'bilm_words'"):
        WordIds(Vocabulary.empty())


def test_a_padded_namespace_is_refused():
    vocab = Vocabulary.empty()
    vocab.add_tokens_to_namespace(["<S>", "</S>", "<UNK>"], "bilm_words")
    with pytest.raises(ConfigurationError, match="it is padded"):
        WordIds(vocab)


def test_a_namespace_without_the_special_words_is_refused():
    vocab = Vocabulary(non_padded_namespaces=["bilm_words"], tokens_to_add={"bilm_words": ["a", "<S>"]})
    with pytest.raises(ConfigurationError, match="it lacks </S>, <UNK>"):
        WordIds(vocab)
