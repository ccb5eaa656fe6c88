"""Predictor "elmo::squad": a passage and a question -> the answer."""

from typing import Dict, List, Union

from allennlp.common.util import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_plugin.tasks.common.display import Bars, Display, DisplayedPredictor, Input, Mark, MarkedText
from elmo_plugin.tasks.common.predictor import text_in


@Predictor.register("elmo::squad")
class SquadPredictor(Predictor, DisplayedPredictor):
    """Finds the words of a passage that answer a question.

        {"passage": "Ada lives in London.", "question": "Where does Ada live?", "id": "17"}

    gives (`id` may be left out, and is then empty; either text may be a list of tokens such as `["Ada", "lives", ...]`)

        {"id": "17",
         "passage": "Ada lives in London.",
         "question": "Where does Ada live?",
         "passage_tokens": ["Ada", "lives", "in", "London", "."],
         "question_tokens": ["Where", "does", "Ada", "live", "?"],
         "answer": "London", "start": 13, "end": 19, "first_token": 3, "last_token": 3, "probability": 0.81,
         "n_best": [{"answer": "London", "start": 13, "end": 19, "first_token": 3, "last_token": 3,
                     "probability": 0.81}, ...]}

    `start` and `end` count characters of `passage`: `passage[start:end] == answer`. A passage given as tokens is those
    tokens joined by spaces. The probability is P(start) P(end); `n_best` holds the best answers, best first.

    For SQuAD's own evaluation script, or ours, which counts the same:

        allennlp predict model.tar.gz dev-v1.1.json --use-dataset-reader --batch-size 32 --silent \
            --output-file out.jsonl
        allennlp elmo-score squad dev-v1.1.json out.jsonl --write-answers predictions.json
        python evaluate-v1.1.py dev-v1.1.json predictions.json
    """

    task_title = "Question answering"
    inputs = [Input("passage", "Passage", is_long=True), Input("question", "Question")]
    examples = [
        {
            "passage": "The lighthouse was built in 1874 by two brothers from Bergen. A storm destroyed its lamp in "
            "1902, and fishermen paid for a new one.",
            "question": "When was the lighthouse built?",
        },
        {
            "passage": "Ada Lovelace wrote notes on the Analytical Engine, a machine that Charles Babbage designed.",
            "question": "Who designed the Analytical Engine?",
        },
    ]

    def predict(self, passage: Union[str, List[str]], question: Union[str, List[str]]) -> JsonDict:
        return self.predict_json({"passage": passage, "question": question})

    def display(self, output: JsonDict) -> List[Display]:
        likeliest: Dict[str, float] = {}
        for best in output["n_best"]:
            likeliest.setdefault(best["answer"], best["probability"])  # an answer may occur in several places
        return [
            MarkedText(
                f"{output['answer']} ({output['probability']:.1%})",
                output["passage"],
                [Mark(output["start"], output["end"], "answer")],
            ),
            Bars("The likeliest answers", likeliest),
        ]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        question, passage = (text_in(json_dict, "elmo::squad", name) for name in ("question", "passage"))
        question_id = json_dict.get("id", "")
        if not isinstance(question_id, str):
            raise ValueError(f"predictor elmo::squad: 'id' must be a string, not {question_id!r}")
        return self._dataset_reader.text_to_instance(question, passage, None, question_id)
