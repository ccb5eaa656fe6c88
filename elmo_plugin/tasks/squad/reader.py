"""DatasetReader "elmo::squad": passages, questions and answers in the format of SQuAD 1.1."""

import bisect
import logging
import re
from os import PathLike
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance
from allennlp.data.fields import Field, MetadataField, TensorField, TextField

from elmo_plugin.files import parse_json, read_text
from elmo_plugin.tasks.common.reader import Notes, TaskReader, Text, json_value, some
from elmo_plugin.tasks.common.words import Offsets, offsets_of

logger = logging.getLogger(__name__)

LONG_PASSAGES = ("truncate", "skip")
NO_SPAN = (-100, -100)  # what torch's losses ignore


class Answer(NamedTuple):
    """An answer, and the position of its first character in the passage."""

    text: str
    start: int


class AlignedAnswer(NamedTuple):
    """The first and last token of an answer, and what was inexact about finding them."""

    span: Optional[Tuple[int, int]]  # None if the answer isn't in the passage as far as that was read
    was_moved: bool = False  # the text wasn't where the file says
    was_widened: bool = False  # the text begins or ends inside a token


class Question(NamedTuple):
    """A question of a file."""

    id: str
    text: str
    answers: List[Answer]


class _Passage(NamedTuple):
    """A passage, and its tokens as far as they are read, in a field that all its questions share."""

    text: str
    field: TextField
    offsets: Offsets
    was_cut: bool


