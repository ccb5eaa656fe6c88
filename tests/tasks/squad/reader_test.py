import gzip
import json
import logging

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.token_indexers import SingleIdTokenIndexer
from allennlp.data.tokenizers import WhitespaceTokenizer

from elmo_plugin.tasks.squad import SquadReader
from elmo_plugin.tasks.squad.reader import Answer, align_answer

PASSAGE = "Ida Quill (1830–1901) didn't rest. Quill built bridges."


def question(*answers, id_="q", text="Who built bridges?", **changes):
    """A question of a file; an answer is its text, at its first occurrence, or a text and a place."""
    placed = [answer if isinstance(answer, tuple) else (answer, PASSAGE.index(answer)) for answer in answers]
    answers = [{"text": text, "answer_start": place} for text, place in placed]
    return {"id": id_, "question": text, "answers": answers, **changes}


@pytest.fixture
def write(tmp_path):
    def write(*questions, context=PASSAGE, name="data.json"):
        content = {"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": context, "qas": questions}]}]}
        path = tmp_path / name
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    return write


def read(path, **kwargs):
    return list(SquadReader(**kwargs).read(path))


def words(field):
    return [token.text for token in field]


def span(instance):
    return tuple(instance["answer_span"].tensor.tolist())


def span_text(instance):
    """The text of the tokens to learn."""
    first, last = span(instance)
    offsets = instance["metadata"]["token_offsets"]
    return instance["metadata"]["passage"][offsets[first][0] : offsets[last][1]]


def test_question_passage_and_answer_are_read(write):
    (instance,) = read(write(question("Ida Quill", "Quill", id_="17")))
    assert words(instance["question"]) == ["Who", "built", "bridges", "?"]
    assert words(instance["passage"])[:4] == ["Ida", "Quill", "(", "1830–1901"]
    assert span(instance) == (0, 1)
    metadata = instance["metadata"].metadata
    assert metadata["id"] == "17"
    assert metadata["passage"] == PASSAGE
    assert metadata["answers"] == ["Ida Quill", "Quill"]
    assert [PASSAGE[start:end] for start, end in metadata["token_offsets"]] == metadata["passage_tokens"]


def test_occurrence_that_the_file_points_at_is_taken(write):
    (instance,) = read(write(question(("Quill", PASSAGE.rindex("Quill")))))
    assert instance["metadata"]["token_offsets"][span(instance)[0]][0] == PASSAGE.rindex("Quill")


@pytest.mark.parametrize(
    "answer, text",
    [
        ("1830", "1830–1901"),
        ("901)", "1830–1901)"),
        ("n't rest", "n't rest"),
        ("bridge", "bridges"),
        ("l b", "Quill built"),
    ],
)
def test_answer_inside_a_token_is_widened(answer, text, write):
    (instance,) = read(write(question(answer)))
    assert span_text(instance) == text


def test_white_space_around_an_answer_is_none_of_it(write):
    (instance,) = read(write(question(" rest. ")))
    assert span_text(instance) == "rest."


def test_answer_that_is_not_where_the_file_says_is_looked_for_nearby(write):
    near_the_end = PASSAGE.rindex("Quill") - 2
    (instance,) = read(write(question(("Quill", near_the_end))))
    assert instance["metadata"]["token_offsets"][span(instance)[0]][0] == PASSAGE.rindex("Quill")
    (instance,) = read(write(question(("Quill", 2))))
    assert span(instance) == (1, 1)


def test_answer_that_is_nowhere_is_scored_but_not_learned_from(write):
    (instance,) = read(write(question(("Nobody", 0))))
    assert span(instance) == (-100, -100)
    assert instance["metadata"]["answers"] == ["Nobody"]


def test_first_answer_that_is_found_is_learned_from(write):
    (instance,) = read(write(question(("Nobody", 0), "rest", "Quill")))
    assert span_text(instance) == "rest"


