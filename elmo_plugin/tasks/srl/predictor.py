"""Predictor "elmo::srl": a sentence -> who did what to whom."""

from typing import Any, Dict, List, NamedTuple, Sequence

from allennlp.common.util import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_plugin.tasks.common.display import Display, DisplayedPredictor, Input, MarkedText, marks_of
from elmo_plugin.tasks.common.predictor import text_in
from elmo_plugin.tasks.common.spans import chunks
from elmo_plugin.tasks.common.words import Offsets, located, offsets_of


class _Text(NamedTuple):
    """A sentence, and where in it each word begins and ends."""

    sentence: str
    words: List[str]
    offsets: Offsets


@Predictor.register("elmo::srl")
class SrlPredictor(Predictor, DisplayedPredictor):
    """Finds the arguments of the predicates in a sentence.

        {"sentence": "Ada met Bo.", "predicate_indices": [1]}

    gives

        {"sentence": "Ada met Bo.",
         "tokens": ["Ada", "met", "Bo", "."],
         "frames": [{"predicate": "met",
                     "predicate_index": 1,
                     "tags": ["B-ARG0", "B-V", "B-ARG1", "O"],
                     "arguments": [{"type": "ARG0", "text": "Ada", "start": 0, "end": 3,
                                    "first_token": 0, "last_token": 0}, ...],
                     "description": "[ARG0: Ada] [V: met] [ARG1: Bo] ."}]}

    `start` and `end` count characters of `sentence`. Text that is already tokenised goes in as
    `{"tokens": ["Ada", "met", "Bo"]}`. `predicate_indices` are numbers of tokens, from 0; `"predicates": ["met"]`, or
    `"met"`, names the words instead. Where neither is given, the dataset reader's `predicate_finder` finds them.

    To score a tagged file, with the official scorer or with ours:

        allennlp predict model.tar.gz test.gold_conll --use-dataset-reader --batch-size 64 --silent \
            --output-file predictions.jsonl
        allennlp elmo-score srl predictions.jsonl --gold-props gold.txt --predicted-props predicted.txt
        perl srl-eval.pl gold.txt predicted.txt

    Each of its lines has one predicate: the keys `tokens`, `predicate_index`, `tags`, `gold_tags` and `place`.
    """

    task_title = "Semantic roles"
    inputs = [
        Input("sentence", "Sentence"),
        Input("predicates", "Predicates, separated by spaces; if empty, the model finds them", is_optional=True),
    ]
    examples = [
        {"sentence": "Ada met Bo in Oslo yesterday.", "predicates": "met"},
        {"sentence": "The storm that broke the lamp kept the boats at home.", "predicates": "broke kept"},
        {"sentence": "Fishermen paid the brothers for a new lighthouse.", "predicates": "paid"},
    ]

    def predict(self, sentence: str) -> JsonDict:
        return self.predict_json({"sentence": sentence})

    def predict_json(self, inputs: JsonDict) -> JsonDict:
        return self.predict_batch_json([inputs])[0]

    def predict_batch_json(self, inputs: List[JsonDict]) -> List[JsonDict]:
        texts = [self._text(each) for each in inputs]
        predicates = self._predicates(inputs, texts)
        instances = [
            self._dataset_reader.text_to_instance(text.words, index)
            for text, indices in zip(texts, predicates, strict=True)
            for index in indices
        ]
        tags = iter([output["tags"] for output in self.predict_batch_instance(instances)] if instances else [])
        return [
            {
                "sentence": text.sentence,
                "tokens": text.words,
                "frames": [_frame(text, index, next(tags)) for index in indices],
            }
            for text, indices in zip(texts, predicates, strict=True)
        ]

    def display(self, output: JsonDict) -> List[Display]:
        return [
            MarkedText(frame["predicate"], output["sentence"], marks_of(frame["arguments"]))
            for frame in output["frames"]
        ]

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        raise NotImplementedError("a sentence has one instance per predicate; use predict_json")

    def _text(self, json_dict: JsonDict) -> _Text:
        text = text_in(json_dict, "elmo::srl")
        tokens, sentence = self._dataset_reader.tokens_of(text)  # type: ignore[attr-defined]
        return _Text(sentence, [str(token) for token in tokens], offsets_of(tokens))

    def _predicates(self, inputs: Sequence[JsonDict], texts: Sequence[_Text]) -> List[List[int]]:
        predicates = [_given_predicates(each, text) for each, text in zip(inputs, texts, strict=True)]
        to_find = [number for number, indices in enumerate(predicates) if indices is None]
        if to_find:
            sentences = [texts[number].words for number in to_find]
            found = self._dataset_reader.find_predicates(sentences)  # type: ignore[attr-defined]
            for number, indices in zip(to_find, found, strict=True):
                predicates[number] = indices
        for indices, text in zip(predicates, texts, strict=True):
            _check_indices(indices, text)
        return predicates


def _given_predicates(json_dict: JsonDict, text: _Text) -> Any:
    """Their numbers, if the input has them; None if they have to be found."""
    given = json_dict.get("predicates") or ()
    names = given.split() if isinstance(given, str) else list(given)
    if "predicate_indices" in json_dict or not names:
        return json_dict.get("predicate_indices")
    if missing := [name for name in names if name not in text.words]:
        raise ValueError(f"the predicate {missing[0]!r} isn't one of the tokens {text.words}")
    return [index for index, word in enumerate(text.words) if word in names]


def _check_indices(indices: Any, text: _Text) -> None:
    is_list = isinstance(indices, list) and all(type(index) is int for index in indices)
    if not is_list or any(not 0 <= index < len(text.words) for index in indices):
        raise ValueError(
            f"predicate_indices must be a list of numbers from 0 to {len(text.words) - 1}, of the tokens {text.words}; "
            f"got {indices!r}"
        )


def _frame(text: _Text, predicate_index: int, tags: List[str]) -> Dict[str, Any]:
    arguments = []
    description = list(text.words)
    for start, end, type_ in chunks(tags):
        arguments.append({"type": type_, **located(text.sentence, text.offsets, start, end - 1)})
        description[start] = f"[{type_}: {description[start]}"
        description[end - 1] += "]"
    return {
        "predicate": text.words[predicate_index],
        "predicate_index": predicate_index,
        "tags": tags,
        "arguments": arguments,
        "description": " ".join(description),
    }
