"""Model "elmo::sst": the biattentive classification network (BCN)."""

from typing import Any, Dict, Optional, Union

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.modules import FeedForward, Maxout, Seq2SeqEncoder
from allennlp.nn import InitializerApplicator

from elmo_plugin.tasks.common.task_model import Classifier, Metadata, Scores, copy_from
from elmo_plugin.tasks.sst.modules import FourfoldPooling, SelfBiattention
from elmo_plugin.text import PlacedTextEmbedder


@Model.register("elmo::sst")
class BiattentiveClassifier(Classifier):
    """The biattentive classification network of McCann et al. (2017), "Learned in Translation: Contextualized Word
    Vectors", section 5, as changed in A.8 of the ELMo paper:

        X = biLSTM(ReLU layer(x))                            `token_feedforward`, `encoder`
        C = softmax(X X^T) X                                 biattention
        H = biLSTM([X; X - C; X * C])                        `integrator`
        p = [max H; mean H; min H; self-attentive H]         pooling
        y = softmax(linear(two ReLU layers with dropout(p))) `feedforward`, or `maxout` as in McCann et al.

    Placements: `input`, beside the word vectors; `output`, beside X, so that biattention and the integrator see it;
    `integrated`, beside H, before pooling.

    Dropout: `embedding_dropout` on the embedded text, `encoded_dropout` on X and what is placed beside it,
    `pooled_dropout` on p. The input widths of all parts are filled in here.

    Differs from the papers in:
    - one side of the network is computed, where McCann et al. feed a single sentence in twice, because biattention of a
      sequence with itself is the same from both sides, and with one integrator so is everything that follows;
    - `maxout` has no batch normalisation, because AllenNLP's has none; A.8 found the normalised one worse than ReLU.

    Readings taken, where A.8 is short:
    - "We add ELMo to both the input and output of the biLSTM; the output ELMo vectors are computed with a second biLSTM
      and concatenated to the input" leaves open where the second vectors go. `output` makes [h_k; ELMo_k] of the lowest
      biLSTM's output, as in section 3.3 and in the other tasks, and the integrator is the second biLSTM, which has them
      in its input. AllenNLP's own BCN could put them after the integrator, here `integrated`;
    - the "two ReLu layers with dropout" come before the linear layer to the classes;
    - training phrases: see the reader. Dropout rates and the widths of the feed-forward layers, which the paper doesn't
      give: see training_configs/sst/base.libsonnet.
    """

    default_predictor = "elmo::sst"
    placements = ("input", "output", "integrated")

    def __init__(
        self,
        vocab: Vocabulary,
        text_embedder: PlacedTextEmbedder,
        token_feedforward: Lazy[FeedForward],
        encoder: Lazy[Seq2SeqEncoder],
        integrator: Lazy[Seq2SeqEncoder],
        feedforward: Optional[Lazy[FeedForward]] = None,
        maxout: Optional[Lazy[Maxout]] = None,
        embedding_dropout: float = 0.0,
        encoded_dropout: float = 0.0,
        pooled_dropout: float = 0.0,
        label_namespace: str = "labels",
        initializer: InitializerApplicator = InitializerApplicator(),
        **kwargs: Any,
    ) -> None:
        super().__init__(vocab, text_embedder, label_namespace, **kwargs)
        self.embedding_dropout = torch.nn.Dropout(embedding_dropout)
        self.token_feedforward = token_feedforward.construct(input_dim=text_embedder.input_dim)
        self.encoder = encoder.construct(input_size=self.token_feedforward.get_output_dim())
        self.encoded_dropout = torch.nn.Dropout(encoded_dropout)
        self.biattention = SelfBiattention()
        encoded_dim = text_embedder.enhanced_dim(self.encoder.get_output_dim(), at="output")
        self.integrator = integrator.construct(input_size=self.biattention.get_output_dim(encoded_dim))
        self.pooling = FourfoldPooling(text_embedder.enhanced_dim(self.integrator.get_output_dim(), at="integrated"))
        self.pooled_dropout = torch.nn.Dropout(pooled_dropout)
        self.output_layers = _build_output_layers(feedforward, maxout, self.pooling.get_output_dim())
        self.classifier = torch.nn.Linear(self.output_layers.get_output_dim(), len(self.labels))
        initializer(self)

    def scores(self, tokens: TextFieldTensors, **_: Any) -> Scores:
        """`logits` and `probabilities`, (batch_size, num_labels)."""
        text = self.text_embedder(tokens)
        # Shape: (batch_size, num_tokens, token_feedforward_dim)
        reduced = self.token_feedforward(self.embedding_dropout(text.input))
        # Shape: (batch_size, num_tokens, encoded_dim)
        encoded = self.encoded_dropout(text.enhance(self.encoder(reduced, text.mask), at="output"))
        # Shape: (batch_size, num_tokens, integrated_dim)
        integrated = self.integrator(self.biattention(encoded, text.mask), text.mask)
        integrated = text.enhance(integrated, at="integrated")
        # Shape: (batch_size, 4 * integrated_dim)
        pooled = self.pooled_dropout(self.pooling(integrated, text.mask))
        # Shape: (batch_size, num_labels)
        logits = self.classifier(self.output_layers(pooled))
        return {"logits": logits, "probabilities": logits.softmax(dim=-1)}

    def decode(
        self, scores: Scores, label: Optional[torch.Tensor] = None, metadata: Metadata = None, **_: Any
    ) -> Dict[str, Any]:
        """The probabilities, and the tokens. Counts accuracy if `label` is given."""
        return {**super().decode(scores, label), **copy_from(metadata, "tokens")}


def _build_output_layers(
    feedforward: Optional[Lazy[FeedForward]], maxout: Optional[Lazy[Maxout]], input_dim: int
) -> Union[FeedForward, Maxout]:
    given = [layers for layers in (feedforward, maxout) if layers is not None]
    if len(given) != 1:
        raise ConfigurationError(
            "model elmo::sst: give either 'feedforward', the ReLU layers before the classes, or 'maxout' instead; "
            f"{'both are' if given else 'neither is'} given"
        )
    return given[0].construct(input_dim=input_dim)
