"""Model "elmo::coref": end-to-end coreference resolution."""

from functools import partial
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from allennlp.common import Lazy
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder
from allennlp.nn import InitializerApplicator
from allennlp.nn.util import get_text_field_mask

from elmo_plugin.tasks.common.recurrent import LongestFirst
from elmo_plugin.tasks.common.task_model import Scores, TaskModel, copy_from, mean_of, part_of
from elmo_plugin.tasks.coref.conll import Mention
from elmo_plugin.tasks.coref.metrics import CoreferenceMetric
from elmo_plugin.tasks.coref.modules import (
    SPAN_BLOCK,
    EncodedDocument,
    FeedForwardScorer,
    PairFeatures,
    PairScorer,
    SpanEmbedder,
    Spans,
    candidate_spans,
    keep_best,
    link,
)
from elmo_plugin.text import PlacedTextEmbedder

GENRES = "genres"

# How many words, padding included, are embedded and encoded at a time.
_WORD_BLOCK = 2048


class _Document(NamedTuple):
    """A document of a batch, or a window of its sentences, without padding sentences."""

    text: TextFieldTensors  # (num_sentences, num_tokens, ...)
    lengths: List[int]  # of the sentences
    speaker_ids: torch.Tensor  # (num_words,)
    genre: torch.Tensor  # ()
    first_word: int  # where it begins in the whole document

    @property
    def num_words(self) -> int:
        return sum(self.lengths)


