"""The parts of Lee et al.'s (2017) model: spans and their vectors, which of them are kept, and scores of pairs.

All of it is for one document. Spans are two tensors of words, `firsts` and `lasts` (included), sorted by the first.
They are on the host, even where a GPU computes their vectors, so that nothing waits for their number or their extent.
"""

from functools import partial
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

import torch
from torch.utils.checkpoint import checkpoint

from elmo_plugin.tasks.common.pooling import masked_softmax

# The distances at which the next bin begins: 1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64 and more.
DISTANCE_BINS = (1, 2, 3, 4, 5, 8, 16, 32, 64)

# How many spans are embedded, and how many have their pairs scored, at a time.
SPAN_BLOCK = 1024
TARGET_BLOCK = 32
# How many numbers the pairs of a document may keep for their gradients: 512 MB.
KEPT_NUMBERS = 2**27


class EncodedDocument(NamedTuple):
    """What the network computes for each word of a document."""

    inputs: torch.Tensor  # x*: (num_words, input_dim)
    encoded: torch.Tensor  # x*_t of the biLSTM: (num_words, encoded_dim)
    head_logits: torch.Tensor  # alpha_t: (num_words,)


class Spans(NamedTuple):
    firsts: torch.Tensor  # (num_spans,)
    lasts: torch.Tensor  # (num_spans,)

    def take(self, which: torch.Tensor) -> "Spans":
        """Those at the given indices."""
        return Spans(self.firsts[which], self.lasts[which])

    def blocks(self, size: int) -> Iterator["Spans"]:
        """The spans, this many at a time."""
        return (Spans(*block) for block in zip(self.firsts.split(size), self.lasts.split(size), strict=True))

    def to(self, device: torch.device) -> "Spans":
        return Spans(*torch.stack(self).to(device, non_blocking=True))


def candidate_spans(sentence_lengths: Sequence[int], max_width: int) -> Spans:
    """All spans of up to `max_width` words that lie within a sentence."""
    # The last word of each word's sentence. Shape: (num_words,)
    lengths = torch.tensor(sentence_lengths)
    sentence_lasts = torch.repeat_interleave(lengths.cumsum(0) - 1, lengths)
    # Shape: (num_words, max_width)
    firsts = torch.arange(len(sentence_lasts)).unsqueeze(1).expand(-1, max_width)
    lasts = firsts + torch.arange(max_width)
    is_within = lasts <= sentence_lasts.unsqueeze(1)
    return Spans(firsts[is_within], lasts[is_within])


def keep_best(spans: Spans, scores: torch.Tensor, max_kept: int) -> torch.Tensor:
    """The indices, in order, of the best `max_kept` spans of which no two cross.

    Spans are taken best first, and one that crosses a span taken earlier is left out (section 5). Nested ones don't
    cross.
    """
    firsts, lasts = spans.firsts.tolist(), spans.lasts.tolist()
    furthest_last: Dict[int, int] = {}  # of the taken spans that begin at a word
    earliest_first: Dict[int, int] = {}  # of those that end at a word
    kept: List[int] = []
    for index in scores.argsort(descending=True, stable=True).tolist():
        if len(kept) == max_kept:
            break
        first, last = firsts[index], lasts[index]
        crosses = any(furthest_last.get(word, last) > last for word in range(first + 1, last + 1)) or any(
            earliest_first.get(word, first) < first for word in range(first, last)
        )
        if not crosses:
            kept.append(index)
            furthest_last[first] = max(last, furthest_last.get(first, last))
            earliest_first[last] = min(first, earliest_first.get(last, first))
    return torch.tensor(sorted(kept), dtype=torch.long)


