"""Model "elmo::srl": a deep LSTM that tags the arguments of a predicate."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from allennlp.common import Lazy
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import Seq2SeqEncoder
from allennlp.nn import InitializerApplicator

from elmo_plugin.tasks.common.decoding import tag_constraints, viterbi
from elmo_plugin.tasks.common.labels import UNKNOWN_TAG_ID
from elmo_plugin.tasks.common.task_model import Metadata, Scores, Tagger, copy_from, part_of
from elmo_plugin.tasks.srl.metrics import SrlMetric
from elmo_plugin.text import EmbeddedText, PlacedTextEmbedder


@Model.register("elmo::srl")
class SrlTagger(Tagger):
    """The semantic role labeler of section 4 and A.5 of the ELMo paper, which is that of He et al. (2017):

        x = [word vectors; ELMo; embedding of "is this word the predicate?"]
        h = LSTM_8(... LSTM_2(LSTM_1(x)))            `encoder`, of alternating directions
        log P(y_k | x) = log softmax(linear(h_k))    for the BIO tags y of each word k

    Training maximises the log probability of the gold tags. Decoding finds the sequence with the highest sum of log
    probabilities among those that are well-formed in BIO; it isn't done while training.

    Placements: `input`, beside the word vectors; `output`, beside the topmost LSTM's output.

    The text of a sentence is embedded once for all of its predicates in a batch, found by the words in `metadata`.

    Differs from the paper in nothing that it states.

    Readings taken, where A.5 is short:
    - "Gradients are clipped if their value exceeds 1.0" is read as referring to each number (`grad_clipping`); He et
      al.'s code rescales the gradient's norm, which is the ablation `clip_by_norm` of training_configs/srl.
    - The loss of a batch is the mean over its predicates of the mean over the sentence's words, as in AllenNLP's own
      labeler, on which the paper's was built.
    - The predicate's embedding starts uniform within Glorot's bounds (training_configs/srl/base.libsonnet), as in
      AllenNLP's labeler; in He et al.'s code it starts at N(0, 0.01), and without an `initializer` at N(0, 1).
    - Exactly one word is marked as the predicate, even where the brackets (V*) hold several.
    - Dropout "on all hidden layers" is He et al.'s: one mask for each layer and sentence on the layer's output, to its
      next step and to the next layer.
    - Since predicates share their sentence's ELMo vectors, they share the dropout on them, too.
    - An ensemble averages log probabilities, which is He et al.'s product of experts.
    """

    default_predictor = "elmo::srl"

    def __init__(
        self,
        vocab: Vocabulary,
        text_embedder: PlacedTextEmbedder,
        encoder: Lazy[Seq2SeqEncoder],
        predicate_dim: int = 100,
        label_namespace: str = "labels",
        initializer: InitializerApplicator = InitializerApplicator(),
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab, text_embedder, label_namespace, **kwargs)
        self.predicate_embedding = torch.nn.Embedding(2, predicate_dim)
        self.encoder = encoder.construct(input_size=text_embedder.input_dim + predicate_dim)
        encoded_dim = text_embedder.enhanced_dim(self.encoder.get_output_dim(), at="output")
        self.output_layer = torch.nn.Linear(encoded_dim, len(self.tags))
        torch.nn.init.orthogonal_(self.output_layer.weight)
        torch.nn.init.zeros_(self.output_layer.bias)
        self._constraints = tag_constraints("BIO", self.tags)
        self.metric = SrlMetric()
        initializer(self)

    def scores(
        self, tokens: TextFieldTensors, predicate_indicator: torch.Tensor, metadata: Metadata = None, **_: Any
    ) -> Scores:
        """`log_probabilities` of the tags, (batch_size, num_tokens, num_tags), and the mask."""
        text = self._embed(tokens, metadata)
        # Shape: (batch_size, num_tokens, input_dim + predicate_dim)
        inputs = torch.cat([text.input, self.predicate_embedding(predicate_indicator)], dim=-1)
        encoded = text.enhance(self.encoder(inputs, text.mask), at="output")
        return {"log_probabilities": self.output_layer(encoded).log_softmax(dim=-1), "mask": text.mask}

    def decode(self, scores: Scores, metadata: Metadata = None, **_: Any) -> Dict[str, Any]:
        """The best tags. Counts arguments if `metadata` holds the gold ones."""
        with torch.no_grad():
            decoded = viterbi(scores["log_probabilities"], scores["mask"], self._constraints)
        output = {"tags": self.name_tags(decoded.tag_ids, scores["mask"])}
        output.update(copy_from(metadata, *metadata[0] if metadata else ()))
        if "gold_tags" in output:
            self.metric(output["tags"], output["gold_tags"])
        return output

    def loss(self, scores: Scores, tags: Optional[torch.Tensor] = None, **_: Any) -> Optional[torch.Tensor]:
        return None if tags is None else _mean_nll(scores["log_probabilities"], tags, scores["mask"])

    def _embed(self, tokens: TextFieldTensors, metadata: Metadata) -> EmbeddedText:
        """The text of each row, with each distinct sentence embedded once."""
        if metadata is None:
            return self.text_embedder(tokens)
        first_rows, sentence_ids = _sentences(metadata)
        if len(first_rows) == len(metadata):
            return self.text_embedder(tokens)
        device = self.predicate_embedding.weight.device
        rows = torch.tensor(first_rows, device=device)
        text = self.text_embedder(part_of(tokens, rows))
        of_row = torch.tensor(sentence_ids, device=device)
        placed = {placement: vectors.index_select(0, of_row) for placement, vectors in text.placed.items()}
        words, input_, mask = (part.index_select(0, of_row) for part in (text.words, text.input, text.mask))
        return EmbeddedText(words, input_, mask, placed)


def _sentences(metadata: List[Dict[str, Any]]) -> Tuple[List[int], List[int]]:
    """The first row of each distinct sentence, and the number of each row's sentence among these."""
    numbers: Dict[Tuple[str, ...], int] = {}
    first_rows: List[int] = []
    sentence_ids: List[int] = []
    for row, predicate in enumerate(metadata):
        number = numbers.setdefault(tuple(predicate["tokens"]), len(numbers))
        if number == len(first_rows):
            first_rows.append(row)
        sentence_ids.append(number)
    return first_rows, sentence_ids


def _mean_nll(log_probabilities: torch.Tensor, tags: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean over rows of the mean over a row's tokens; tags that aren't in the vocabulary don't count."""
    counted = mask & (tags != UNKNOWN_TAG_ID)
    # Shape: (batch_size, num_tokens)
    of_gold = log_probabilities.gather(-1, tags.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    of_rows = of_gold.masked_fill(~counted, 0.0).sum(dim=1) / counted.sum(dim=1).clamp(min=1)
    return -of_rows.mean()