@Model.register("elmo::coref")
class CoreferenceResolver(TaskModel):
    """The coreference model of section 4 and A.6 of the ELMo paper, which is Lee et al.'s (2017):

        x = [word vectors; character CNN; ELMo]                 `text_embedder`
        h = biLSTM(x), sentence by sentence                     `encoder`
        g = [h_first; h_last; sum_t a_t x_t; width]             a = softmax over the span of w . h
        s_m(i) = FFNN(g_i)                                      for all spans of a sentence, up to `max_span_width`
        s_a(i, j) = FFNN([g_i; g_j; g_i * g_j; phi(i, j)])      for the spans that are kept
        s(i, j) = s_m(i) + s_m(j) + s_a(i, j), s(i, none) = 0
        P(y_i = j) = softmax_j s(i, j)

    The best `spans_per_word` * num_words spans are kept, none crossing another, and each is scored with up to
    `max_antecedents` of those before it. Training maximises the probability of all gold antecedents of each kept span
    together, or of "none" where there is none. Each span then joins its best antecedent's cluster.

    Placements: `input`, beside the word vectors, in reach of the encoder and of the heads; `output`, beside h.

    `lexical_dropout` is on the word vectors, `dropout` on h, the features and the hidden layers. Contextual vectors
    have their own dropout. In training, `max_training_sentences` consecutive sentences of a document are taken at
    random.

    A document's memory grows with its words, not with its spans or pairs: see modules.py.

    Their LSTM is the encoder `elmo::coupled_lstm`, which training_configs/coref uses, along with their scaled word
    vectors and initialisation; with other encoders this is an ordinary biLSTM.

    Differs from Lee et al. in:
    - One dropout mask per document for the values of the features, where they draw one per pair: a feature's share of
      the first layer is computed once per value.
    - The dropout mask of a span's width is drawn again for the pairs: the spans that are kept are embedded again.
    - The biases of the feed-forwards and the CNN start at torch's default or at 0; theirs start at random within
      Glorot's bounds, which is TensorFlow's default for any variable.

    Readings taken:
    - Speakers are compared at the spans' first words. Documents without speakers have a single one.
    - The loss is the sum over a document's kept spans, as theirs, and the mean over the documents of a batch.
    - The distance of two spans is counted in kept spans, as in their code, and has ten bins, of which one (for zero) is
      never used.
    - A genre that isn't in the training data has a feature of zeros.
    """

    default_predictor = "elmo::coref"

    def __init__(
        self,
        vocab: Vocabulary,
        text_embedder: PlacedTextEmbedder,
        encoder: Lazy[Seq2SeqEncoder],
        hidden_dim: int = 150,
        num_hidden_layers: int = 2,
        feature_dim: int = 20,
        max_span_width: int = 10,
        spans_per_word: float = 0.4,
        max_antecedents: int = 250,
        max_training_sentences: int = 50,
        lexical_dropout: float = 0.5,
        dropout: float = 0.2,
        initializer: InitializerApplicator = InitializerApplicator(),
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab, text_embedder, **kwargs)
        self.encoder = encoder.construct(input_size=text_embedder.input_dim)
        encoded_dim = text_embedder.enhanced_dim(self.encoder.get_output_dim(), at="output")
        self.head_scorer = torch.nn.Linear(encoded_dim, 1)
        self.span_embedder = SpanEmbedder(text_embedder.input_dim, encoded_dim, max_span_width, feature_dim, dropout)
        span_dim = self.span_embedder.get_output_dim()
        scorer = partial(FeedForwardScorer, hidden_dim=hidden_dim, num_layers=num_hidden_layers, dropout=dropout)
        self.mention_scorer = scorer(span_dim)
        num_genres, unknown_genre = vocab.get_vocab_size(GENRES), vocab.get_token_index(vocab._oov_token, GENRES)
        self.pair_scorer = PairScorer(span_dim, num_genres, unknown_genre, feature_dim, scorer, dropout)
        self.lexical_dropout = torch.nn.Dropout(lexical_dropout)
        self.dropout = torch.nn.Dropout(dropout)
        self._max_span_width = max_span_width
        self._spans_per_word = spans_per_word
        self._max_antecedents = max_antecedents
        self._max_training_sentences = max_training_sentences
        self.metric = CoreferenceMetric()
        initializer(self)
        self.pair_scorer.forget_unknown_genre()

    def scores(self, text: TextFieldTensors, speaker_ids: torch.Tensor, genre: torch.Tensor, **_: Any) -> Scores:
        """For each document of the batch: the `spans` that were kept, and the scores of their antecedents.

        `antecedent_scores`, (num_spans, 1 + num_antecedents), has "no antecedent" in the first column and then the
        spans before it, nearest first; it is minus infinity beyond the first span. `windows` has the first and the last
        word of what was read.
        """
        return self.joint_scores([self], text, speaker_ids, genre)

    @classmethod
    def joint_scores(
        cls,
        members: Sequence["CoreferenceResolver"],
        text: TextFieldTensors,
        speaker_ids: torch.Tensor,
        genre: torch.Tensor,
        **_: Any,
    ) -> Scores:
        """The scores of several models together: the mean of their mention scores decides which spans are kept, and
        then their antecedent scores for these same spans are averaged.
        """
        scores: Scores = {"spans": [], "antecedent_scores": [], "windows": []}
        for document in _documents(text, speaker_ids, genre):
            if members[0].training:
                document = _window(document, members[0]._max_training_sentences)
            spans, antecedent_scores = members[0]._score_document(members, document)
            first_word = document.first_word
            positions = zip(spans.firsts.tolist(), spans.lasts.tolist(), strict=True)
            scores["spans"].append([Mention(first + first_word, last + first_word) for first, last in positions])
            scores["antecedent_scores"].append(antecedent_scores)
            scores["windows"].append((first_word, first_word + document.num_words - 1))
        return scores

    def decode(self, scores: Scores, metadata: List[Dict[str, Any]], **_: Any) -> Dict[str, Any]:
        """The clusters. Counts metrics if there are gold ones."""
        output: Dict[str, Any] = {"clusters": []}
        for spans, antecedent_scores in zip(scores["spans"], scores["antecedent_scores"], strict=True):
            places_before = antecedent_scores.argmax(dim=1).tolist()
            antecedents = [span - before if before else -1 for span, before in enumerate(places_before)]
            output["clusters"].append([[spans[span] for span in cluster] for cluster in link(antecedents)])
        output.update(copy_from(metadata, "document_id", "part", "sentences"))
        gold_clusters = _gold_clusters(scores, metadata)
        if gold_clusters is not None:
            output["gold_clusters"] = gold_clusters
            self.metric(output["clusters"], gold_clusters, scores["spans"])
        return output

    def loss(self, scores: Scores, metadata: List[Dict[str, Any]], **_: Any) -> Optional[torch.Tensor]:
        """Section 4.3: minus the log of the probability of all gold antecedents of each span."""
        gold_clusters = _gold_clusters(scores, metadata)
        if gold_clusters is None:
            return None
        losses = []
        for spans, antecedent_scores, clusters in zip(
            scores["spans"], scores["antecedent_scores"], gold_clusters, strict=True
        ):
            is_gold = _gold_antecedents(spans, clusters, antecedent_scores)
            of_gold = antecedent_scores.masked_fill(~is_gold, -torch.inf).logsumexp(dim=1)
            losses.append((antecedent_scores.logsumexp(dim=1) - of_gold).sum())
        return torch.stack(losses).mean()

    def _score_document(
        self, members: Sequence["CoreferenceResolver"], document: _Document
    ) -> Tuple[Spans, torch.Tensor]:
        encoded = [(member, member._encode(document)) for member in members]
        device = document.speaker_ids.device
        candidates = candidate_spans(document.lengths, self._max_span_width)
        mention_scores = mean_of([member._mention_scores(words, candidates) for member, words in encoded])
        max_kept = max(1, int(self._spans_per_word * document.num_words))
        kept = keep_best(candidates, mention_scores.detach(), max_kept)
        spans = candidates.take(kept)
        features = PairFeatures(document.speaker_ids[spans.firsts.to(device)], document.genre)
        pair_scores = mean_of([member._pair_scores(words, spans, features) for member, words in encoded])
        return spans, _antecedent_scores(mention_scores[kept.to(device)], pair_scores)

    def _encode(self, document: _Document) -> EncodedDocument:
        """The words of all sentences in one sequence, a block of sentences at a time."""
        blocks = []
        for begin, end in _blocks(document.lengths, _WORD_BLOCK):
            lengths = document.lengths[begin:end]
            # Without the padding that only other sentences need.
            text = self.text_embedder(part_of(document.text, slice(begin, end), slice(max(lengths))))
            LongestFirst.of(text.mask, lengths)  # known already
            inputs = text.enhance(self.lexical_dropout(text.words), at="input")
            encoded = self.dropout(self.encoder(inputs, text.mask))
            encoded = text.enhance(encoded, at="output")
            words = _places_of_words(lengths).to(encoded.device, non_blocking=True)
            # Shape: (num_words_in_block, dim)
            blocks.append((inputs.flatten(0, 1)[words], encoded.flatten(0, 1)[words]))
        inputs, encoded = (torch.cat(vectors) for vectors in zip(*blocks, strict=True))
        return EncodedDocument(inputs, encoded, self.head_scorer(encoded).squeeze(-1))

    def _mention_scores(self, document: EncodedDocument, spans: Spans) -> torch.Tensor:
        """Without ever holding the vectors of all spans, unless a gradient needs them."""
        vectors = (self.span_embedder(document, block) for block in spans.blocks(SPAN_BLOCK))
        return torch.cat([self.mention_scorer(of_block) for of_block in vectors])

    def _pair_scores(self, document: EncodedDocument, spans: Spans, features: PairFeatures) -> torch.Tensor:
        vectors = torch.cat([self.span_embedder(document, block) for block in spans.blocks(SPAN_BLOCK)])
        return self.pair_scorer(vectors, features, self._max_antecedents)


