"""The parts of the model: attention between texts, the heads that point at an answer, and the search for the best span.

Sections are those of Clark and Gardner (2018), "Simple and Effective Multi-Paragraph Reading Comprehension".
"""

import math
from typing import NamedTuple, Tuple

import torch
from allennlp.common import Lazy, Registrable
from allennlp.modules import InputVariationalDropout, Seq2SeqEncoder
from torch.utils.checkpoint import checkpoint

from elmo_plugin.tasks.common.pooling import masked_softmax

NOT_A_SPAN = float("-inf")

# How many of a batch's self-attention weights are held at a time: 256 MB.
MAX_WEIGHTS = 2**26


class TrilinearSimilarity(torch.nn.Module):
    """s_ij = w1 . a_i + w2 . b_j + w3 . (a_i * b_j), a learned weight for each dimension of each of the three.

    The last term is (w3 * a_i) . b_j, a product of matrices, so that nothing larger than the result is ever computed.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.left_weight = torch.nn.Parameter(torch.empty(dim))
        self.right_weight = torch.nn.Parameter(torch.empty(dim))
        self.product_weight = torch.nn.Parameter(torch.empty(dim))
        # Glorot's bound for what this is, a layer from 3 * dim numbers to one.
        bound = math.sqrt(6 / (3 * dim + 1))
        for weight in self.parameters():
            torch.nn.init.uniform_(weight, -bound, bound)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """(batch_size, num_left, dim) and (batch_size, num_right, dim) -> (batch_size, num_left, num_right)."""
        of_left = (left @ self.left_weight).unsqueeze(2)
        of_right = (right @ self.right_weight).unsqueeze(1)
        return torch.baddbmm(of_left + of_right, left * self.product_weight, right.transpose(1, 2))


class BiAttention(torch.nn.Module):
    """Attention between a passage and a question, in both directions (Seo et al. 2017, section 2):

    c_i = sum_j softmax_j(s_ij) q_j             what each token of the passage finds in the question
    d   = sum_i softmax_i(max_j s_ij) p_i       what of the passage matters to the question
    output_i = [p_i; c_i; p_i * c_i; p_i * d]
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TrilinearSimilarity(dim)
        self._dim = dim

    def get_output_dim(self) -> int:
        return 4 * self._dim

    def forward(
        self, passage: torch.Tensor, passage_mask: torch.Tensor, question: torch.Tensor, question_mask: torch.Tensor
    ) -> torch.Tensor:
        # Shape: (batch_size, passage_length, question_length)
        similarity = self.similarity(passage, question)
        of_question = question_mask.unsqueeze(1)
        attended = torch.bmm(masked_softmax(similarity, of_question.expand_as(similarity)), question)
        # Shape: (batch_size, passage_length)
        strongest = similarity.masked_fill(~of_question, torch.finfo(similarity.dtype).min).max(dim=2).values
        # Shape: (batch_size, 1, dim)
        summary = torch.bmm(masked_softmax(strongest, passage_mask).unsqueeze(1), passage)
        return torch.cat([passage, attended, passage * attended, passage * summary], dim=-1)


