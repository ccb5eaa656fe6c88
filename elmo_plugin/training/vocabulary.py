"""Vocabulary "elmo::bilm": the words that the biLM's softmax can predict. Its input is characters and needs no
vocabulary.
"""

import logging
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Optional

from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.vocabulary import DEFAULT_NON_PADDED_NAMESPACES

from elmo_plugin.bilm import softmax_file
from elmo_plugin.bilm.word_ids import NAMESPACE, SPECIAL_WORDS, words_in_order
from elmo_plugin.files import numbered_lines
from elmo_plugin.training.corpus import SentenceSource, TextFiles

logger = logging.getLogger(__name__)

_NEWLINE_IN_FILES = "@@NEWLINE@@"  # what AllenNLP writes for a newline in an entry, and reads as one
_PLACEHOLDER = "!!!MAXTERMID"  # an entry of the 1B Word vocabulary that bilm-tf doesn't count as a word


class BiLmVocabulary(Vocabulary):
    """An AllenNLP vocabulary whose namespace `bilm_words` holds the softmax's classes, and nothing else.

    The namespace isn't a padded one: a word's index is its class, from 0, with `<S>`, `</S>` and `<UNK>` first and then
    the words from the most frequent to the rarest (equally frequent ones in character order). So there is no class for
    padding, the log-uniform sampler can use the index as the rank, and `vocabulary/bilm_words.txt` is a vocabulary file
    in bilm-tf's format. AllenNLP's own names for padding and unknown words stay as they are, since reloading relies on
    them.

    After reloading it is a plain `Vocabulary`; `WordIds` looks words up in either.
    """

    @classmethod
    def from_corpus(
        cls,
        data_path: Any = None,
        vocab_file: Optional[str] = None,
        min_count: int = 1,
        max_size: Optional[int] = None,
        reader: Optional[DatasetReader] = None,
        language_model: Optional[str] = None,
        namespace: str = NAMESPACE,
    ) -> "BiLmVocabulary":
        """What `{"type": "elmo::bilm"}` builds, from one of three sources.

        - `data_path`: a path, a glob or a folder of text, read once. Words that occur fewer than `min_count` times are
          left out, and of the others the `max_size - 3` most frequent are kept: `max_size` counts `<S>`, `</S>` and
          `<UNK>` too. All distinct words are counted in memory, at some 150 bytes each. With a `reader` of type
          `elmo::bilm`, the words are those that this reader finds there, for instance in a task's data.
        - `vocab_file`: a bilm-tf vocabulary, one word per line, with the three special ones first.
        - `language_model`: the words of a trained one, to go on training it: an archive, or the name or folder of a
          biLM with its softmax.
        """
        if sum(source is not None for source in (data_path, vocab_file, language_model)) != 1:
            raise ConfigurationError(
                "vocabulary elmo::bilm: give one of data_path, vocab_file and language_model; "
                f"got data_path={data_path!r}, vocab_file={vocab_file!r}, language_model={language_model!r}"
            )
        if data_path is None and (min_count != 1 or max_size is not None or reader is not None):
            raise ConfigurationError(
                "vocabulary elmo::bilm: min_count, max_size and reader go with data_path; "
                "a vocab_file, or a language_model's, is used as it is"
            )
        if vocab_file is not None:
            classes = read_vocab_file(vocab_file)
        elif language_model is not None:
            classes = words_of(language_model, namespace)
        else:
            counts = count_words(_source(data_path, reader))
            classes = [*SPECIAL_WORDS, *most_frequent(counts, min_count, max_size)]
        vocab = cls(non_padded_namespaces=[*DEFAULT_NON_PADDED_NAMESPACES, namespace])
        vocab.add_tokens_to_namespace(classes, namespace)
        logger.info("The softmax has %d words.", len(classes))
        return vocab


Vocabulary.register("elmo::bilm", constructor="from_corpus")(BiLmVocabulary)