def _documents(text: TextFieldTensors, speaker_ids: torch.Tensor, genre: torch.Tensor) -> Iterator[_Document]:
    # Shape: (batch_size, num_sentences)
    lengths = get_text_field_mask(text, num_wrapping_dims=1).sum(dim=-1)
    for row, sentence_lengths in enumerate(lengths.tolist()):
        sentence_lengths = [length for length in sentence_lengths if length]  # padding comes last
        own = part_of(text, row, slice(len(sentence_lengths)))
        num_words = sum(sentence_lengths)
        yield _Document(own, sentence_lengths, speaker_ids[row, :num_words], genre[row], first_word=0)


def _window(document: _Document, max_sentences: int) -> _Document:
    """At most this many consecutive sentences, from a random one on."""
    num_sentences = len(document.lengths)
    if num_sentences <= max_sentences:
        return document
    begin = int(torch.randint(num_sentences - max_sentences + 1, ()))
    end = begin + max_sentences
    first_word = sum(document.lengths[:begin])
    lengths = document.lengths[begin:end]
    return _Document(
        part_of(document.text, slice(begin, end)),
        lengths,
        document.speaker_ids[first_word : first_word + sum(lengths)],
        document.genre,
        first_word,
    )


def _blocks(lengths: List[int], max_words: int) -> Iterator[Tuple[int, int]]:
    """Runs of sentences with up to `max_words` words, padding included; at least one sentence each."""
    begin = longest = 0
    for index, length in enumerate(lengths):
        longest = max(longest, length)
        if index > begin and longest * (index + 1 - begin) > max_words:
            yield begin, index
            begin, longest = index, length
    yield begin, len(lengths)


