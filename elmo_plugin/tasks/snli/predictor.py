"""Predictor "elmo::snli": one pair of sentences -> its label."""

from typing import List, Union

from allennlp.common.util import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_plugin.tasks.common.display import Bars, Display, DisplayedPredictor, Input
from elmo_plugin.tasks.common.predictor import text_in


@Predictor.register("elmo::snli")
class SnliPredictor(Predictor, DisplayedPredictor):
    """Says whether a premise entails a hypothesis.

        {"premise": "Two dogs run.", "hypothesis": "An animal moves."}

    gives (and so does `{"premise": ["Two", "dogs", "run", "."], ...}`, for text that is already tokenised)

        {"label": "entailment",
         "probabilities": {"entailment": 0.91, "neutral": 0.07, "contradiction": 0.02},
         "premise_tokens": ["Two", "dogs", "run", "."],
         "hypothesis_tokens": ["An", "animal", "moves", "."],
         "premise_attention": [[0.1, 0.2, 0.6, 0.1], ...],
         "hypothesis_attention": [[0.2, 0.5, 0.2, 0.1], ...]}

    `premise_attention` has a row for each token of the premise and a column for each token of the hypothesis, and says
    how strongly they are aligned; a row sums to 1. `hypothesis_attention` is the same in the other direction.
    """

    task_title = "Entailment"
    inputs = [Input("premise", "Premise"), Input("hypothesis", "Hypothesis")]
    examples = [
        {"premise": "Two dogs run along the beach.", "hypothesis": "Animals are outdoors."},
        {"premise": "A woman plays the violin on a stage.", "hypothesis": "A woman is asleep."},
        {"premise": "A boy is reading a book.", "hypothesis": "A boy is reading a novel for school."},
    ]

    def predict(self, premise: Union[str, List[str]], hypothesis: Union[str, List[str]]) -> JsonDict:
        return self.predict_json({"premise": premise, "hypothesis": hypothesis})

    def display(self, output: JsonDict) -> List[Display]:
        return [Bars(output["label"], output["probabilities"])]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        texts = [text_in(json_dict, "elmo::snli", name) for name in ("premise", "hypothesis")]
        return self._dataset_reader.text_to_instance(*texts)
