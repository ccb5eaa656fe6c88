"""Predictor "elmo::ner": a sentence -> the entities in it."""

from typing import List

from allennlp.common.util import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_plugin.tasks.common.display import Display, DisplayedPredictor, Input, MarkedText, marks_of
from elmo_plugin.tasks.common.predictor import ConllPredictor, text_in
from elmo_plugin.tasks.common.spans import chunks
from elmo_plugin.tasks.common.words import located, offsets_of
from elmo_plugin.tasks.ner.conlleval import format_sentence


@Predictor.register("elmo::ner")
class NerPredictor(ConllPredictor, DisplayedPredictor):
    """Finds the named entities of a sentence.

        {"sentence": "Ada Byron lives in London."}

    gives

        {"tokens": ["Ada", "Byron", "lives", "in", "London", "."],
         "tags": ["B-PER", "L-PER", "O", "O", "U-LOC", "O"],
         "sentence": "Ada Byron lives in London.",
         "entities": [{"type": "PER", "text": "Ada Byron", "start": 0, "end": 9, "first_token": 0, "last_token": 1},
                      {"type": "LOC", "text": "London", "start": 19, "end": 25, "first_token": 4, "last_token": 4}]}

    `start` and `end` count characters of `sentence`: `sentence[start:end] == text`. Text that is already tokenised goes
    in as `{"tokens": ["Ada", "Byron", ...]}`; its `sentence` is the tokens with a space between each two.

    To score a tagged file with the official scorer, or with ours, write `token gold predicted` lines instead of JSON:

        allennlp predict model.tar.gz test.txt --use-dataset-reader --batch-size 64 --silent \
            --predictor-args '{"output_format": "conll"}' --output-file predictions.txt
        allennlp elmo-score ner predictions.txt
    """

    task_title = "Named entities"
    inputs = [Input("sentence", "Sentence")]
    examples = [
        {"sentence": "Ada Lovelace met Charles Babbage in London."},
        {"sentence": "Austin Hale left Hale Brothers in Austin and joined a bank in Norway."},
        {"sentence": "The Ministry of Fisheries in Oslo wrote to Maria Berg."},
    ]

    def predict(self, sentence: str) -> JsonDict:
        return self.predict_json({"sentence": sentence})

    def complete(self, output: JsonDict, instance: Instance) -> JsonDict:
        sentence = instance["metadata"]["sentence"]  # type: ignore[index]
        offsets = offsets_of(instance["tokens"].tokens)  # type: ignore[attr-defined]
        spans = chunks(output["tags"])
        entities = [{"type": span.type, **located(sentence, offsets, span.start, span.end - 1)} for span in spans]
        return {**output, "sentence": sentence, "entities": entities}

    def display(self, output: JsonDict) -> List[Display]:
        return [MarkedText("Entities", output["sentence"], marks_of(output["entities"]))]

    def format_conll(self, output: JsonDict) -> str:
        columns = [output[name] for name in ("gold_tags", "tags") if name in output]
        return format_sentence(output["tokens"], *columns)

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        return self._dataset_reader.text_to_instance(text_in(json_dict, "elmo::ner"))