def test_mismatches_are_counted_and_reported(write, caplog):
    questions = [question("1830"), question("830"), question(("Quill", 2)), question(("Nobody", 0)), question("Quill")]
    path = write(*questions, question())
    with caplog.at_level(logging.INFO):
        assert len(read(path)) == 6
    assert f"{path}: read 6 questions" in caplog.text
    assert f"{path}: the answers of 2 questions begin or end inside a token and were widened" in caplog.text
    assert f"{path}: the answers of 1 questions aren't where the file says, but elsewhere" in caplog.text
    assert f"{path}: the answers of 1 questions aren't in their passages" in caplog.text
    assert f"{path}: 1 questions have no answer to learn from" in caplog.text


def test_nothing_is_warned_of_where_everything_is_found(write, caplog):
    with caplog.at_level(logging.WARNING):
        read(write(question("Quill")))
    assert not caplog.records


@pytest.mark.parametrize("start, expected", [(0, (0, 0)), (2, (1, 1)), (4, (2, 2))])
def test_alignment_to_adjoining_tokens(start, expected):
    offsets = [(0, 2), (2, 4), (4, 6)]
    assert align_answer(Answer("ab", start), "ababab", offsets) == (expected, False, False)


def test_answer_of_white_space_has_no_tokens():
    assert align_answer(Answer(" ", 1), "a b", [(0, 1), (2, 3)]).span is None


def test_answer_between_tokens_has_none():
    # A tokenizer may drop what stands between tokens.
    assert align_answer(Answer("-", 1), "a-b", [(0, 1), (2, 3)]).span is None


def test_long_passage_is_cut_and_answers_past_the_cut_are_not_learned_from(write):
    path = write(question("Ida Quill", id_="a"), question("bridges", id_="b"))
    first, second = read(path, max_passage_tokens=6)
    assert words(first["passage"]) == ["Ida", "Quill", "(", "1830–1901", ")", "did"]
    assert span(first) == (0, 1)
    assert span(second) == (-100, -100)
    assert second["metadata"]["answers"] == ["bridges"]


def test_answer_across_the_cut_is_not_learned_from(write):
    (instance,) = read(write(question("didn't rest")), max_passage_tokens=7)
    assert span(instance) == (-100, -100)


def test_questions_on_long_passages_can_be_left_out(write, caplog):
    path = write(question("Ida Quill"))
    with caplog.at_level(logging.INFO):
        assert read(path, max_passage_tokens=6, long_passages="skip") == []
    assert "left out 1 questions on passages that are too long" in caplog.text
    assert len(read(path, max_passage_tokens=60, long_passages="skip")) == 1


def test_questions_of_a_passage_share_its_field(write):
    first, second = read(write(question("Ida Quill", id_="a"), question("bridges", id_="b")))
    assert first["passage"] is second["passage"]


def test_gzipped_file_reads_as_the_plain_one_whatever_its_name(write, tmp_path):
    plain = write(question("Ida Quill"))
    for name in ("b.json.gz", "c.json"):
        with open(plain, "rb") as file:
            (tmp_path / name).write_bytes(gzip.compress(file.read()))
        (instance,) = read(str(tmp_path / name))
        assert span(instance) == (0, 1)


def test_workers_share_the_questions(write):
    path = write(*(question("Quill", id_=str(number)) for number in range(5)))
    seen = []
    for worker in range(2):
        reader = SquadReader()
        reader._set_worker_info(WorkerInfo(num_workers=2, id=worker))
        seen.append([instance["metadata"]["id"] for instance in reader.read(path)])
    assert seen == [["0", "2", "4"], ["1", "3"]]


def test_indexers_are_given_to_both_texts():
    indexers = {"words": SingleIdTokenIndexer()}
    reader = SquadReader(token_indexers=indexers)
    instance = reader.text_to_instance("Who?", "Ida.")
    reader.apply_token_indexers(instance)
    assert instance["passage"].token_indexers is indexers and instance["question"].token_indexers is indexers


