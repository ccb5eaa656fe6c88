import math

import pytest

from elmo_plugin.demo_page import language_model
from elmo_plugin.demo_page.texts import TextError


class Predictor:
    """Gives each word 2 bits read from the left and 3 from the right, and knows all words but "odd"."""

    def predict_json(self, inputs):
        tokens = inputs["tokens"]
        scored = [token if token != "odd" else "<UNK>" for token in tokens]
        ranked = [("</S>", 0.5), ("cat", 0.25), ("dog", 0.125), *((f"w{rank}", 0.001) for rank in range(20))]
        substitutes = [{"word": word, "log_prob": math.log(share)} for word, share in ranked[: inputs["top_k"]]]
        return {
            "forward": [_score(word, 2) for word in scored] + [_score("</S>", 1)],
            "backward": [_score("<S>", 1)] + [_score(word, 3) for word in scored],
            "perplexity": {"forward": 4.0, "backward": 8.0, "mean": 6.0},
            "substitutes": [dict.fromkeys(("forward", "backward", "both"), substitutes) for _ in tokens],
        }


def _score(word, bits):
    return {"token": word, "scored_as": word, "log_prob": -bits * math.log(2)}


def test_each_word_has_its_surprise_in_bits_in_both_directions():
    reading = language_model.read(Predictor(), "An odd cat.")
    assert [word.text for word in reading.words] == ["An", "odd", "cat", "."]
    assert all(math.isclose(word.forward_bits, 2) and math.isclose(word.backward_bits, 3) for word in reading.words)
    assert [word.is_known for word in reading.words] == [True, False, True, True]
    assert reading.perplexity["mean"] == 6.0


def test_substitutes_are_words_and_as_many_as_are_shown():
    substitutes = language_model.read(Predictor(), "One").words[0].substitutes
    assert list(substitutes["forward"])[:3] == ["cat", "dog", "w0"]
    assert len(substitutes["forward"]) == language_model.NUM_SUBSTITUTES
    assert math.isclose(substitutes["forward"]["cat"], 0.25)


def test_substitutes_of_both_directions_are_shares_of_those_named():
    both = language_model.read(Predictor(), "One").words[0].substitutes["both"]
    assert math.isclose(sum(both.values()), 1.0) and math.isclose(both["cat"], 2 * both["dog"])


def test_a_long_sentence_is_refused():
    with pytest.raises(TextError, match="takes up to 10 at a time"):
        language_model.read(Predictor(), "more than ten characters", max_characters=10)