@DatasetReader.register("elmo::squad")
class SquadReader(TaskReader):
    """Reads SQuAD 1.1's JSON, plain or gzipped: `{"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ...,
    "question": ..., "answers": [{"text": ..., "answer_start": ...}]}]}]}]}`. Questions without answers can be read, but
    are neither learned from nor scored. SQuAD 2.0's unanswerable questions are refused: no model here can decline.

    The answer to learn is the first that is found in the passage; scores count all. An answer that begins or ends
    inside a token is widened to whole tokens. One that isn't where the file says is looked for, and the nearest
    occurrence taken; if there is none, the question is scored but not learned from. The log counts each of these.

    max_passage_tokens: the length of the longest passage to read whole; null for any. Time grows with the square of it,
        and memory with the length: 20,000 tokens take as long as 2,500 passages of 400.
    long_passages: what to do with longer ones. `truncate`: their first tokens are read; a question whose answer lies
        past them is scored but not learned from. `skip`: their questions are left out, which is for training only.
    The others are those of `TaskReader`; questions that are left out count towards `max_instances`, too.
    """

    texts = ("passage", "question")

    def __init__(
        self, *, max_passage_tokens: Optional[int] = None, long_passages: str = "truncate", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if long_passages not in LONG_PASSAGES:
            raise ConfigurationError(f'long_passages must be "truncate" or "skip", not {long_passages!r}')
        if max_passage_tokens is not None and max_passage_tokens < 1:
            raise ConfigurationError(f"max_passage_tokens must be 1 or more, or null, not {max_passage_tokens}")
        self._max_passage_tokens = max_passage_tokens
        self._long_passages = long_passages

    def _read(self, file_path: Union[str, PathLike]) -> Iterator[Instance]:
        notes = Notes(logger)
        context, passage = None, None
        questions = some(read_questions(str(file_path), self._encoding), f"{file_path} holds no question")
        for next_context, question in self.shard_iterable(questions):
            try:
                # Questions come passage by passage; what they share is built once.
                if passage is None or next_context != context:
                    context, passage = next_context, self._passage(next_context)
                if passage.was_cut and self._long_passages == "skip":
                    notes.add(logging.INFO, "left out {} questions on passages that are too long")
                    continue
                aligned = [align_answer(answer, passage.text, passage.offsets) for answer in question.answers]
                _note_alignment(aligned, notes)
                yield self._instance(passage, question.text, question.id, question.answers, aligned)
            except ValueError as error:
                raise ConfigurationError(f"{file_path}, question {question.id!r}: {error}") from error
        notes.log(str(file_path))

    def text_to_instance(
        self,
        question: Text,
        passage: Text,
        answers: Optional[Sequence[Answer]] = None,
        question_id: str = "",
    ) -> Instance:
        """An instance of two texts, each a string to tokenise or a list of tokens, which are then treated as if they
        were joined by spaces. `answers` are those of people, where they are known.
        """
        read = self._passage(passage)
        aligned = None if answers is None else [align_answer(answer, read.text, read.offsets) for answer in answers]
        return self._instance(read, question, question_id, answers or [], aligned)

    def _passage(self, text: Text) -> _Passage:
        tokens, plain_text = self.tokens_of(text, "passage")
        if isinstance(text, str) and plain_text is not text:
            raise ConfigurationError(
                f"the tokenizer {type(self._tokenizer).__name__} doesn't say where in a text its tokens are, without "
                "which answers can't be found; use one that does, such as elmo::spacy, without start and end tokens"
            )
        kept = tokens[: self._max_passage_tokens]
        return _Passage(plain_text, TextField(kept), offsets_of(kept), len(kept) < len(tokens))

    def _instance(
        self,
        passage: _Passage,
        question: Text,
        question_id: str,
        answers: Sequence[Answer],
        aligned: Optional[Sequence[AlignedAnswer]],
    ) -> Instance:
        question_tokens, _ = self.tokens_of(question, "question")
        metadata: Dict[str, Any] = {
            "id": question_id,
            "passage": passage.text,
            "question": question if isinstance(question, str) else " ".join(question),
            "passage_tokens": [str(token) for token in passage.field.tokens],
            "question_tokens": [str(token) for token in question_tokens],
            "token_offsets": passage.offsets,
            "answers": [answer.text for answer in answers],
        }
        fields: Dict[str, Field] = {
            "passage": passage.field,
            "question": TextField(question_tokens),
            "metadata": MetadataField(metadata),
        }
        if aligned is not None:
            span = next((answer.span for answer in aligned if answer.span is not None), NO_SPAN)
            fields["answer_span"] = TensorField(torch.tensor(span), dtype=torch.long)
        return Instance(fields)


def align_answer(answer: Answer, passage: str, offsets: Offsets) -> AlignedAnswer:
    """The tokens of `passage`, at `offsets`, that contain an answer."""
    text = answer.text.strip()
    if not text:
        return AlignedAnswer(None)
    start = answer.start + len(answer.text) - len(answer.text.lstrip())
    was_moved = start < 0 or passage[start : start + len(text)] != text
    if was_moved:
        places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", passage)]  # overlapping ones, too
        if not places:
            return AlignedAnswer(None)
        start = min(places, key=lambda place: abs(place - start))
    end = start + len(text)
    # The first token that ends past the start, and the last one that starts before the end.
    first = bisect.bisect_right(offsets, start, key=lambda offset: offset[1])
    last = bisect.bisect_left(offsets, end, key=lambda offset: offset[0]) - 1
    if first > last or end > offsets[-1][1]:
        return AlignedAnswer(None, was_moved)
    return AlignedAnswer((first, last), was_moved, (offsets[first][0], offsets[last][1]) != (start, end))


def _note_alignment(aligned: Sequence[AlignedAnswer], notes: Notes) -> None:
    """How the answer that is learned from was found."""
    notes.add(logging.INFO, "read {} questions")
    found = next((answer for answer in aligned if answer.span is not None), None)
    if not aligned:
        notes.add(logging.WARNING, "{} questions have no answer to learn from")
    elif found is None:
        note = "the answers of {} questions aren't in their passages as far as these are read"
        notes.add(logging.WARNING, f"{note}; those are scored, but not learned from")
    else:
        note = "the answers of {} questions begin or end inside a token and were widened"
        notes.add(logging.INFO, note, found.was_widened)
        note = "the answers of {} questions aren't where the file says, but elsewhere in the passage"
        notes.add(logging.INFO, note, found.was_moved)


def read_questions(file_path: str, encoding: str = "utf-8") -> Iterator[Tuple[str, Question]]:
    """Each question of a SQuAD file with its passage."""
    content = parse_json(read_text(file_path, encoding), file_path)
    for article_number, article in enumerate(json_value(content, "data", list, file_path), start=1):
        at = f"{file_path}, article {article_number}"
        for paragraph_number, paragraph in enumerate(json_value(article, "paragraphs", list, at), start=1):
            at_paragraph = f"{at}, paragraph {paragraph_number}"
            context = json_value(paragraph, "context", str, at_paragraph)
            for question_number, question in enumerate(json_value(paragraph, "qas", list, at_paragraph), start=1):
                yield context, _question(question, f"{at_paragraph}, question {question_number}")


def _question(question: Any, at: str) -> Question:
    question_id = json_value(question, "id", str, at)
    at = f"{at} ({question_id!r})"
    if question.get("is_impossible"):
        raise ConfigurationError(
            f"{at} has no answer in the passage: the file is of SQuAD 2.0, but elmo::squad is for SQuAD 1.1, where "
            "each question has one; leave such questions out"
        )
    answers = json_value(question, "answers", list, at) if "answers" in question else []
    return Question(
        question_id,
        json_value(question, "question", str, at),
        [
            Answer(json_value(answer, "text", str, at), json_value(answer, "answer_start", int, at))
            for answer in answers
        ],
    )
