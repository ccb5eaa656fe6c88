"""Predictor "elmo::ner": a sentence -> the entities in it."""

from typing import Any, Dict, List

from allennlp.common.util import JsonDict
from allennlp.data import Instance, Token
from allennlp.predictors import Predictor

from elmo_plugin.tasks.common.display import Display, DisplayedPredictor, Input, MarkedText, marks_of
from elmo_plugin.tasks.common.predictor import ConllPredictor
from elmo_plugin.tasks.common.spans import Span, chunks
from elmo_plugin.tasks.common.words import is_words
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
        return _with_entities(output, instance)

    def display(self, output: JsonDict) -> List[Display]:
        return [MarkedText("Entities", output["sentence"], marks_of(output["entities"]))]

    def format_conll(self, output: JsonDict) -> str:
        columns = [output[name] for name in ("gold_tags", "tags") if name in output]
        return format_sentence(output["tokens"], *columns)

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        text = json_dict["tokens"] if "tokens" in json_dict else json_dict.get("sentence")
        if not (is_words(text) if "tokens" in json_dict else isinstance(text, str)):
            raise ValueError(
                'predictor elmo::ner needs {"sentence": "some text"} or {"tokens": ["some", "words"]}, got '
                f"{json_dict}"
            )
        return self._dataset_reader.text_to_instance(text)


def _with_entities(output: JsonDict, instance: Instance) -> JsonDict:
    sentence = instance["metadata"]["sentence"]  # type: ignore[index]
    tokens = instance["tokens"].tokens  # type: ignore[attr-defined]
    entities = [_entity(span, tokens, sentence) for span in chunks(output["tags"])]
    return {**output, "sentence": sentence, "entities": entities}


def _entity(span: Span, tokens: List[Token], sentence: str) -> Dict[str, Any]:
    first, last = tokens[span.start], tokens[span.end - 1]
    start, end = first.idx, last.idx + len(str(last))  # type: ignore[operator]  # the reader gives every token a place
    return {
        "type": span.type,
        "text": sentence[start:end],
        "start": start,
        "end": end,
        "first_token": span.start,
        "last_token": span.end - 1,
    }
