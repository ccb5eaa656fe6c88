"""What the models of all tasks share: a forward pass in three steps, and the placements of contextual vectors."""

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model

from elmo_plugin.tasks.common.accuracy import Accuracy
from elmo_plugin.text import PlacedTextEmbedder

Scores = Dict[str, Any]
Metadata = Optional[List[Dict[str, Any]]]  # of each example of a batch


class TaskModel(Model):
    """A model whose forward pass is `scores`, then `decode`, then `loss`, so that several of them can decide together.

    Each of the three is given all of a batch's tensors by name and takes those it needs:

    - `scores(**tensors)` is all of the network's work, as a dictionary;
    - `decode(scores, **tensors)` is the output for such scores, which may be several models'. It counts metrics if
      there are gold labels;
    - `loss(scores, **tensors)` is what training minimises, or None without gold labels.

    `placements` are the places the model has for contextual vectors; a `text_embedder` that places them elsewhere is
    refused. A subclass sets `metric`.

    `training_metrics`: decode each batch of the training data, too, and report its metrics beside the loss. It takes
    time, and on a GPU the host waits, so it is off by default, except where decoding costs next to nothing.
    """

    placements: Tuple[str, ...] = ("input", "output")
    decodes_in_training = False
    metric: Any  # a Metric, which each task calls with what it counts

    def __init__(
        self,
        vocab: Vocabulary,
        text_embedder: PlacedTextEmbedder,
        training_metrics: Optional[bool] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab, **kwargs)
        text_embedder.check_placements(self.placements)
        self.text_embedder = text_embedder
        if training_metrics is not None:
            self.decodes_in_training = training_metrics

    def forward(self, **tensors: Any) -> Dict[str, Any]:  # type: ignore[override]
        scores = self.scores(**tensors)
        loss = self.loss(scores, **tensors)
        if loss is None:
            return self.decode(scores, **tensors)
        output = self.decode(scores, **tensors) if self.decodes_in_training or not self.training else {}
        return {**output, "loss": loss}

    def scores(self, *args: Any, **tensors: Any) -> Scores:
        raise NotImplementedError

    def decode(self, scores: Scores, *args: Any, **tensors: Any) -> Dict[str, Any]:
        raise NotImplementedError

    def loss(self, scores: Scores, *args: Any, **tensors: Any) -> Optional[torch.Tensor]:
        raise NotImplementedError

    @classmethod
    def joint_scores(cls, members: Sequence[Any], *args: Any, **tensors: Any) -> Scores:
        """The joint scores of several models of the task, for any of them to decode: the mean of all floating-point
        scores (probabilities; a CRF's emissions and transitions), and the first model's of the rest.

        A task overrides this where what is scored depends on an earlier choice, which has to be made once for all
        models.
        """
        of_members = [member.scores(*args, **tensors) for member in members]
        return {name: mean_of([scores[name] for scores in of_members]) for name in of_members[0]}

    def get_metrics(self, reset: bool = False) -> Dict[str, float]:
        metrics = self.metric.get_metric(reset)
        return metrics if self.decodes_in_training or not self.training else {}


class Classifier(TaskModel):
    """A task with one label per input: `scores` has `logits` and `probabilities`, (batch_size, num_labels). `labels`
    are their names by id.
    """

    decodes_in_training = True

    def __init__(
        self, vocab: Vocabulary, text_embedder: PlacedTextEmbedder, label_namespace: str = "labels", **kwargs: Any
    ) -> None:
        super().__init__(vocab, text_embedder, **kwargs)
        self.labels = _names_of_labels(vocab, label_namespace, at_least=2)
        self.metric = Accuracy()

    def decode(self, scores: Scores, label: Optional[torch.Tensor] = None, *_: Any, **__: Any) -> Dict[str, Any]:
        if label is not None:
            self.metric(scores["probabilities"], label)
        return {"probabilities": scores["probabilities"]}

    def loss(self, scores: Scores, label: Optional[torch.Tensor] = None, **_: Any) -> Optional[torch.Tensor]:
        return None if label is None else torch.nn.functional.cross_entropy(scores["logits"], label)

    def make_output_human_readable(self, output_dict: Dict[str, Any]) -> Dict[str, Any]:
        """Adds the most probable `label` of each input, and names its `probabilities`."""
        probabilities = output_dict["probabilities"]
        rows = probabilities.tolist()
        return {
            **output_dict,
            "label": [self.labels[index] for index in probabilities.argmax(dim=-1).tolist()],
            "probabilities": [{self.labels[index]: each for index, each in enumerate(row)} for row in rows],
        }


class Tagger(TaskModel):
    """A task with one tag per token; `tags` are their names by id."""

    def __init__(
        self, vocab: Vocabulary, text_embedder: PlacedTextEmbedder, label_namespace: str = "labels", **kwargs: Any
    ) -> None:
        super().__init__(vocab, text_embedder, **kwargs)
        self.tags = _names_of_labels(vocab, label_namespace, at_least=1)

    def name_tags(self, tag_ids: torch.Tensor, mask: torch.Tensor) -> List[List[str]]:
        """The tags of each sentence, (batch_size, num_tokens), without those of the padding."""
        rows = zip(tag_ids.tolist(), mask.sum(dim=-1).tolist(), strict=True)
        return [[self.tags[tag_id] for tag_id in row[:length]] for row, length in rows]


def _names_of_labels(vocab: Vocabulary, namespace: str, at_least: int) -> Dict[int, str]:
    names = vocab.get_index_to_token_vocabulary(namespace)
    if len(names) < at_least:
        raise ConfigurationError(
            f"the vocabulary's namespace {namespace!r} holds {len(names)} labels, but {at_least} or more are needed; "
            "are the training data labelled, and is this the dataset reader's label_namespace?"
        )
    return names


def copy_from(metadata: Metadata, *names: str) -> Dict[str, List[Any]]:
    """What the output repeats of a batch's metadata: a list for each name, or nothing without metadata."""
    return {} if metadata is None else {name: [each[name] for each in metadata] for name in names}


def mean_of(values: List[Any]) -> Any:
    """The mean of tensors of floating-point numbers; of anything else, and of a single one, the first."""
    first = values[0]
    if len(values) == 1 or not isinstance(first, torch.Tensor) or not first.is_floating_point():
        return first
    return torch.stack(values).mean(dim=0)


def part_of(text: TextFieldTensors, *index: Union[int, slice, torch.Tensor]) -> TextFieldTensors:
    """The same part of all of a text's tensors."""
    return {indexer: {name: tensor[index] for name, tensor in tensors.items()} for indexer, tensors in text.items()}
