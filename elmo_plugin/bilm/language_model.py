"""Model "elmo::bilm": the biLM as a language model."""

import os
from itertools import zip_longest
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from allennlp.common import Lazy
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model, archival
from allennlp.nn import InitializerApplicator
from allennlp.nn.util import get_text_field_mask, read_state_dict
from torch.nn import functional

from elmo_plugin.bilm import checkpoint, softmax_file
from elmo_plugin.bilm.bilm import BiLm
from elmo_plugin.bilm.cuda_graphs import WindowRunner
from elmo_plugin.bilm.perplexity import BiLmPerplexity
from elmo_plugin.bilm.sharing import distinct_words
from elmo_plugin.bilm.softmax import BiLmSoftmax, FullSoftmax
from elmo_plugin.bilm.softmax_file import WordSoftmax
from elmo_plugin.bilm.state import BiLmState
from elmo_plugin.bilm.word_ids import NAMESPACE, WordIds, words_in_order


class Streams(NamedTuple):
    """What the two directions read and predict, each in its own reading order; a row is equally long in both."""

    forward_inputs: torch.Tensor  # (batch_size, num_steps, projection_dim)
    backward_inputs: torch.Tensor  # (batch_size, num_steps, projection_dim)
    forward_targets: torch.Tensor  # (batch_size, num_steps)
    backward_targets: torch.Tensor  # (batch_size, num_steps)
    mask: torch.Tensor  # (batch_size, num_steps)


class TopLayer(NamedTuple):
    """The states that predict, each (batch_size, num_steps, projection_dim), in reading order."""

    forward: torch.Tensor
    backward: torch.Tensor


