"""Every task's predictor says what it takes and how its output is shown."""

import pytest

from elmo_plugin.tasks.common.display import Bars, DisplayedPredictor, Mark, MarkedText, bracketed, pieces
from elmo_plugin.tasks.coref import CoreferencePredictor
from elmo_plugin.tasks.ner import NerPredictor
from elmo_plugin.tasks.snli import SnliPredictor
from elmo_plugin.tasks.squad import SquadPredictor
from elmo_plugin.tasks.srl import SrlPredictor
from elmo_plugin.tasks.sst import SentimentPredictor

# What each predictor's docstring says it gives, and what a reader is shown of it.
OUTPUTS = {
    NerPredictor: (
        {"sentence": "Ada is here.", "entities": [{"type": "PER", "text": "Ada", "start": 0, "end": 3}]},
        [MarkedText("Entities", "Ada is here.", [Mark(0, 3, "PER")])],
    ),
    CoreferencePredictor: (
        {"text": "Ada waved. Bo saw her.", "mentions": [[{"start": 0, "end": 3}, {"start": 18, "end": 21}]]},
        [
            MarkedText(
                "Clusters: phrases with the same number refer to the same thing",
                "Ada waved. Bo saw her.",
                [Mark(0, 3, "1"), Mark(18, 21, "1")],
            )
        ],
    ),
    SnliPredictor: (
        {"label": "neutral", "probabilities": {"neutral": 0.6, "entailment": 0.4}},
        [Bars("neutral", {"neutral": 0.6, "entailment": 0.4})],
    ),
    SentimentPredictor: (
        {"label": "positive", "probabilities": {"positive": 0.7, "neutral": 0.3}},
        [Bars("positive", {"positive": 0.7, "neutral": 0.3})],
    ),
    SquadPredictor: (
        {
            "passage": "Ada lives in London.",
            "answer": "London",
            "start": 13,
            "end": 19,
            "probability": 0.814,
            "n_best": [
                {"answer": "London", "probability": 0.814},
                {"answer": "in", "probability": 0.1},
                {"answer": "London", "probability": 0.01},
            ],
        },
        [
            MarkedText("London (81.4%)", "Ada lives in London.", [Mark(13, 19, "answer")]),
            Bars("The likeliest answers", {"London": 0.814, "in": 0.1}),
        ],
    ),
    SrlPredictor: (
        {
            "sentence": "Ada met Bo",
            "frames": [{"predicate": "met", "arguments": [{"type": "ARG0", "text": "Ada", "start": 0, "end": 3}]}],
        },
        [MarkedText("met", "Ada met Bo", [Mark(0, 3, "ARG0")])],
    ),
}


@pytest.mark.parametrize("predictor", OUTPUTS, ids=lambda predictor: predictor.__name__)
def test_an_output_is_shown_in_its_task_s_way(predictor):
    output, displayed = OUTPUTS[predictor]
    assert predictor.display(None, output) == displayed


@pytest.mark.parametrize("predictor", OUTPUTS, ids=lambda predictor: predictor.__name__)
def test_examples_have_a_text_for_each_input_and_no_other(predictor):
    assert issubclass(predictor, DisplayedPredictor) and predictor.examples
    for example in predictor.examples:
        assert {each.key for each in predictor.inputs if not each.is_optional} <= set(example)
        assert set(example) <= {each.key for each in predictor.inputs}


@pytest.mark.parametrize(
    "marks, expected",
    [
        ([], "abcdef"),
        ([Mark(4, 6, "y"), Mark(0, 1, "x")], "[x a]bcd[y ef]"),
        ([Mark(2, 3, "inner"), Mark(1, 4, "outer")], "a[outer b[inner c]d]ef"),
        ([Mark(1, 3, "x"), Mark(1, 3, "y")], "a[x [y bc]]def"),
        ([Mark(0, 3, "x"), Mark(2, 5, "y")], "[x ab[y c]][y de]f"),
    ],
)
def test_the_pieces_of_a_marked_text_lie_within_each_other(marks, expected):
    assert bracketed("abcdef", pieces(0, 6, marks)) == expected