class SelfAttention(torch.nn.Module):
    """Attention of a passage to itself (section 3.1), where no token attends to itself:

        c_i = sum_{j != i} softmax_j(s_ij) p_j
        output_i = [p_i; c_i; p_i * c_i]

    A passage of one token has nothing to attend to; its c is zero.

    There are as many weights as pairs of tokens, 1.6 GB for 20,000 tokens. Beyond `MAX_WEIGHTS` they are computed for a
    block of tokens at a time, and again for the gradients, so that memory grows with the tokens and not with the pairs.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = TrilinearSimilarity(dim)
        self._dim = dim

    def get_output_dim(self) -> int:
        return 3 * self._dim

    def forward(self, passage: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch_size, length = mask.shape
        size = max(1, MAX_WEIGHTS // (batch_size * length))
        if size >= length:
            attended = self._attend(passage, mask, 0, length)
        else:
            blocks = [(start, min(start + size, length)) for start in range(0, length, size)]
            pieces = [checkpoint(self._attend, passage, mask, *block, use_reentrant=False) for block in blocks]
            attended = torch.cat(pieces, dim=1)
        return torch.cat([passage, attended, passage * attended], dim=-1)

    def _attend(self, passage: torch.Tensor, mask: torch.Tensor, start: int, end: int) -> torch.Tensor:
        """c of the tokens `start` to `end`, the latter not included."""
        tokens = torch.arange(passage.size(1), device=passage.device)
        others = tokens[start:end].unsqueeze(1) != tokens
        # Shape: (batch_size, end - start, length)
        weights = masked_softmax(self.similarity(passage[:, start:end], passage), mask.unsqueeze(1) & others)
        return torch.bmm(weights, passage)


class SpanHeads(torch.nn.Module, Registrable):
    """How likely each token is to begin and to end the answer, as logits.

    A model fills in `input_dim` and `variational_dropout`. The latter isn't called `dropout`, because AllenNLP also
    passes what is given here on to encoders, which have their own `dropout`.
    """

    default_implementation = "linear"

    def forward(self, passage: torch.Tensor, mask: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """(batch_size, length, dim) -> (batch_size, length), for the start and for the end."""
        raise NotImplementedError


@SpanHeads.register("linear")
class LinearHeads(SpanHeads):
    """A linear layer for the start and one for the end, as in A.4 of the ELMo paper."""

    def __init__(self, input_dim: int, variational_dropout: float = 0.0) -> None:
        super().__init__()
        self.start = torch.nn.Linear(input_dim, 1)
        self.end = torch.nn.Linear(input_dim, 1)
        self.dropout = InputVariationalDropout(variational_dropout)

    def forward(self, passage: torch.Tensor, mask: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        return self.start(self.dropout(passage)).squeeze(-1), self.end(self.dropout(passage)).squeeze(-1)


@SpanHeads.register("chained")
class ChainedHeads(SpanHeads):
    """The end depends on the start (Clark and Gardner, section 3.1, and the code of the ELMo paper):

    g = encoder(p), h = encoder'([g; p]); the start is a linear layer of g, the end one of h.

    `encoder` configures both. Dropout is before each of the four layers.
    """

    def __init__(self, input_dim: int, encoder: Lazy[Seq2SeqEncoder], variational_dropout: float = 0.0) -> None:
        super().__init__()
        self.start_encoder = encoder.construct(input_size=input_dim)
        self.end_encoder = encoder.construct(input_size=self.start_encoder.get_output_dim() + input_dim)
        self.start = torch.nn.Linear(self.start_encoder.get_output_dim(), 1)
        self.end = torch.nn.Linear(self.end_encoder.get_output_dim(), 1)
        self.dropout = InputVariationalDropout(variational_dropout)

    def forward(self, passage: torch.Tensor, mask: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        of_start = self.start_encoder(self.dropout(passage), mask)
        of_end = self.end_encoder(self.dropout(torch.cat([of_start, passage], dim=-1)), mask)
        return self.start(self.dropout(of_start)).squeeze(-1), self.end(self.dropout(of_end)).squeeze(-1)


class Spans(NamedTuple):
    """The best spans of each row, best first. Where a row has fewer, the rest have a log probability of -inf."""

    starts: torch.Tensor  # (batch_size, num_best)
    ends: torch.Tensor  # (batch_size, num_best), the last token of the span
    log_probabilities: torch.Tensor  # (batch_size, num_best)


def best_spans(
    start_probabilities: torch.Tensor,
    end_probabilities: torch.Tensor,
    mask: torch.Tensor,
    max_span_tokens: int,
    num_best: int = 1,
) -> Spans:
    """The spans of up to `max_span_tokens` tokens with the largest P(start) P(end).

    The three tensors are (batch_size, length), `mask` with a row's padding at its end. The search is over all rows and
    starts at once; it needs a tensor of (batch_size, length, max_span_tokens).
    """
    length = mask.size(1)
    max_span_tokens = min(max_span_tokens, length)
    # Not 0, whose logarithm would make an existing span no better than one that doesn't exist.
    smallest = torch.finfo(start_probabilities.dtype).tiny
    starts, ends = (
        probabilities.clamp_min(smallest).log().masked_fill(~mask, NOT_A_SPAN)
        for probabilities in (start_probabilities, end_probabilities)
    )
    # Shape: (batch_size, length, max_span_tokens); of each token and those that follow it
    ends = torch.nn.functional.pad(ends, (0, max_span_tokens - 1), value=NOT_A_SPAN).unfold(1, max_span_tokens, 1)
    scores = (starts.unsqueeze(2) + ends).flatten(1)
    best, places = scores.topk(min(num_best, scores.size(1)), dim=1)
    first = places // max_span_tokens
    return Spans(first, first + places % max_span_tokens, best)
