"""Predictor "elmo::sentence_tagger", for AllenNLP's own taggers."""

from typing import Optional

from allennlp.common import JsonDict
from allennlp.data import DatasetReader, Instance, Token, Tokenizer
from allennlp.models import Model
from allennlp.predictors import Predictor
from allennlp.predictors.sentence_tagger import SentenceTaggerPredictor

from elmo_plugin.text.tokenizer import RuleBasedTokenizer


@Predictor.register("elmo::sentence_tagger")
class OfflineSentenceTaggerPredictor(SentenceTaggerPredictor):
    """AllenNLP's `sentence_tagger` with a tokenizer that downloads nothing.

    Takes `{"sentence": "The cat sat."}` or `{"tokens": ["The", "cat", "sat", "."]}`.
    """

    def __init__(self, model: Model, dataset_reader: DatasetReader, tokenizer: Optional[Tokenizer] = None) -> None:
        Predictor.__init__(self, model, dataset_reader)  # the parent's constructor is what asks for a download
        self._tokenizer = tokenizer or RuleBasedTokenizer()  # type: ignore[assignment]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        if "tokens" in json_dict:
            return self._dataset_reader.text_to_instance([Token(token) for token in json_dict["tokens"]])
        return super()._json_to_instance(json_dict)
