"""Which words of a sentence are predicates, for text in which nobody has marked them."""

from pathlib import Path
from typing import Any, List, Optional, Sequence

import spacy
from allennlp.common import Registrable
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token
from allennlp.models.archival import Archive, load_archive
from spacy.tokens import Doc

from elmo_plugin.archives import check_reachable


class PredicateFinder(Registrable):
    """Finds predicates by a tagger's tags. What it needs is loaded when it is first used."""

    default_implementation = "spacy"

    def find(self, sentences: List[List[str]]) -> List[List[int]]:
        """The numbers of the words that are predicates, for each sentence."""
        raise NotImplementedError


@PredicateFinder.register("spacy")
class SpacyPredicateFinder(PredicateFinder):
    """Verbs except auxiliaries, by a trained spaCy pipeline: the name of an installed one, or its folder."""

    def __init__(self, model: str = "en_core_web_sm") -> None:
        if Path(model).exists():
            check_reachable(model)
        self._model = model
        self._pipeline: Optional[Any] = None

    def find(self, sentences: List[List[str]]) -> List[List[int]]:
        pipeline = self._load()
        documents = pipeline.pipe(Doc(pipeline.vocab, words=words) for words in sentences)
        return [[token.i for token in document if _is_predicate(token)] for document in documents]

    def _load(self) -> Any:
        if self._pipeline is None:
            try:
                self._pipeline = spacy.load(self._model)
            except OSError as error:
                raise ConfigurationError(
                    f"no predicates are given, and the spaCy pipeline {self._model!r}, which could find them, isn't "
                    'installed. Give them with the input, {"tokens": ["Ada", "left"], "predicate_indices": [1]}; or '
                    f"install it, 'python -m spacy download {self._model}'; or name a tagger's archive in the dataset "
                    'reader, "predicate_finder": {"type": "tagger", "archive_file": "tagger/model.tar.gz"}'
                ) from error
        return self._pipeline


@PredicateFinder.register("tagger")
class TaggerPredicateFinder(PredicateFinder):
    """Words that one of AllenNLP's taggers, such as a `simple_tagger` of parts of speech, gives certain tags.

    archive_file: the tagger's model.tar.gz.
    predicate_tags: how the tags of predicates begin; those of verbs in the Penn Treebank by default.
    """

    def __init__(self, archive_file: str, predicate_tags: Sequence[str] = ("V",)) -> None:
        check_reachable(archive_file)  # here, since it is opened later
        self._archive_file = archive_file
        self._predicate_tags = tuple(predicate_tags)
        self._archive: Optional[Archive] = None

    def find(self, sentences: List[List[str]]) -> List[List[int]]:
        if self._archive is None:
            self._archive = load_archive(self._archive_file)
            self._archive.model.eval()
        reader, model = self._archive.validation_dataset_reader, self._archive.model
        instances = [reader.text_to_instance([Token(word) for word in words]) for words in sentences]
        for instance in instances:
            reader.apply_token_indexers(instance)
        found = []
        for words, output in zip(sentences, model.forward_on_instances(instances), strict=True):
            if "tags" not in output:
                raise ConfigurationError(
                    f"{self._archive_file} holds a {type(model).__name__}, which gives no 'tags': it can't tell which "
                    "words are predicates"
                )
            tags = output["tags"][: len(words)]  # AllenNLP's tagger tags the padding too
            found.append([index for index, tag in enumerate(tags) if tag.startswith(self._predicate_tags)])
        return found


def _is_predicate(token: Any) -> bool:
    # To spaCy, "is" and "has" are auxiliaries even where they are the only verb; the parse tells.
    return token.pos_ == "VERB" or (token.pos_ == "AUX" and token.dep_ not in ("", "aux", "auxpass"))