class SpanEmbedder(torch.nn.Module):
    """Section 4.2: g = [h_first; h_last; head; width], the head a mean of inputs weighted by attention in the span."""

    def __init__(self, input_dim: int, encoded_dim: int, max_width: int, feature_dim: int, dropout: float) -> None:
        super().__init__()
        self.max_width = max_width
        self.width_embedding = torch.nn.Embedding(max_width, feature_dim)
        self.dropout = torch.nn.Dropout(dropout)
        self._output_dim = 2 * encoded_dim + input_dim + feature_dim

    def get_output_dim(self) -> int:
        return self._output_dim

    def forward(self, document: EncodedDocument, spans: Spans) -> torch.Tensor:
        """(num_spans, output_dim)."""
        covered = slice(int(spans.firsts.min()), int(spans.lasts.max()) + 1)
        spans = spans.to(document.encoded.device)
        return torch.cat(
            [
                document.encoded[spans.firsts],
                document.encoded[spans.lasts],
                self._heads(document, spans, covered),
                self.dropout(self.width_embedding(spans.lasts - spans.firsts)),
            ],
            dim=-1,
        )

    def _heads(self, document: EncodedDocument, spans: Spans, covered: slice) -> torch.Tensor:
        """Each span's weights are laid over all the words that these spans cover, for one product of two matrices:
        gathering the inputs of each span would take `max_width` times the memory.
        """
        # Shape: (num_spans, max_width)
        words = spans.firsts.unsqueeze(1) + torch.arange(self.max_width, device=spans.firsts.device)
        is_inside = words <= spans.lasts.unsqueeze(1)
        words = words.clamp(max=covered.stop - 1)
        weights = masked_softmax(document.head_logits[words], is_inside)
        # Shape: (num_spans, num_covered). What is past a span's end has no weight, wherever it is added.
        laid_out = weights.new_zeros(len(weights), covered.stop - covered.start)
        return laid_out.scatter_add(1, words - covered.start, weights) @ document.inputs[covered]


class FeedForwardScorer(torch.nn.Module):
    """ReLU layers with dropout, then one number."""

    def __init__(self, input_dim: int, hidden_dim: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        dims = [input_dim, *[hidden_dim] * num_layers]
        self.hidden = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in zip(dims, dims[1:], strict=False))
        self.output = torch.nn.Linear(hidden_dim, 1)
        self.dropout = torch.nn.Dropout(dropout)
        for layer in [*self.hidden, self.output]:
            torch.nn.init.xavier_uniform_(layer.weight)
            torch.nn.init.zeros_(layer.bias)

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """(..., input_dim) -> (...)."""
        return self.after_first(self.hidden[0](vectors))

    def after_first(self, hidden: torch.Tensor) -> torch.Tensor:
        """The score, given the first layer's output before its activation."""
        hidden = self.dropout(torch.relu(hidden))
        for layer in self.hidden[1:]:
            hidden = self.dropout(torch.relu(layer(hidden)))
        return self.output(hidden).squeeze(-1)


class PairFeatures(NamedTuple):
    """What is known about a document's spans besides their vectors."""

    speaker_ids: torch.Tensor  # (num_spans,)
    genre: torch.Tensor  # ()


