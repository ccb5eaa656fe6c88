"""Viterbi decoding of a whole batch at once, under constraints on which tag may follow which."""

from typing import Dict, List, NamedTuple, Set

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.conditional_random_field import allowed_transitions

from elmo_plugin.tasks.common.spans import check_scheme, parse_tag

FORBIDDEN = float("-inf")


class Transitions(NamedTuple):
    """The scores of going from tag to tag, and of beginning and ending a sequence with one; -inf where it is forbidden.

    Two of them add up, so that a CRF's scores can be constrained: `scores.plus(constraints)`.
    """

    between: torch.Tensor  # (num_tags, num_tags), from a row's tag to a column's
    start: torch.Tensor  # (num_tags,)
    end: torch.Tensor  # (num_tags,)

    def plus(self, other: "Transitions") -> "Transitions":
        return Transitions(self.between + other.between, self.start + other.start, self.end + other.end)

    def to(self, emissions: torch.Tensor) -> "Transitions":
        """The same on the device of `emissions` and in their precision."""
        return Transitions(*(scores.to(emissions) for scores in self))


class TagSequences(NamedTuple):
    """The best sequence of each row, and the sum of its scores."""

    tag_ids: torch.Tensor  # (batch_size, length), 0 past a row's end
    scores: torch.Tensor  # (batch_size,)


def tag_constraints(scheme: str, tags: Dict[int, str]) -> Transitions:
    """0 where `scheme` (`BIO`, `IOB1` or `BIOUL`) lets a tag follow another, begin or end a sequence; -inf elsewhere.

    `tags` is a vocabulary's, `vocab.get_index_to_token_vocabulary("labels")`; it must have been made with that scheme.
    """
    check_scheme(scheme)
    _check_vocabulary(scheme, set(tags.values()))
    num_tags = len(tags)
    # The last two are AllenNLP's ids for the start and the end.
    scores = torch.full((num_tags + 2, num_tags + 2), FORBIDDEN)
    from_ids, to_ids = zip(*allowed_transitions(scheme, tags), strict=True)
    scores[from_ids, to_ids] = 0.0
    return Transitions(scores[:num_tags, :num_tags], scores[num_tags, :num_tags], scores[:num_tags, num_tags + 1])


def viterbi(emissions: torch.Tensor, mask: torch.Tensor, transitions: Transitions) -> TagSequences:
    """The sequence of tags with the highest sum of emissions and transitions, for each row of a batch.

    `emissions` has the shape (batch_size, length, num_tags), `mask` (batch_size, length) with a row's padding at its
    end. The loop is over the steps, never over the rows. Among sequences that score the same, which one is given isn't
    specified.

    Raises ValueError if a row has no allowed sequence.
    """
    transitions = transitions.to(emissions)
    # The previous tag is the last dimension, where a maximum is found fastest. Shape: (num_tags, num_tags)
    between = transitions.between.t().contiguous()
    # For each step (batch_size, num_tags): the best score of a sequence up to there that ends in the tag
    scores = [transitions.start + emissions[:, 0]]
    for step in range(1, emissions.size(1)):
        reached = (scores[-1].unsqueeze(1) + between).amax(dim=-1) + emissions[:, step]
        # Past its end a row stays as it is.
        scores.append(torch.where(mask[:, step].unsqueeze(-1), reached, scores[-1]))
    best_scores, last_tag_ids = (scores[-1] + transitions.end).max(dim=-1)
    is_empty = ~mask.any(dim=-1)
    if (best_scores.isneginf() & ~is_empty).any():
        raise ValueError("no sequence of tags is allowed for a sentence: every one has a forbidden transition")
    tag_ids = _trace_back(scores, between, mask, last_tag_ids)
    return TagSequences(tag_ids * mask, best_scores.masked_fill(is_empty, 0.0))


def _trace_back(
    scores: List[torch.Tensor], between: torch.Tensor, mask: torch.Tensor, last_tag_ids: torch.Tensor
) -> torch.Tensor:
    """The sequences that end in `last_tag_ids`, (batch_size, length).

    Where a tag was reached from is computed here, only for the tags of the best sequences: keeping it for every tag
    would cost several times as much as the scores themselves.
    """
    tag_ids = [last_tag_ids]
    for step in range(len(scores) - 1, 0, -1):
        # Shape: (batch_size,)
        previous_tag_ids = (scores[step - 1] + between[tag_ids[-1]]).argmax(dim=-1)
        tag_ids.append(torch.where(mask[:, step], previous_tag_ids, tag_ids[-1]))
    return torch.stack(tag_ids[::-1], dim=1)


def _check_vocabulary(scheme: str, tags: Set[str]) -> None:
    """Refuses tags of another scheme, and those without which no sequence could be allowed."""
    if "O" not in tags:
        raise ConfigurationError(f"the tags have no 'O', so some sentences could have no tags: {sorted(tags)}")
    for tag in sorted(tags):
        try:
            prefix, type_ = parse_tag(tag, scheme)
        except ValueError as error:
            raise ConfigurationError(f"{error}; does the dataset reader convert tags to {scheme}?") from error
        if scheme == "BIOUL" and prefix in ("B", "I") and f"L-{type_}" not in tags:
            raise ConfigurationError(
                f"the tags have {tag!r} but no 'L-{type_}', so they weren't made with the scheme BIOUL; set the coding "
                "scheme to the dataset reader's"
            )
