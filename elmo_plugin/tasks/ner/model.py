"""Model "elmo::ner": a biLSTM-CRF tagger."""

from typing import Any, Dict, Optional

import torch
from allennlp.common import Lazy
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import ConditionalRandomField, InputVariationalDropout, Seq2SeqEncoder
from allennlp.nn import InitializerApplicator

from elmo_plugin.tasks.common.decoding import Transitions, tag_constraints, viterbi
from elmo_plugin.tasks.common.task_model import Metadata, Scores, Tagger, copy_from
from elmo_plugin.tasks.ner.metrics import ConllMetric
from elmo_plugin.text import PlacedTextEmbedder


@Model.register("elmo::ner")
class NerTagger(Tagger):
    """The named entity tagger of section 4 and A.7 of the ELMo paper:

        x = [word vectors; character CNN; ELMo]      `text_embedder`
        h = biLSTM(biLSTM(x))                        `lower_encoder`, `upper_encoder`
        emissions = linear(h)
        P(y | x) = exp(score(x, y)) / sum_y' exp(score(x, y'))
        score(x, y) = start_y1 + sum_k (emissions_k,yk + transitions_yk,yk+1) + end_yn

    Training maximises log P(y | x), with the sum over all sequences of tags. Decoding finds the best sequence among
    those that are well-formed in `coding_scheme`, which must be the dataset reader's.

    Placements: `input`, beside the word vectors; `output`, beside the lower biLSTM's output.

    `dropout` is variational, at the input of both biLSTMs: one mask for all tokens of a sentence. The input widths of
    the encoders are filled in here.

    Differs from the paper in nothing that it states.

    Readings taken, where A.7 is short:
    - "200 hidden units" and "100 hidden units" (training_configs/ner/base.libsonnet) are those of each direction: the
      two biLSTMs give 400 and 200 numbers per token.
    - "A final dense layer and softmax layer" are the linear layer and the CRF's normalisation over sequences. There is
      no additional softmax over the tags of a token: it would limit how much an emission can weigh against a
      transition.
    - The loss of a batch is the mean over its sentences, where AllenNLP's own CRF tagger has the sum: with the mean,
      the gradient's norm is about the 5.0 at which the paper rescales it, and lambda is independent of the batch size.
    - Tags are learned in BIOUL, the dropout is 0.5, and the character CNN sees a mark at each end of a word; the paper
      doesn't say.
    """

    default_predictor = "elmo::ner"

    def __init__(
        self,
        vocab: Vocabulary,
        text_embedder: PlacedTextEmbedder,
        lower_encoder: Lazy[Seq2SeqEncoder],
        upper_encoder: Lazy[Seq2SeqEncoder],
        dropout: float = 0.5,
        coding_scheme: str = "BIOUL",
        label_namespace: str = "labels",
        initializer: InitializerApplicator = InitializerApplicator(),
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab, text_embedder, label_namespace, **kwargs)
        self.lower_encoder = lower_encoder.construct(input_size=text_embedder.input_dim)
        lower_dim = text_embedder.enhanced_dim(self.lower_encoder.get_output_dim(), at="output")
        self.upper_encoder = upper_encoder.construct(input_size=lower_dim)
        self.output_layer = torch.nn.Linear(self.upper_encoder.get_output_dim(), len(self.tags))
        self.crf = ConditionalRandomField(len(self.tags))
        self.dropout = InputVariationalDropout(dropout)
        self._constraints = tag_constraints(coding_scheme, self.tags)
        self.metric = ConllMetric()
        initializer(self)

    def scores(self, tokens: TextFieldTensors, **_: Any) -> Scores:
        """`emissions`, (batch_size, num_tokens, num_tags), the CRF's transitions, and the mask."""
        text = self.text_embedder(tokens)
        # Shape: (batch_size, num_tokens, lower_dim)
        lower = self.lower_encoder(self.dropout(text.input), text.mask)
        lower = text.enhance(lower, at="output")
        # Shape: (batch_size, num_tokens, upper_dim)
        upper = self.upper_encoder(self.dropout(lower), text.mask)
        return {
            "emissions": self.output_layer(upper),
            "transitions": self.crf.transitions,
            "start_transitions": self.crf.start_transitions,
            "end_transitions": self.crf.end_transitions,
            "mask": text.mask,
        }

    def decode(
        self, scores: Scores, tags: Optional[torch.Tensor] = None, metadata: Metadata = None, **_: Any
    ) -> Dict[str, Any]:
        """The best tags. Counts spans if `tags` are given."""
        mask = scores["mask"]
        learned = Transitions(scores["transitions"], scores["start_transitions"], scores["end_transitions"])
        with torch.no_grad():
            decoded = viterbi(scores["emissions"], mask, learned.plus(self._constraints.to(scores["emissions"])))
        output: Dict[str, Any] = {"tags": self.name_tags(decoded.tag_ids, mask), **copy_from(metadata, "tokens")}
        if tags is not None:
            # By name where there are names: tags that occur only in test data have no number.
            output["gold_tags"] = copy_from(metadata, "gold_tags").get("gold_tags") or self.name_tags(tags, mask)
            self.metric(output["tags"], output["gold_tags"])
        return output

    def loss(
        self, scores: Scores, tags: Optional[torch.Tensor] = None, metadata: Metadata = None, **_: Any
    ) -> Optional[torch.Tensor]:
        """The mean over the sentences whose tags are all known."""
        if tags is None:
            return None
        emissions, mask = scores["emissions"], scores["mask"]
        known = set(self.tags.values())
        rows = [row for row, sentence in enumerate(metadata or []) if known.issuperset(sentence["gold_tags"])]
        if metadata and len(rows) < len(tags):
            kept = torch.tensor(rows, dtype=torch.long, device=tags.device)
            emissions, tags, mask = (tensor.index_select(0, kept) for tensor in (emissions, tags, mask))
        return -self.crf(emissions, tags, mask) / len(tags) if len(tags) else emissions.sum() * 0.0