class PairScorer(torch.nn.Module):
    """Section 4.1: s_a(i, j) = FFNN([g_i; g_j; g_i * g_j; phi(i, j)]), phi the speaker, genre and distance.

    The first layer is applied to the four parts one by one: to each span's vector once, not once per pair, and to the
    features' few values. Only the product remains to be computed per pair. Pairs are scored for a block of spans i at a
    time. What the first blocks need for their gradients is kept, up to `KEPT_NUMBERS`; for the others it is computed
    again, so that beyond that memory grows with the spans, not with the pairs.
    """

    def __init__(
        self,
        span_dim: int,
        num_genres: int,
        unknown_genre: int,
        feature_dim: int,
        scorer: Callable[[int], FeedForwardScorer],
        dropout: float,
    ) -> None:
        super().__init__()
        self.scorer = scorer(3 * span_dim + 3 * feature_dim)
        self.distance_embedding = torch.nn.Embedding(len(DISTANCE_BINS) + 1, feature_dim)
        self.speaker_embedding = torch.nn.Embedding(2, feature_dim)
        # A genre not seen in training adds nothing, rather than something random; see `forget_unknown_genre`.
        self.genre_embedding = torch.nn.Embedding(num_genres, feature_dim, padding_idx=unknown_genre)
        self.dropout = torch.nn.Dropout(dropout)
        self._part_dims = [span_dim] * 3 + [feature_dim] * 3

    def forget_unknown_genre(self) -> None:
        """To be called after an initializer, which doesn't know about padding."""
        self.genre_embedding.weight.data[self.genre_embedding.padding_idx] = 0.0

    def forward(self, spans: torch.Tensor, features: PairFeatures, max_antecedents: int) -> torch.Tensor:
        """The scores of each span, (num_spans, dim), with each of those before it, nearest first.

        Column k is the span k + 1 places before. Shape: (num_spans, min(max_antecedents, num_spans - 1)), with minus
        infinity where there is no such span.
        """
        num_spans = spans.size(0)
        num_antecedents = min(max_antecedents, num_spans - 1)
        if num_antecedents == 0:
            return spans.new_zeros(num_spans, 0)
        first_layer: Any = self.scorer.hidden[0]
        target_part, antecedent_part, product_part, *feature_parts = first_layer.weight.split(self._part_dims, dim=1)
        distance_table, speaker_table, genre = self._feature_tables(feature_parts, features.genre)
        # Shape: (num_spans, hidden_dim)
        of_targets = spans @ target_part.T + first_layer.bias + genre
        of_antecedents = spans @ antecedent_part.T
        # The product of two spans' vectors, and each layer before its activation, after it and after dropout.
        numbers_per_pair = spans.size(1) + 3 * len(self.scorer.hidden) * first_layer.out_features
        num_kept = 0
        blocks = []
        for begin in range(0, num_spans, TARGET_BLOCK):
            end = min(begin + TARGET_BLOCK, num_spans)
            score_block = partial(self._block, begin, end, num_antecedents)
            arguments = (spans, of_targets, of_antecedents, features.speaker_ids)
            tables = (product_part, distance_table, speaker_table)
            num_kept += (end - begin) * num_antecedents * numbers_per_pair
            if torch.is_grad_enabled() and num_kept > KEPT_NUMBERS:
                blocks.append(checkpoint(score_block, *arguments, *tables, use_reentrant=False))
            else:
                blocks.append(score_block(*arguments, *tables))
        return torch.cat(blocks)

    def _feature_tables(
        self, parts: List[torch.Tensor], genre: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What each value of each feature adds to the first layer."""
        vectors = (self.distance_embedding.weight, self.speaker_embedding.weight, self.genre_embedding(genre))
        distance, speaker, of_genre = (self.dropout(each) @ part.T for each, part in zip(vectors, parts, strict=True))
        return distance, speaker, of_genre

    def _block(
        self,
        begin: int,
        end: int,
        num_antecedents: int,
        spans: torch.Tensor,
        of_targets: torch.Tensor,
        of_antecedents: torch.Tensor,
        speaker_ids: torch.Tensor,
        product_part: torch.Tensor,
        distance_table: torch.Tensor,
        speaker_table: torch.Tensor,
    ) -> torch.Tensor:
        """The rows `begin` to `end` of the scores: (end - begin, num_antecedents)."""
        earliest = max(0, begin - num_antecedents)
        targets = torch.arange(begin, end, device=spans.device)
        others = torch.arange(earliest, end, device=spans.device)
        # Shape: (end - begin, end - earliest)
        distances = (targets.unsqueeze(1) - others.unsqueeze(0)).clamp(min=0)
        same_speaker = speaker_ids[targets].unsqueeze(1) == speaker_ids[others].unsqueeze(0)
        # Shape: (end - begin, hidden_dim, end - earliest), then with the last two exchanged
        products = (spans[begin:end].unsqueeze(1) * product_part) @ spans[earliest:end].T
        hidden = products.transpose(1, 2) + of_targets[begin:end].unsqueeze(1) + of_antecedents[earliest:end]
        hidden = hidden + distance_table[torch.bucketize(distances, distances.new_tensor(DISTANCE_BINS), right=True)]
        hidden = hidden + speaker_table[same_speaker.long()]
        scores = self.scorer.after_first(hidden)
        # From columns that count from the earliest span to columns that count back from each target.
        columns = targets.unsqueeze(1) - 1 - torch.arange(num_antecedents, device=spans.device)
        gathered = scores.gather(1, (columns - earliest).clamp(min=0))
        return gathered.masked_fill(columns < 0, -torch.inf)


def link(antecedents: Iterable[int]) -> List[List[int]]:
    """The clusters that follow from each span's antecedent, which is a span before it or -1 for none.

    Clusters are in the order of their first spans. A span that isn't linked to any other is in no cluster.
    """
    place: Dict[int, int] = {}
    clusters: List[List[int]] = []
    for span, antecedent in enumerate(antecedents):
        if antecedent < 0:
            continue
        if antecedent not in place:
            place[antecedent] = len(clusters)
            clusters.append([antecedent])
        place[span] = place[antecedent]
        clusters[place[span]].append(span)
    return sorted(clusters)
