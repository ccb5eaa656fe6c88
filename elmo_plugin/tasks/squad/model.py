"""Model "elmo::squad": bi-directional attention flow with self-attention."""

import math
from typing import Any, Dict, List, Optional

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import FeedForward, InputVariationalDropout, Seq2SeqEncoder
from allennlp.nn import InitializerApplicator

from elmo_plugin.tasks.common.task_model import Metadata, Scores, TaskModel, copy_from
from elmo_plugin.tasks.common.words import located
from elmo_plugin.tasks.squad.metrics import SquadMetric
from elmo_plugin.tasks.squad.modules import NOT_A_SPAN, BiAttention, LinearHeads, SelfAttention, SpanHeads, best_spans
from elmo_plugin.tasks.squad.reader import NO_SPAN
from elmo_plugin.text import EmbeddedText, PlacedTextEmbedder

COPIED = ("id", "passage", "question", "passage_tokens", "question_tokens")  # from an input to its output


@Model.register("elmo::squad")
class BidafSelfAttention(TaskModel):
    """The model of Clark and Gardner (2018), "Simple and Effective Multi-Paragraph Reading Comprehension", section 3.1,
    as simplified in A.4 of the ELMo paper:

        p, q = biGRU(passage), biGRU(question)               `encoder`, shared
        x = ReLU layer(bi-attention(p, q))                   `projection`
        y = x + ReLU layer(self-attention(biGRU(x)))         `modeling`, and another `projection`
        P(start) = softmax(linear(y)), P(end) likewise       `heads`

    The answer is the span of at most `max_span_tokens` tokens with the largest P(start) P(end). The loss is the mean of
    -log P(start) - log P(end) over the questions that have an answer to learn from.

    Placements: `input`, beside the word vectors, and `output`, beside p and q, so that the attention sees it.

    `dropout` is variational, before each GRU and each linear layer. `num_best` spans are given for each question. The
    input widths of all parts are filled in here; `heads` is `linear`, or `chained` with its own `encoder`.

    Differs from Clark and Gardner in:
    - the start and the end have a linear layer each, rather than two GRUs of which one feeds the other, because A.4
      says so; `heads` of the type `chained` are theirs, and those of the ELMo paper's code;
    - one passage is read, and no score is shared between several, because SQuAD has one per question.

    Readings taken, where A.4 is short:
    - "dimension 90" is the width of a GRU in one direction, so that p and q are 180 wide;
    - the vector of the passage that matters to the question is multiplied with p_i, as in Seo et al. (2017) and in the
      authors' code, where Clark and Gardner's text multiplies it with c_i;
    - self-attention has weights that sum to 1. The authors' code adds a learned number to their sum, so that a token
      can attend to nothing; neither paper mentions it;
    - dropout before "all linear layers" is also before those of the heads, and not inside the attention;
    - a passage is one text, not a list of sentences, for the contextual vectors as for the GRUs.
    """

    default_predictor = "elmo::squad"

    def __init__(
        self,
        vocab: Vocabulary,
        text_embedder: PlacedTextEmbedder,
        encoder: Lazy[Seq2SeqEncoder],
        projection: Lazy[FeedForward],
        modeling: Lazy[Seq2SeqEncoder],
        heads: Lazy[SpanHeads] = Lazy(LinearHeads),
        dropout: float = 0.2,
        max_span_tokens: int = 17,
        num_best: int = 5,
        initializer: InitializerApplicator = InitializerApplicator(),
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab, text_embedder, **kwargs)
        for name, value in (("max_span_tokens", max_span_tokens), ("num_best", num_best)):
            if value < 1:
                raise ConfigurationError(f"model elmo::squad: {name} must be 1 or more, not {value}")
        self.encoder = encoder.construct(input_size=text_embedder.input_dim)
        encoding_dim = text_embedder.enhanced_dim(self.encoder.get_output_dim(), at="output")
        self.attention = BiAttention(encoding_dim)
        self.projection = projection.construct(input_dim=self.attention.get_output_dim())
        self.modeling = modeling.construct(input_size=self.projection.get_output_dim())
        self.self_attention = SelfAttention(self.modeling.get_output_dim())
        self.self_projection = projection.construct(input_dim=self.self_attention.get_output_dim())
        self.heads = heads.construct(input_dim=self.projection.get_output_dim(), variational_dropout=dropout)

        self.dropout = InputVariationalDropout(dropout)
        self._max_span_tokens = max_span_tokens
        self._num_best = num_best
        self.metric = SquadMetric()
        initializer(self)

    def scores(self, passage: TextFieldTensors, question: TextFieldTensors, **_: Any) -> Scores:
        """P(start) and P(end) of each token of the passage, (batch_size, passage_length), and the passage's mask."""
        embedded_passage, embedded_question = self.text_embedder(passage), self.text_embedder(question)
        mask = embedded_passage.mask
        # Shape: (batch_size, length, encoding_dim), each; [h_k; ELMo_k] where configured.
        encoded_passage, encoded_question = self._encode(embedded_passage), self._encode(embedded_question)
        attended = self.attention(encoded_passage, mask, encoded_question, embedded_question.mask)
        # Shape: (batch_size, passage_length, projection_dim)
        projected = self.projection(self.dropout(attended))
        modeled = self.modeling(self.dropout(projected), mask)
        projected = projected + self.self_projection(self.dropout(self.self_attention(modeled, mask)))
        lowest = torch.finfo(projected.dtype).min
        start_logits, end_logits = (logits.masked_fill(~mask, lowest) for logits in self.heads(projected, mask))
        return {
            "start_logits": start_logits,
            "end_logits": end_logits,
            "start_probabilities": start_logits.softmax(dim=-1),
            "end_probabilities": end_logits.softmax(dim=-1),
            "mask": mask,
        }

    def decode(self, scores: Scores, metadata: Metadata = None, **_: Any) -> Dict[str, Any]:
        """The best spans. Counts EM and F1 where `metadata` has people's answers."""
        with torch.no_grad():
            spans = best_spans(
                scores["start_probabilities"],
                scores["end_probabilities"],
                scores["mask"],
                self._max_span_tokens,
                self._num_best,
            )
        output: Dict[str, Any] = {
            "spans": torch.stack([spans.starts, spans.ends], dim=-1),
            "log_probabilities": spans.log_probabilities,
        }
        if metadata is not None:
            output["metadata"] = metadata
            best = zip(metadata, spans.starts[:, 0].tolist(), spans.ends[:, 0].tolist(), strict=True)
            predictions = [_answer(example, start, end)["answer"] for example, start, end in best]
            self.metric(predictions, [example["answers"] for example in metadata])
        return output

    def loss(self, scores: Scores, answer_span: Optional[torch.Tensor] = None, **_: Any) -> Optional[torch.Tensor]:
        if answer_span is None:
            return None
        return _loss(scores["start_logits"], answer_span[:, 0]) + _loss(scores["end_logits"], answer_span[:, 1])

    def make_output_human_readable(self, output_dict: Dict[str, Any]) -> Dict[str, Any]:
        """The answers as text, with their positions in it; see `SquadPredictor`."""
        metadata = output_dict["metadata"]
        spans, log_probabilities = output_dict["spans"].tolist(), output_dict["log_probabilities"].tolist()
        n_best = [_answers(*row) for row in zip(metadata, spans, log_probabilities, strict=True)]
        best = {name: [answers[0][name] for answers in n_best] for name in n_best[0][0]}
        return {**copy_from(metadata, *COPIED), **best, "n_best": n_best}

    def _encode(self, text: EmbeddedText) -> torch.Tensor:
        encoded = self.encoder(self.dropout(text.input), text.mask)
        return text.enhance(encoded, at="output")


def _loss(logits: torch.Tensor, gold: torch.Tensor) -> torch.Tensor:
    """The mean over the questions that have an answer, and 0 if none has."""
    total = torch.nn.functional.cross_entropy(logits, gold, ignore_index=NO_SPAN[0], reduction="sum")
    return total / gold.ne(NO_SPAN[0]).sum().clamp(min=1)


def _answers(example: Dict[str, Any], spans: List[List[int]], log_probabilities: List[float]) -> List[Dict[str, Any]]:
    """The spans of an example that there are, with their probabilities."""
    return [
        {**_answer(example, start, end), "probability": math.exp(log_probability)}
        for (start, end), log_probability in zip(spans, log_probabilities, strict=True)
        if log_probability > NOT_A_SPAN
    ]


def _answer(example: Dict[str, Any], first_token: int, last_token: int) -> Dict[str, Any]:
    """A span as text and characters: `passage[start:end] == answer`."""
    place = located(example["passage"], example["token_offsets"], first_token, last_token)
    return {"answer": place.pop("text"), **place}
