"""Predictor "elmo::sst"."""

from typing import List, Union

from allennlp.common.util import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_plugin.tasks.common.display import Bars, Display, DisplayedPredictor, Input
from elmo_plugin.tasks.common.predictor import text_in


@Predictor.register("elmo::sst")
class SentimentPredictor(Predictor, DisplayedPredictor):
    """The sentiment of sentences.

        {"sentence": "A lovely film."}

    gives (or `{"tokens": ["A", "lovely", "film", "."]}`, for text that is already tokenised)

        {"label": "very positive",
         "probabilities": {"very positive": 0.71, "positive": 0.22, ...},
         "tokens": ["A", "lovely", "film", "."]}
    """

    task_title = "Sentiment"
    inputs = [Input("sentence", "Sentence")]
    examples = [
        {"sentence": "A lovely film, from its first frame to its last."},
        {"sentence": "Not even the music could save this tired sequel."},
        {"sentence": "It starts well and ends exactly as you expect."},
    ]

    def predict(self, sentence: Union[str, List[str]]) -> JsonDict:
        """For a sentence, or its tokens."""
        return self.predict_json({"sentence" if isinstance(sentence, str) else "tokens": sentence})

    def display(self, output: JsonDict) -> List[Display]:
        return [Bars(output["label"], output["probabilities"])]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        return self._dataset_reader.text_to_instance(text_in(json_dict, "elmo::sst"))
