"""The classes of a biLM's softmax: the words of a vocabulary's namespace, without padding."""

from typing import Iterable, List

from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.characters.mapping import BEGIN_SENTENCE_TOKEN, END_SENTENCE_TOKEN

NAMESPACE = "bilm_words"
UNKNOWN_WORD = "<UNK>"
SPECIAL_WORDS = (BEGIN_SENTENCE_TOKEN, END_SENTENCE_TOKEN, UNKNOWN_WORD)


def words_in_order(vocab: Vocabulary, namespace: str = NAMESPACE) -> List[str]:
    """The words of a namespace, each at its index."""
    words = vocab.get_index_to_token_vocabulary(namespace)
    return [words[index] for index in range(len(words))]


class WordIds:
    """Maps a word to its class, which is that of `<UNK>` for words not in the vocabulary.

    If the text itself contains `<S>`, `</S>` or `<UNK>`, they are those classes too, as in bilm-tf.
    """

    def __init__(self, vocab: Vocabulary, namespace: str = NAMESPACE) -> None:
        if namespace not in vocab.get_namespaces():
            raise ConfigurationError(
                f"the vocabulary has no namespace {namespace!r}, only {sorted(vocab.get_namespaces())}. "
                'Count the words first: "vocabulary": {"type": "elmo::bilm", "data_path": ...}'
            )
        self._ids = vocab.get_token_to_index_vocabulary(namespace)
        missing = [word for word in SPECIAL_WORDS if word not in self._ids]
        if missing or vocab.is_padded(namespace):
            raise ConfigurationError(
                f"the namespace {namespace!r} doesn't hold classes of a biLM's softmax: "
                + (f"it lacks {', '.join(missing)}" if missing else "it is padded")
                + '. Build it with "vocabulary": {"type": "elmo::bilm", ...}'
            )
        self.begin_id = self._ids[BEGIN_SENTENCE_TOKEN]
        self.end_id = self._ids[END_SENTENCE_TOKEN]
        self.unknown_id = self._ids[UNKNOWN_WORD]

    def __len__(self) -> int:
        return len(self._ids)

    def __call__(self, words: Iterable[str]) -> List[int]:
        get, unknown_id = self._ids.get, self.unknown_id
        return [get(word, unknown_id) for word in words]
