"""Predictor "elmo::coref": a document -> the clusters of phrases in it that refer to the same thing."""

from typing import Any, Dict, List

from allennlp.common.util import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_plugin.tasks.common.display import Display, DisplayedPredictor, Input, Mark, MarkedText, bracketed, pieces
from elmo_plugin.tasks.common.predictor import ConllPredictor
from elmo_plugin.tasks.common.words import is_words, located, offsets_of
from elmo_plugin.tasks.coref.conll import format_document


@Predictor.register("elmo::coref")
class CoreferencePredictor(ConllPredictor, DisplayedPredictor):
    """Finds the phrases of a document that refer to the same thing.

        {"document": "Ada Byron waved. She left."}

    gives

        {"document_id": "document", "part": 0,
         "sentences": [["Ada", "Byron", "waved", "."], ["She", "left", "."]],
         "clusters": [[[0, 1], [4, 4]]],
         "text": "Ada Byron waved. She left.",
         "mentions": [[{"text": "Ada Byron", "start": 0, "end": 9, "first_token": 0, "last_token": 1},
                       {"text": "She", "start": 17, "end": 20, "first_token": 4, "last_token": 4}]],
         "marked_text": "[0 Ada Byron] waved. [0 She] left."}

    A mention in `clusters` is its first and last token, counted through the document; `mentions` has the same ones with
    their characters: `text[start:end]`. Text that is already tokenised goes in as `{"sentences": [["Ada", ...], ...]}`;
    its `text` is the words with a space between each two. There may also be `"genre": "bc"`, and with `sentences`
    `"speakers": ["Bo", "Cy", ...]`, one for each of them.

    To score a file with the official scorer, or with ours, write its format instead of JSON:

        allennlp predict model.tar.gz test.v4_gold_conll --use-dataset-reader --batch-size 1 --silent \
            --predictor-args '{"output_format": "conll"}' --output-file predictions.conll
        allennlp elmo-score coref test.v4_gold_conll predictions.conll
    """

    task_title = "Coreference"
    inputs = [Input("document", "Document", is_long=True)]
    examples = [
        {"document": "Ada Byron waved to her mother. She left the house, and her mother closed its door."},
        {"document": "The company said it would hire Bo Lind. He will lead its new office in Oslo."},
    ]

    def predict(self, document: str) -> JsonDict:
        return self.predict_json({"document": document})

    def complete(self, output: JsonDict, instance: Instance) -> JsonDict:
        text = instance["metadata"]["text"]  # type: ignore[index]
        offsets = offsets_of(instance["metadata"]["tokens"])  # type: ignore[index]
        mentions = [[located(text, offsets, *mention) for mention in cluster] for cluster in output["clusters"]]
        marked = bracketed(text, pieces(0, len(text), _marks(mentions, first_number=0)))
        return {**output, "text": text, "mentions": mentions, "marked_text": marked}

    def display(self, output: JsonDict) -> List[Display]:
        marks = _marks(output["mentions"], first_number=1)
        return [MarkedText("Clusters: phrases with the same number refer to the same thing", output["text"], marks)]

    def format_conll(self, output: JsonDict) -> str:
        return format_document(output["document_id"], output["part"], output["sentences"], output["clusters"])

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        document, genre = json_dict.get("document"), json_dict.get("genre")
        if _is_list_of_sentences(json_dict.get("sentences")):
            sentences = [sentence for sentence in json_dict["sentences"] if sentence]
            speakers = _speakers_of_words(json_dict, sentences)
            return self._dataset_reader.text_to_instance(sentences, speakers, genre)
        if "sentences" not in json_dict and isinstance(document, str):
            if "speakers" in json_dict:
                raise ValueError('predictor elmo::coref takes "speakers" only with "sentences", one for each sentence')
            return self._dataset_reader.text_to_instance(document, None, genre)
        raise ValueError(
            'predictor elmo::coref needs {"document": "Some text."} or {"sentences": [["Some", "text", "."], ...]}, '
            f"got {json_dict}"
        )


def _is_list_of_sentences(value: Any) -> bool:
    return isinstance(value, list) and all(is_words(sentence) for sentence in value)


def _speakers_of_words(json_dict: JsonDict, sentences: List[List[str]]) -> Any:
    speakers = json_dict.get("speakers")
    if speakers is None:
        return None
    if not isinstance(speakers, list) or len(speakers) != len(sentences):
        raise ValueError(
            f'predictor elmo::coref needs one of "speakers" for each of the {len(sentences)} sentences, got {speakers}'
        )
    return [[speaker] * len(sentence) for speaker, sentence in zip(speakers, sentences, strict=True)]


def _marks(mentions: List[List[Dict[str, Any]]], first_number: int) -> List[Mark]:
    """A mark with its cluster's number for each mention."""
    numbered = enumerate(mentions, start=first_number)
    return [Mark(mention["start"], mention["end"], str(number)) for number, cluster in numbered for mention in cluster]