@Model.register("elmo::bilm")
class BiLmLanguageModel(Model):
    """Predicts each word from those before it and from those after it (Peters et al. 2018, Sec. 3.1).

    The token layer, inside `bilm`, and the softmax are tied between the directions; the LSTMs are not. The loss is the
    mean of the two directions' mean negative log likelihoods per target: that of the configured softmax while training,
    and always the exact one otherwise. So are the metrics, see `BiLmPerplexity`.

    It takes two layouts. Sentences, one per instance (reader `elmo::bilm`, any loader), start from zeros, as they do
    when the biLM embeds. Packed windows (loader `elmo::windows`) start from `carried_state`, where each row's last
    window ended; then the caller, such as the trainer `elmo::bilm`, calls `reset_carried_state()` at the start of an
    epoch and keeps training and validation apart. `carry_state: false` starts each window from zeros.

    - `dropout` is that before the softmax; the one at each LSTM layer's input is the biLM's.
    - `reset_probability` is the chance that the state is reset at a sentence's start in training, since embedding
      starts from zeros. The attribute `evaluate_from_zeros` resets it at every sentence's start while evaluating:
      packed or not, the same perplexity.
    - `pretrained_file` is a trained language model of the same sizes and words, whose biLM and softmax training starts
      from: an archive, or the name or folder of a biLM with its softmax, such as `wiki-base`. AllenNLP drops this key
      when it loads the result, which therefore doesn't need the old one.
    - `cuda_graphs` launches all kernels of a training window's recurrence as one, on a GPU. It hasn't been tried on
      one, so it is off by default.

    A biLM that is frozen (by the trainer's `no_grad: ["^bilm"]`) has no dropout inside: it is read as it will be when
    it embeds.

    Differs from bilm-tf in: the means are over real targets, since padding at the end of an epoch is masked here and
    dropped there.
    """

    default_predictor = "elmo::bilm"

    def __init__(
        self,
        vocab: Vocabulary,
        bilm: BiLm,
        softmax: Lazy[BiLmSoftmax] = Lazy(BiLmSoftmax),
        dropout: float = 0.1,
        carry_state: bool = True,
        reset_probability: float = 0.0,
        namespace: str = NAMESPACE,
        pretrained_file: Optional[str] = None,
        cuda_graphs: bool = False,
        initializer: Optional[InitializerApplicator] = None,
        **kwargs,
    ) -> None:
        super().__init__(vocab, **kwargs)
        if not 0.0 <= reset_probability <= 1.0:
            raise ConfigurationError(
                f"elmo::bilm: reset_probability has to be between 0 and 1, got {reset_probability}"
            )
        word_ids = WordIds(vocab, namespace)
        self._begin_id, self._end_id = word_ids.begin_id, word_ids.end_id
        self.namespace = namespace
        self.bilm = bilm
        self.softmax = softmax.construct(num_words=len(word_ids), input_dim=bilm.options.projection_dim)
        # Read by torch's DistributedDataParallel.
        self._ddp_params_and_buffers_to_ignore = [f"softmax.{name}" for name in self.softmax.reduced_here]
        self._dropout = torch.nn.Dropout(dropout)
        self._windows = WindowRunner(cuda_graphs)
        self._reset_probability = reset_probability
        self.carry_state = carry_state
        self.carried_state: Optional[BiLmState] = None
        self.evaluate_from_zeros = False
        self._perplexity = BiLmPerplexity()
        if initializer is not None:
            initializer(self)
        if pretrained_file is not None:
            self._load_pretrained(pretrained_file)

    def forward(  # type: ignore[override]
        self,
        tokens: Optional[TextFieldTensors] = None,
        target_ids: Optional[torch.Tensor] = None,
        **windows: torch.Tensor,
    ) -> Dict[str, torch.Tensor]:
        """Takes `tokens` and `target_ids` of sentences, or else what `elmo::windows` gives for packed windows."""
        if tokens is not None and target_ids is not None:
            streams = self.read_sentences(tokens, target_ids)
            top_layer = self.run_sentences(streams)
        else:
            _check_windows(windows)
            streams = self._read_windows(windows)
            top_layer = self._run_windows(streams, windows["sentence_starts"])
        return {"loss": self._loss(top_layer, streams)}

    def read_sentences(self, tokens: TextFieldTensors, target_ids: torch.Tensor) -> Streams:
        """Adds the boundaries.

        Forward, `<S> w1 .. wn` predicts `w1 .. wn </S>`; backward, `</S> wn .. w1` predicts `wn .. w1 <S>`.
        """
        words_mask = get_text_field_mask(tokens)
        # Shape: (batch_size, 1)
        lengths = words_mask.sum(dim=1, keepdim=True)
        begin, end, words = self._token_vectors(_character_ids(tokens))
        # Shape: (batch_size, num_words); the places of wn .. w1, and anything past them
        positions = torch.arange(target_ids.size(1), device=target_ids.device)
        backward_positions = (lengths - 1 - positions).clamp(min=0)
        reversed_target_ids = target_ids.gather(1, backward_positions)
        reversed_words = words.gather(1, backward_positions.unsqueeze(-1).expand_as(words))
        return Streams(
            forward_inputs=torch.cat([begin, words], dim=1),
            backward_inputs=torch.cat([end, reversed_words], dim=1),
            forward_targets=functional.pad(target_ids, (0, 1)).scatter(1, lengths, self._end_id),
            backward_targets=functional.pad(reversed_target_ids, (0, 1)).scatter(1, lengths, self._begin_id),
            mask=functional.pad(words_mask, (1, 0), value=True),
        )

    def _token_vectors(self, character_ids: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The vectors of `<S>`, `</S>`, and the words; each word type goes through the token layer once."""
        types, type_ids = distinct_words(character_ids)
        words = functional.embedding(type_ids, self.bilm.token_layer(types))
        # Shape: (2, projection_dim)
        boundaries = self.bilm.token_layer(self.bilm.boundary_ids.to(character_ids.device))
        # Shape: (batch_size, 1, projection_dim), twice
        begin, end = boundaries[:, None, None].expand(-1, len(character_ids), -1, -1)
        return begin, end, words

    def run_sentences(self, streams: Streams) -> TopLayer:
        output = self.bilm.run(streams.forward_inputs, streams.backward_inputs, lengths=streams.mask.sum(dim=1))
        return TopLayer(output.forward[-1], output.backward[-1])

    def _read_windows(self, windows: Dict[str, torch.Tensor]) -> Streams:
        # Each word type of the batch goes through the token layer once.
        types = self.bilm.token_layer(windows["characters"])
        streams = {name: windows[name] for name in Streams._fields}
        for name in ("forward_inputs", "backward_inputs"):
            streams[name] = functional.embedding(windows[name], types)
        return Streams(**streams)

    def _run_windows(self, streams: Streams, sentence_starts: torch.Tensor) -> TopLayer:
        self._check_carried_state(num_rows=streams.mask.size(0))
        # No lengths: padding comes only after a row's last target, where nothing reads its state.
        output = self._windows.run(
            self.bilm,
            streams.forward_inputs,
            streams.backward_inputs,
            self.carried_state,
            self._resets(sentence_starts),
        )
        if self.carry_state:
            self.carried_state = output.state
        return TopLayer(output.forward[-1], output.backward[-1])

    def _check_carried_state(self, num_rows: int) -> None:
        if self.carried_state is None:
            return
        num_carried = self.carried_state.forward[0].hidden.size(0)
        if num_carried != num_rows:
            raise ValueError(
                f"the state carried from the last window has {num_carried} rows, but this window has {num_rows}: call "
                "reset_carried_state() before windows of another loader (the trainer elmo::bilm does)"
            )

    def _resets(self, sentence_starts: torch.Tensor) -> Optional[torch.Tensor]:
        if self.training and self._reset_probability > 0.0:
            chances = torch.rand(sentence_starts.shape, device=sentence_starts.device)
            return sentence_starts & (chances < self._reset_probability)
        if self.evaluate_from_zeros and not self.training:
            return sentence_starts
        return None

    def reset_carried_state(self) -> None:
        """Lets the next window start from zeros."""
        self.carried_state = None

    def _loss(self, top_layer: TopLayer, streams: Streams) -> torch.Tensor:
        forward_nll = self._nll(top_layer.forward, streams.forward_targets)
        backward_nll = self._nll(top_layer.backward, streams.backward_targets)
        self._perplexity(forward_nll, backward_nll, streams.mask)
        # Masked rather than selected, so that the host needn't wait for a GPU. In distributed training a batch may be
        # all padding.
        num_targets = streams.mask.sum().clamp(min=1)
        return (forward_nll + backward_nll).masked_fill(~streams.mask, 0.0).sum() / (2 * num_targets)

    def _nll(self, states: torch.Tensor, target_ids: torch.Tensor) -> torch.Tensor:
        softmax_nll = self.softmax.training_nll if self.training else self.softmax.exact_nll
        return softmax_nll(self._dropout(states).flatten(0, 1), target_ids.flatten()).view_as(target_ids)

    def train(self, mode: bool = True) -> "BiLmLanguageModel":
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.bilm.parameters()):
            self.bilm.eval()
        return self

    def get_metrics(self, reset: bool = False) -> Dict[str, float]:
        return self._perplexity.get_metric(reset)

    def word_softmax(self) -> WordSoftmax:
        """The words and their weights, of a full or sampled softmax."""
        if not isinstance(self.softmax, FullSoftmax):
            raise ConfigurationError(
                f"only a full or sampled softmax can be written, not {type(self.softmax).__name__}"
            )
        weight, bias = (tensor.detach().float() for tensor in (self.softmax.weight, self.softmax.bias))
        return WordSoftmax(words_in_order(self.vocab, self.namespace), weight, bias)

    def _load_pretrained(self, name: str) -> None:
        """Takes over the biLM and the softmax of an archive, of a serialization directory, or of a biLM's folder with
        its softmax.
        """
        path = softmax_file.find(name)
        if path is not None:
            softmax = softmax_file.read(path)
            bilm = checkpoint.read(path.with_name("options.json"), path.with_name("weights.hdf5"))
            state = {f"bilm.{key}": value for key, value in bilm.state_dict().items()}
            state.update({"softmax.weight": softmax.weight, "softmax.bias": softmax.bias})
            self._take_over(state, softmax.words, name)
            return
        path = Path(cached_path(name))
        if path.is_dir():
            self._load_from_directory(str(path), name)
        else:
            with archival.extracted_archive(path) as directory:
                self._load_from_directory(directory, name)

    def _load_from_directory(self, directory: str, name: str) -> None:
        vocab = Vocabulary.from_files(os.path.join(directory, "vocabulary"))
        state = read_state_dict(archival.get_weights_path(directory), cuda_device=-1)
        self._take_over(state, words_in_order(vocab, self.namespace), name)

    def _take_over(self, state: Dict[str, torch.Tensor], trained_words: List[str], name: str) -> None:
        _check_same_words(words_in_order(self.vocab, self.namespace), trained_words, self.namespace, name)
        try:
            self.load_state_dict(state)
        except RuntimeError as error:
            raise ConfigurationError(
                f"the biLM or the softmax of {name} isn't what this config describes; give model.bilm and "
                f"model.softmax its sizes, which are in an archive's config.json and beside it in options.json. {error}"
            ) from error


def _check_windows(windows: Dict[str, torch.Tensor]) -> None:
    missing = [name for name in ("characters", *Streams._fields, "sentence_starts") if name not in windows]
    if missing:
        raise ConfigurationError(
            "elmo::bilm takes sentences, as tokens and target_ids (from the reader elmo::bilm), or packed windows "
            f"(from the data loader elmo::windows). This batch is neither; to be windows it lacks {', '.join(missing)}."
        )


def _character_ids(tokens: TextFieldTensors) -> torch.Tensor:
    for tensors in tokens.values():
        if "elmo_tokens" in tensors:
            return tensors["elmo_tokens"]
    raise ConfigurationError(
        f"elmo::bilm reads characters: give the reader a token indexer elmo::characters; it has {list(tokens)}"
    )


def _check_same_words(words: List[str], trained_words: List[str], namespace: str, name: str) -> None:
    if words == trained_words:
        return
    pairs = enumerate(zip_longest(words, trained_words))
    different, here, there = next((number, here, there) for number, (here, there) in pairs if here != there)
    raise ConfigurationError(
        f"the words of {name} aren't those of this vocabulary's {namespace!r}, so its softmax would predict other "
        f"words: {len(trained_words)} there, {len(words)} here, and the first that differs is number {different}, "
        f"{there!r} there and {here!r} here. "
        f'Take its vocabulary: "vocabulary": {{"type": "elmo::bilm", "language_model": "{name}"}}'
    )
