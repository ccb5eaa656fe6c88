"""Predictor "elmo::bilm": what a biLM thinks of a sentence, word by word."""

import math
from typing import Any, Dict, List

import torch
from allennlp.common.util import JsonDict
from allennlp.data import Instance
from allennlp.data.batch import Batch
from allennlp.nn.util import move_to_device
from allennlp.predictors import Predictor

from elmo_plugin.bilm.language_model import BiLmLanguageModel
from elmo_plugin.characters.mapping import BEGIN_SENTENCE_TOKEN, END_SENTENCE_TOKEN

DEFAULT_TOP_K = 10


@Predictor.register("elmo::bilm")
class BiLmPredictor(Predictor):
    """Gives log probabilities, perplexities and substitutes of a sentence.

    Input: `{"sentence": "the cat sat", "top_k": 2}`, split at white space, or `{"tokens": ["the", "cat", "sat"]}`.
    `top_k` may be left out (10), and 0 gives no substitutes. Output, with natural logarithms:

        {"tokens": ["the", "cat", "sat"],
         "forward": [{"token": "the", "scored_as": "the", "log_prob": -2.1}, ..., {"token": "</S>", ...}],
         "backward": [{"token": "<S>", "scored_as": "<S>", "log_prob": -0.9}, {"token": "the", ...}, ...],
         "perplexity": {"forward": 12.5, "backward": 13.5, "mean": 13.0},
         "substitutes": [{"token": "the",
                          "both": [{"word": "a", "log_prob": -3.2}, {"word": "the", "log_prob": -4.0}],
                          "forward": [...], "backward": [...]}, ...]}

    A direction predicts the words and one boundary, in the order of the text: `</S>` forward, `<S>` backward. Words
    that aren't in the vocabulary are scored as `<UNK>`. Substitutes of a word are ranked by what the words before it
    say (`forward`), what those after it say (`backward`), and the sum of the two log probabilities (`both`).
    """

    _model: BiLmLanguageModel

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        return self.predict_batch_json([inputs])[0]

    def predict_batch_json(self, inputs: List[JsonDict]) -> List[JsonDict]:
        top_ks = [_top_k(sentence) for sentence in inputs]
        return self._predict([self._json_to_instance(sentence) for sentence in inputs], top_ks)

    def predict_instance(self, instance: Instance) -> JsonDict:
        return self.predict_batch_instance([instance])[0]

    def predict_batch_instance(self, instances: List[Instance]) -> List[JsonDict]:
        return self._predict(instances, [DEFAULT_TOP_K] * len(instances))

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        return self._dataset_reader.text_to_instance(_tokens(json_dict))

    @torch.no_grad()
    def _predict(self, instances: List[Instance], top_ks: List[int]) -> List[JsonDict]:
        for instance in instances:
            self._dataset_reader.apply_token_indexers(instance)
        batch = Batch(instances)
        batch.index_instances(self._model.vocab)
        streams = self._model.read_sentences(**move_to_device(batch.as_tensor_dict(), self.cuda_device))
        top_layer = self._model.run_sentences(streams)
        outputs = []
        for row, (instance, top_k) in enumerate(zip(instances, top_ks, strict=True)):
            tokens = [token.text for token in instance["tokens"]]  # type: ignore[attr-defined]
            length = len(tokens) + 1
            # In the order of the text: forward predicts w1 .. wn </S>, backward <S> w1 .. wn.
            forward, forward_targets = top_layer.forward[row, :length], streams.forward_targets[row, :length]
            backward, backward_targets = (
                in_reading_order[row, :length].flip(0)
                for in_reading_order in (top_layer.backward, streams.backward_targets)
            )
            scores = {
                "forward": self._scores([*tokens, END_SENTENCE_TOKEN], forward, forward_targets),
                "backward": self._scores([BEGIN_SENTENCE_TOKEN, *tokens], backward, backward_targets),
            }
            substitutes = self._substitutes(tokens, forward[:-1], backward[1:], top_k)
            outputs.append(
                {"tokens": tokens, **scores, "perplexity": _perplexities(scores), "substitutes": substitutes}
            )
        return outputs

    def _scores(self, tokens: List[str], states: torch.Tensor, target_ids: torch.Tensor) -> List[Dict[str, Any]]:
        log_probs = -self._model.softmax.exact_nll(states, target_ids)
        return [
            {"token": token, "scored_as": self._word(word_id), "log_prob": log_prob}
            for token, word_id, log_prob in zip(tokens, target_ids.tolist(), log_probs.tolist(), strict=True)
        ]

    def _substitutes(
        self, tokens: List[str], forward: torch.Tensor, backward: torch.Tensor, top_k: int
    ) -> List[Dict[str, Any]]:
        substitutes: List[Dict[str, Any]] = [{"token": token} for token in tokens]
        for name, states in (("both", [forward, backward]), ("forward", [forward]), ("backward", [backward])):
            scores, ids = self._model.softmax.top_k(states, top_k)
            for position, (position_scores, position_ids) in enumerate(zip(scores.tolist(), ids.tolist(), strict=True)):
                substitutes[position][name] = [
                    {"word": self._word(word_id), "log_prob": score}
                    for word_id, score in zip(position_ids, position_scores, strict=True)
                ]
        return substitutes

    def _word(self, word_id: int) -> str:
        return self._model.vocab.get_token_from_index(word_id, self._model.namespace)


def _tokens(json_dict: JsonDict) -> List[str]:
    sentence = json_dict.get("sentence")
    tokens = json_dict["tokens"] if "tokens" in json_dict else isinstance(sentence, str) and sentence.split()
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise ValueError(
            'predictor elmo::bilm needs {"sentence": "some words"} or {"tokens": ["some", "words"]}, '
            f"got {json_dict}"
        )
    return tokens


def _top_k(json_dict: JsonDict) -> int:
    top_k = json_dict.get("top_k", DEFAULT_TOP_K)
    if not isinstance(top_k, int) or top_k < 0:
        raise ValueError(f"predictor elmo::bilm: top_k has to be a number of words, 0 or more; got {top_k!r}")
    return top_k


def _perplexities(scores: Dict[str, List[Dict[str, Any]]]) -> Dict[str, float]:
    perplexities = {
        name: math.exp(-sum(score["log_prob"] for score in direction) / len(direction))
        for name, direction in scores.items()
    }
    return {**perplexities, "mean": sum(perplexities.values()) / len(perplexities)}
