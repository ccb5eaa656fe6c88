"""DatasetReader "elmo::srl": predicates and their arguments, from the files of OntoNotes."""

from os import PathLike
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.data import DatasetReader, Field, Instance, Token
from allennlp.data.fields import MetadataField, SequenceLabelField, TextField

from elmo_plugin.tasks.common.labels import TagField
from elmo_plugin.tasks.common.reader import TaskReader, some
from elmo_plugin.tasks.srl.conll import Frame, Sentence, read_sentences
from elmo_plugin.tasks.srl.predicates import PredicateFinder, SpacyPredicateFinder

# Parts of speech of the Penn Treebank, and the universal ones.
VERBAL_PARTS_OF_SPEECH = ("V", "AUX", "MD")


@DatasetReader.register("elmo::srl")
class SrlReader(TaskReader):
    """Reads the columns of CoNLL-2012, from one file or from all `*gold_conll` files below a folder, gzipped or not:

        doc 0 0 Ada   NNP (TOP(S(NP*)  -    -  - - (PERSON) (ARG0*)  -
        doc 0 1 met   VBD (VP*         meet 01 - - *        (V*)     -
        doc 0 2 Bo    NNP (NP*)))      -    -  - - (PERSON) (ARG1*)  -

    There is one instance for each predicate, which is the word with the frameset (01 above) that its column belongs to,
    or, in files without framesets, the one where its brackets (V*) begin; a sentence without one has no instance. Tags
    are in BIO, with continuations (C-ARG1) and references (R-ARG1) as separate labels. Of arguments nested in one
    another, which CoNLL-2012's v4 files have, the outermost is kept, and empty columns that belong to no predicate are
    skipped; a warning counts both.

    verbal_predicates_only: leaves out predicates whose part of speech isn't a verb's, such as nouns.
    max_tokens: leaves out longer sentences; for training data only.
    predicate_finder: for text without predicates, as predictors get; `spacy` by default.
    The others are those of `TaskReader`.
    """

    def __init__(
        self,
        *,
        predicate_finder: Optional[PredicateFinder] = None,
        verbal_predicates_only: bool = False,
        max_tokens: Optional[int] = None,
        label_namespace: str = "labels",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if max_tokens is not None and max_tokens < 1:
            raise ConfigurationError(f"reader elmo::srl: max_tokens must be 1 or more, or null, not {max_tokens}")
        self._predicate_finder = predicate_finder or SpacyPredicateFinder()
        self._verbal_predicates_only = verbal_predicates_only
        self._max_tokens = max_tokens
        self._label_namespace = label_namespace

    def _read(self, file_path: Union[str, PathLike]) -> Iterator[Instance]:
        otherwise = f"{file_path} holds no predicate, or none that the reader's arguments allow"
        # Sentences, not predicates, are distributed among processes, so that a sentence's predicates stay together.
        for sentence in self.shard_iterable(some(self._sentences(str(file_path)), otherwise)):
            for frame in sentence.frames:
                yield self.text_to_instance(sentence.words, frame.predicate_index, frame.tags, sentence.place)

    def text_to_instance(
        self,
        words: Sequence[str],
        predicate_index: int,
        tags: Optional[Sequence[str]] = None,
        place: Optional[str] = None,
    ) -> Instance:
        """An instance of one predicate of a sentence. `place` distinguishes sentences with the same words."""
        if not 0 <= predicate_index < len(words):
            raise ValueError(f"there is no word {predicate_index} among the {len(words)} of {' '.join(words)!r}")
        text_field = TextField([Token(word) for word in words])
        indicator = [int(index == predicate_index) for index in range(len(words))]
        metadata: Dict[str, Any] = {"tokens": list(words), "predicate_index": predicate_index, "place": place}
        fields: Dict[str, Field] = {
            "tokens": text_field,
            "predicate_indicator": SequenceLabelField(indicator, text_field, "predicate_labels"),
            "metadata": MetadataField(metadata),
        }
        if tags is not None:
            metadata["gold_tags"] = list(tags)
            fields["tags"] = TagField(list(tags), text_field, self._label_namespace)
        return Instance(fields)

    def find_predicates(self, sentences: List[List[str]]) -> List[List[int]]:
        """The numbers of the words that are predicates, for each sentence."""
        return self._predicate_finder.find(sentences)

    def _sentences(self, file_path: str) -> Iterator[Sentence]:
        """Those with predicates."""
        for sentence in read_sentences(str(cached_path(file_path)), self._encoding):
            frames = self._chosen_frames(sentence)
            if frames:
                yield sentence._replace(frames=frames)

    def _chosen_frames(self, sentence: Sentence) -> List[Frame]:
        if self._max_tokens is not None and len(sentence.words) > self._max_tokens:
            return []
        if not self._verbal_predicates_only:
            return sentence.frames
        parts_of_speech = sentence.parts_of_speech
        return [
            frame
            for frame in sentence.frames
            if parts_of_speech[frame.predicate_index].startswith(VERBAL_PARTS_OF_SPEECH)
        ]
