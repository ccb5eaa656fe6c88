"""Model "elmo::snli": ESIM, the enhanced sequential inference model."""

from typing import Any, Dict, List, Optional

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import FeedForward, InputVariationalDropout, Seq2SeqEncoder
from allennlp.nn import InitializerApplicator

from elmo_plugin.tasks.common.task_model import Classifier, Metadata, Scores, copy_from
from elmo_plugin.tasks.snli.modules import align, average_and_max, local_inference
from elmo_plugin.text import EmbeddedText, PlacedTextEmbedder


@Model.register("elmo::snli")
class Esim(Classifier):
    """The sequence model of Chen et al. (2017), "Enhanced LSTM for Natural Language Inference", section 3, as changed
    in A.3 of the ELMo paper:

        a, b = biLSTM(premise), biLSTM(hypothesis)              `encoder`
        a~_i = sum_j softmax_j(a_i . b_j) b_j, b~_j likewise    alignment
        v = biLSTM(ReLU layer([a; a~; a - a~; a * a~]))         `projection`, `composition`; for b likewise
        p = [average v_a; max v_a; average v_b; max v_b]        pooling
        y = softmax(linear(ReLU layer(p)))                      `classifier`

    Placements: `input`, beside the word vectors, and `output`, beside a and b, so that the alignment sees it.

    `dropout` is variational at the input of both biLSTMs, and plain at the input of `classifier` and of the linear
    layer after it. `attention_dropout` is on [a; a~; a - a~; a * a~]; the paper has it with ELMo only. The input widths
    of the four parts are filled in here.

    Differs from Chen et al. in:
    - dropout at LSTM inputs is variational, the classifier's hidden layer is a ReLU rather than tanh, and the word
      vectors are fixed, because A.3 says so;
    - sentences have no boundary tokens, which the authors' code adds, because neither paper mentions them.

    Readings taken, where A.3 is short:
    - "300-d" is the width of an LSTM in one direction, as in Chen et al., so that a and b are 600 wide;
    - "the last two fully connected layers" are the hidden layer of the classifier and the linear layer after it;
    - dropout "after the attention layer" is on everything computed from the alignment, before the projection;
    - "all recurrent and feed-forward weight matrices" (l2, in training_configs/snli/elmo.jsonnet) are both matrices of
      each LSTM and the matrix of each linear layer; no bias, no word vector, nothing of a contextual embedder.
    """

    default_predictor = "elmo::snli"

    def __init__(
        self,
        vocab: Vocabulary,
        text_embedder: PlacedTextEmbedder,
        encoder: Lazy[Seq2SeqEncoder],
        projection: Lazy[FeedForward],
        composition: Lazy[Seq2SeqEncoder],
        classifier: Lazy[FeedForward],
        dropout: float = 0.5,
        attention_dropout: float = 0.0,
        label_namespace: str = "labels",
        max_attention_weights: int = 2**28,
        initializer: InitializerApplicator = InitializerApplicator(),
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab, text_embedder, label_namespace, **kwargs)
        self.encoder = encoder.construct(input_size=text_embedder.input_dim)
        encoding_dim = text_embedder.enhanced_dim(self.encoder.get_output_dim(), at="output")
        self.projection = projection.construct(input_dim=4 * encoding_dim)
        self.composition = composition.construct(input_size=self.projection.get_output_dim())
        self.classifier = classifier.construct(input_dim=4 * self.composition.get_output_dim())
        self.output_layer = torch.nn.Linear(self.classifier.get_output_dim(), len(self.labels))

        self.variational_dropout = InputVariationalDropout(dropout)
        self.attention_dropout = torch.nn.Dropout(attention_dropout)
        self.dropout = torch.nn.Dropout(dropout)
        self._max_attention_weights = max_attention_weights
        initializer(self)

    def scores(self, premise: TextFieldTensors, hypothesis: TextFieldTensors, **_: Any) -> Scores:
        """The distribution over labels, and the two alignments."""
        embedded_premise, embedded_hypothesis = self.text_embedder(premise), self.text_embedder(hypothesis)
        self._check_lengths(embedded_premise.mask, embedded_hypothesis.mask)
        # Shape: (batch_size, length, encoding_dim), each; [h_k; ELMo_k] where configured.
        encoded_premise, encoded_hypothesis = self._encode(embedded_premise), self._encode(embedded_hypothesis)
        premise_mask, hypothesis_mask = embedded_premise.mask, embedded_hypothesis.mask
        alignment = align(encoded_premise, premise_mask, encoded_hypothesis, hypothesis_mask)
        # Shape: (batch_size, 2 * composition_dim), each.
        pooled_premise = self._compose(encoded_premise, alignment.premise, premise_mask)
        pooled_hypothesis = self._compose(encoded_hypothesis, alignment.hypothesis, hypothesis_mask)
        pooled = torch.cat([pooled_premise, pooled_hypothesis], dim=-1)
        # Shape: (batch_size, num_labels)
        logits = self.output_layer(self.dropout(self.classifier(self.dropout(pooled))))
        return {
            "logits": logits,
            "probabilities": logits.softmax(dim=-1),
            "premise_attention": alignment.premise_attention,
            "hypothesis_attention": alignment.hypothesis_attention,
        }

    def decode(
        self, scores: Scores, label: Optional[torch.Tensor] = None, metadata: Metadata = None, **_: Any
    ) -> Dict[str, Any]:
        """The probabilities, the tokens and the attention. Counts accuracy if `label` is given."""
        return {
            **super().decode(scores, label),
            "premise_attention": scores["premise_attention"],
            "hypothesis_attention": scores["hypothesis_attention"],
            **copy_from(metadata, "premise_tokens", "hypothesis_tokens"),
        }

    def make_output_human_readable(self, output_dict: Dict[str, Any]) -> Dict[str, Any]:
        """Adds the most probable label, names the labels, and takes the padding off the attention."""
        readable = super().make_output_human_readable(output_dict)
        if "premise_tokens" in readable:
            premises, hypotheses = readable["premise_tokens"], readable["hypothesis_tokens"]
            readable["premise_attention"] = _without_padding(readable["premise_attention"], premises, hypotheses)
            readable["hypothesis_attention"] = _without_padding(readable["hypothesis_attention"], hypotheses, premises)
        return readable

    def _check_lengths(self, premise_mask: torch.Tensor, hypothesis_mask: torch.Tensor) -> None:
        (batch_size, premise_length), hypothesis_length = premise_mask.shape, hypothesis_mask.size(1)
        num_weights = batch_size * premise_length * hypothesis_length
        if num_weights > self._max_attention_weights:
            raise ConfigurationError(
                f"model elmo::snli: the attention between premises of up to {premise_length} tokens and hypotheses of "
                f"up to {hypothesis_length} in a batch of {batch_size} has {num_weights} weights, "
                f"{num_weights / 2**28:.1f} GB for each of several copies; the limit is {self._max_attention_weights}. "
                "Shorten the sentences, use smaller batches, or raise the model's max_attention_weights"
            )

    def _encode(self, text: EmbeddedText) -> torch.Tensor:
        encoded = self.encoder(self.variational_dropout(text.input), text.mask)
        return text.enhance(encoded, at="output")

    def _compose(self, encoded: torch.Tensor, aligned: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Compares, composes and pools one sentence."""
        compared = self.projection(self.attention_dropout(local_inference(encoded, aligned)))
        composed = self.composition(self.variational_dropout(compared), mask)
        return average_and_max(composed, mask)


def _without_padding(
    attention: torch.Tensor, rows: List[List[str]], columns: List[List[str]]
) -> List[List[List[float]]]:
    """Each pair's matrix, with a row and a column for each token."""
    return [
        matrix[: len(row_tokens), : len(column_tokens)].tolist()
        for matrix, row_tokens, column_tokens in zip(attention, rows, columns, strict=True)
    ]