def _source(data_path: Any, reader: Optional[DatasetReader]) -> SentenceSource:
    if reader is None:
        return TextFiles(data_path)
    if not hasattr(reader, "sentence_source"):
        raise ConfigurationError(
            f"vocabulary elmo::bilm: its reader has to be an elmo::bilm one, got {type(reader).__name__}; "
            "wrap a task's reader: {type: 'elmo::bilm', task_reader: ...}"
        )
    return reader.sentence_source(data_path)


def count_words(source: SentenceSource) -> Dict[str, int]:
    """How often each word occurs, in one streaming pass."""
    counts: Counter = Counter()
    for _, words in source.scan("counting words"):
        counts.update(words)
    if not counts:
        raise ConfigurationError(f"{source.name}: it has no words to build a vocabulary from")
    return counts


def most_frequent(counts: Dict[str, int], min_count: int = 1, max_size: Optional[int] = None) -> List[str]:
    """The words for a vocabulary of at most `max_size` classes, without the three special ones."""
    if min_count < 1:
        raise ConfigurationError(f"min_count has to be at least 1, got {min_count}")
    if max_size is not None and max_size <= len(SPECIAL_WORDS):
        raise ConfigurationError(
            f"max_size has to be more than {len(SPECIAL_WORDS)}, since it counts {SPECIAL_WORDS}; got {max_size}"
        )
    kept = [(-count, word) for word, count in counts.items() if count >= min_count and _is_ordinary(word)]
    kept.sort()
    if max_size is not None:
        del kept[max_size - len(SPECIAL_WORDS) :]
    return [word for _, word in kept]


def _is_ordinary(word: str) -> bool:
    """False for the special words, and for words that AllenNLP can't write to a file and read back unchanged.

    Text files have hardly any of the latter, but a task's tokenizer may well make a token of a carriage return.
    """
    is_one_word = word.split() == [word] and _NEWLINE_IN_FILES not in word
    has_lone_surrogate = any("\ud800" <= character <= "\udfff" for character in word)
    return is_one_word and not has_lone_surrogate and word not in SPECIAL_WORDS


def words_of(language_model: str, namespace: str = NAMESPACE) -> List[str]:
    """The words that a trained language model predicts."""
    path = softmax_file.find(language_model)
    if path is not None:
        return softmax_file.read(path).words
    folder = Path(language_model) / "vocabulary"
    if not folder.is_dir() and not language_model.endswith(".tar.gz"):
        raise ConfigurationError(
            f"{language_model!r} predicts no words: it has no {softmax_file.NAME} beside it and isn't the model.tar.gz "
            "of a language model. Take one of these, or fit a softmax to a biLM that came without one: "
            "training_configs/bilm/fit_softmax.jsonnet"
        )
    vocab = Vocabulary.from_files(folder if folder.is_dir() else language_model)
    if namespace not in vocab.get_namespaces():
        raise ConfigurationError(f"{language_model} isn't a language model: its vocabulary has no {namespace!r}")
    return words_in_order(vocab, namespace)


def read_vocab_file(path: str) -> List[str]:
    """The words of a bilm-tf vocabulary file, checked."""
    line_numbers: Dict[str, int] = {}
    for line_number, line in numbered_lines(path, skip_blank=False):
        # Unicode's other white space stays: a published vocabulary may have such a word, and a class is a line number.
        word = line.strip(" \t\r\n")
        if word == _PLACEHOLDER:
            continue
        if not word or _NEWLINE_IN_FILES in word or "\r" in word:
            raise ConfigurationError(f"{path}:{line_number}: expected one word, got {word!r}")
        if word in line_numbers:
            raise ConfigurationError(f"{path}:{line_number}: the word {word!r} is already on line {line_numbers[word]}")
        line_numbers[word] = line_number
    words = list(line_numbers)
    if sorted(words[: len(SPECIAL_WORDS)]) != sorted(SPECIAL_WORDS):
        raise ConfigurationError(
            f"{path}:1: a bilm-tf vocabulary starts with the lines {', '.join(SPECIAL_WORDS)}; this one starts with "
            f"{', '.join(words[:3]) or 'nothing'}. Put them first, then the words, most frequent first."
        )
    return words