def test_tokens_are_taken_as_they_are_with_spaces_between():
    instance = SquadReader().text_to_instance(["Who", "?"], ["Ida", "did", "n't"], [Answer("did n't", 4)])
    assert words(instance["passage"]) == ["Ida", "did", "n't"]
    assert instance["metadata"]["passage"] == "Ida did n't"
    assert instance["metadata"]["question"] == "Who ?"
    assert span(instance) == (1, 2)


def test_without_answers_there_is_no_span():
    assert "answer_span" not in SquadReader().text_to_instance("Who?", "Ida.")


def test_fixtures_have_every_answer(root):
    for name in ("train", "dev"):
        for instance in read(str(root / "fixtures" / "data" / "squad" / f"{name}.json")):
            assert span(instance)[0] >= 0
            assert instance["metadata"]["answers"][0] in span_text(instance)


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"is_impossible": True}, r"data\.json, article 1, paragraph 1, question 2 \('q'\) has no answer.*SQuAD 2\.0"),
        ({"question": None}, r"data\.json, article 1, paragraph 1, question 2 \('q'\): 'question' must be a str"),
        ({"id": 3}, r"data\.json, article 1, paragraph 1, question 2: 'id' must be a str, but is 3"),
        ({"answers": [{"text": "Quill"}]}, r"\('q'\): 'answer_start' must be a int, but is missing; there are text"),
        ({"answers": ["Quill"]}, r"\('q'\): expected an object with 'text', got 'Quill'"),
        ({"question": " "}, r"data\.json, question 'q': the question holds no token"),
    ],
)
def test_question_that_is_not_of_the_format_is_named(changes, complaint, write):
    with pytest.raises(ConfigurationError, match=complaint):
        read(write(question("Quill", id_="first"), {**question("Quill"), **changes}))


@pytest.mark.parametrize("articles", [[], [{"paragraphs": []}], [{"paragraphs": [{"context": "Ada", "qas": []}]}]])
def test_a_file_without_a_question_is_refused(articles, tmp_path):
    (tmp_path / "empty.json").write_text(json.dumps({"data": articles}))
    with pytest.raises(ConfigurationError, match="empty.json holds no question"):
        list(SquadReader().read(str(tmp_path / "empty.json")))


def test_a_place_before_the_passage_is_no_place():
    assert align_answer(Answer("Oslo", -4), "Oslo, in Oslo", [(0, 4), (4, 5), (6, 8), (9, 13)]).span == (0, 0)


def test_empty_passage_is_named(write):
    with pytest.raises(ConfigurationError, match=r"data\.json, question 'q': the passage holds no token"):
        read(write(question(), context=" "))


@pytest.mark.parametrize(
    "content, complaint",
    [
        (b"{", "not JSON"),
        (b"\xff", "isn.t UTF-8"),
        (b"[]", r"expected an object with 'data', got \[\]"),
        (b'{"version": "1.1"}', "'data' must be a list, but is missing; there are version"),
        (b'{"data": [{"title": "T"}]}', "article 1: 'paragraphs' must be a list, but is missing"),
        (b'{"data": [{"paragraphs": [{"qas": []}]}]}', "article 1, paragraph 1: 'context' must be a str"),
        (gzip.compress(b"{}" * 1000)[:-9], "the gzip data is cut off"),
    ],
)
def test_file_that_is_not_of_the_format_is_named(content, complaint, tmp_path):
    (tmp_path / "broken.json").write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"broken.json.*{complaint}"):
        read(str(tmp_path / "broken.json"))


def test_tokenizer_without_places_is_refused(write):
    with pytest.raises(ConfigurationError, match="WhitespaceTokenizer doesn't say where"):
        read(write(question("Quill")), tokenizer=WhitespaceTokenizer())


@pytest.mark.parametrize(
    "options, complaint",
    [({"long_passages": "fold"}, "not 'fold'"), ({"max_passage_tokens": 0}, "max_passage_tokens must be 1 or more")],
)
def test_options_that_mean_nothing_are_refused(options, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        SquadReader(**options)
