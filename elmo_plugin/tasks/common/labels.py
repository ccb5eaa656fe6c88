"""Labels that a file has and a model may not know."""

import logging
from typing import List, Set, Tuple

from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.data.fields import LabelField, SequenceLabelField

logger = logging.getLogger(__name__)

UNKNOWN_TAG_ID = -100


class KnownLabelField(LabelField):
    """A label that a model must know: it has no answer for examples of a class that it has never seen."""

    __slots__: List[str] = []

    def index(self, vocab: Vocabulary) -> None:
        known = vocab.get_token_to_index_vocabulary(self._label_namespace)
        if self.label not in known:
            raise ConfigurationError(
                f"the data have the label {self.label!r}, but the model was trained on data that had only "
                f"{', '.join(map(repr, known))}; leave such examples out, or train with some of them"
            )
        super().index(vocab)


class TagField(SequenceLabelField):
    """Tags, some of which may be new: test data have labels too rare to be in training data.

    A model can't predict such a tag and has no loss for it, but missing it has to count: so gold tags also go to a
    model by name, in its metadata.
    """

    __slots__: List[str] = []
    _named: Set[Tuple[str, str]] = set()

    def index(self, vocab: Vocabulary) -> None:
        known = vocab.get_token_to_index_vocabulary(self._label_namespace)
        self._indexed_labels = [known.get(str(label), UNKNOWN_TAG_ID) for label in self.labels]
        for tag in set(map(str, self.labels)) - known.keys():
            self._name(tag, list(known))

    def _name(self, tag: str, known: List[str]) -> None:
        if (self._label_namespace, tag) not in self._named:
            self._named.add((self._label_namespace, tag))
            logger.warning(
                "The data have the tag %r, which the model has never seen (it knows %s) and can't predict. It counts "
                "as missed in the scores and isn't learned from.",
                *(tag, ", ".join(known)),
            )