def _places_of_words(lengths: List[int]) -> torch.Tensor:
    """Where the words of sentences are, (num_words,), once these are padded to the longest and concatenated."""
    is_word = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return is_word.flatten().nonzero().squeeze(1)


def _antecedent_scores(mention_scores: torch.Tensor, pair_scores: torch.Tensor) -> torch.Tensor:
    """s(i, j), with s(i, none) = 0 in the first column: (num_spans, 1 + num_antecedents)."""
    antecedents = _antecedents(len(pair_scores), pair_scores.size(1), pair_scores.device).clamp(min=0)
    # Sums and their exponentials are in single precision under autocast too.
    mention_scores = mention_scores.to(torch.promote_types(mention_scores.dtype, torch.float32))
    total = pair_scores + mention_scores.unsqueeze(1) + mention_scores[antecedents]
    return torch.cat([total.new_zeros(len(total), 1), total], dim=1)


def _antecedents(num_spans: int, num_antecedents: int, device: torch.device) -> torch.Tensor:
    """The numbers of the spans before each span, nearest first, (num_spans, num_antecedents); below 0 for none."""
    return torch.arange(num_spans, device=device).unsqueeze(1) - 1 - torch.arange(num_antecedents, device=device)


def _gold_clusters(scores: Scores, metadata: List[Dict[str, Any]]) -> Optional[List[List[List[Mention]]]]:
    """The part of each document's gold clusters that was read; None if a document has none."""
    if not all("clusters" in document for document in metadata):
        return None
    return [_within(each["clusters"], *window) for each, window in zip(metadata, scores["windows"], strict=True)]


def _within(clusters: List[List[Mention]], first: int, last: int) -> List[List[Mention]]:
    """The part of clusters that lies between two words."""
    inside = ([mention for mention in cluster if first <= mention[0] and mention[1] <= last] for cluster in clusters)
    return [cluster for cluster in inside if cluster]


def _gold_antecedents(
    spans: List[Mention], clusters: List[List[Mention]], antecedent_scores: torch.Tensor
) -> torch.Tensor:
    """Where the scores are of a gold antecedent, or of none for a span that has none in reach."""
    cluster_of = {mention: number for number, cluster in enumerate(clusters) for mention in cluster}
    numbers = torch.tensor([cluster_of.get(span, -1) for span in spans], device=antecedent_scores.device)
    antecedents = _antecedents(len(spans), antecedent_scores.size(1) - 1, numbers.device)
    is_gold = (numbers.unsqueeze(1) == numbers[antecedents.clamp(min=0)]) & (numbers.unsqueeze(1) >= 0)
    is_gold &= antecedents >= 0
    return torch.cat([~is_gold.any(dim=1, keepdim=True), is_gold], dim=1)
