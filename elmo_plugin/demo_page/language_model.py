"""What a biLM expects at each position of a sentence, and how much each word surprises it."""

import math
from typing import Any, Dict, List, NamedTuple

from allennlp.predictors import Predictor

from elmo_plugin.bilm.word_ids import SPECIAL_WORDS
from elmo_plugin.demo_page.texts import MAX_CHARACTERS, check_text, words_of

NUM_SUBSTITUTES = 10


class ReadWord(NamedTuple):
    """A word, its surprise in bits when reading from the left or from the right, and what each direction would rather
    have seen, with probabilities; for `both` together, as shares of the words that are named.
    """

    text: str
    is_known: bool
    forward_bits: float
    backward_bits: float
    substitutes: Dict[str, Dict[str, float]]


class Reading(NamedTuple):
    words: List[ReadWord]
    # By direction, and their mean.
    perplexity: Dict[str, float]


def read(predictor: Predictor, sentence: str, max_characters: int = MAX_CHARACTERS) -> Reading:
    """A sentence as the predictor `elmo::bilm` reads it."""
    tokens = words_of(check_text(sentence, "Sentence", max_characters))
    output = predictor.predict_json({"tokens": tokens, "top_k": NUM_SUBSTITUTES + len(SPECIAL_WORDS)})
    # A direction has a boundary among its words: the forward one at the end, the backward one at the beginning.
    columns = zip(tokens, output["forward"][:-1], output["backward"][1:], output["substitutes"], strict=True)
    words = [
        ReadWord(
            token,
            forward["scored_as"] == token,
            -forward["log_prob"] / math.log(2),
            -backward["log_prob"] / math.log(2),
            {
                "forward": _probabilities(_words(substitutes["forward"])),
                "backward": _probabilities(_words(substitutes["backward"])),
                "both": _shares(_words(substitutes["both"])),
            },
        )
        for token, forward, backward, substitutes in columns
    ]
    return Reading(words, output["perplexity"])


def _words(ranked: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """The best actual words, without a sentence's end or unknown words."""
    return [each for each in ranked if each["word"] not in SPECIAL_WORDS][:NUM_SUBSTITUTES]


def _probabilities(ranked: List[Dict[str, Any]]) -> Dict[str, float]:
    return {each["word"]: math.exp(each["log_prob"]) for each in ranked}


def _shares(ranked: List[Dict[str, Any]]) -> Dict[str, float]:
    """For both directions words have products of probabilities, of which only ratios mean anything: their shares."""
    best = max(each["log_prob"] for each in ranked)
    products = {each["word"]: math.exp(each["log_prob"] - best) for each in ranked}
    return {word: product / sum(products.values()) for word, product in products.items()}
