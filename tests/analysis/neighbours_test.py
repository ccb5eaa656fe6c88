import argparse
import gzip

import numpy
import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import neighbours, token_store
from elmo_plugin.analysis.marked_sentence import parse_marked
from elmo_plugin.embedding import ElmoEmbedder

CORPUS = [
    "The miller saw a play .",
    "Children play by the river .",
    "Play begins at noon in the park .",
    "A river runs past the mill .",
    "The play of light on water .",
    "Nobody saw the miller .",
]
QUERY = "They saw the [play] at noon ."


@pytest.fixture
def embedder(bilm_files):
    return ElmoEmbedder(*bilm_files)


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(CORPUS) + "\n")
    return str(tmp_path / "corpus.txt")


@pytest.fixture
def store(tmp_path, embedder, corpus):
    return neighbours.build_index(str(tmp_path / "index"), embedder, [corpus], dtype="float32", batch_size=2)


def search(store, embedder, text, num_neighbours, same_word=False):
    (found,) = neighbours.neighbours_of(embedder, store, [parse_marked(text)], num_neighbours, same_word)
    return found


def brute_force(embedder, text, layer=2):
    """Every sentence of the corpus with the cosine and the place of its nearest token, best first."""
    query = parse_marked(text)
    own = embedder.embed_sentence(query.tokens)[layer, query.place]
    ranked = []
    for number, line in enumerate(CORPUS):
        vectors = embedder.embed_sentence(line.split())[layer]
        cosines = vectors @ own / numpy.linalg.norm(vectors, axis=1) / numpy.linalg.norm(own)
        ranked.append((float(cosines.max()), int(cosines.argmax()), number))
    return sorted(ranked, reverse=True)


@pytest.mark.parametrize("bytes_per_block", [1, 700, 2**30])
def test_the_search_is_exact_whatever_the_blocks(store, embedder, monkeypatch, bytes_per_block):
    monkeypatch.setattr(token_store, "_BYTES_PER_BLOCK", bytes_per_block)
    found = search(store, embedder, QUERY, 4)
    expected = brute_force(embedder, QUERY)[:4]
    assert [near.sentence.tokens for near in found] == [CORPUS[number].split() for _, _, number in expected]
    assert [near.sentence.place for near in found] == [place for _, place, _ in expected]
    numpy.testing.assert_allclose([near.cosine for near in found], [cosine for cosine, _, _ in expected], atol=1e-5)


def test_several_queries_are_answered_each_by_its_own(store, embedder):
    queries = [parse_marked(QUERY), parse_marked("A [river] .")]
    both = neighbours.neighbours_of(embedder, store, queries, 3)
    for found, text in zip(both, (QUERY, "A [river] ."), strict=True):
        alone = search(store, embedder, text, 3)
        assert [near.sentence for near in found] == [near.sentence for near in alone]
        assert [near.cosine for near in found] == pytest.approx([near.cosine for near in alone], abs=1e-6)


def test_a_sentence_counts_once(store, embedder):
    found = search(store, embedder, QUERY, 100)
    assert len(found) == len(CORPUS)


def test_the_querys_own_sentence_is_no_answer(store, embedder):
    found = search(store, embedder, "The miller saw a [play] .", 100)
    assert len(found) == len(CORPUS) - 1
    assert CORPUS[0].split() not in [near.sentence.tokens for near in found]


def test_answers_can_be_kept_to_the_same_word_in_any_case(store, embedder):
    found = search(store, embedder, QUERY, 100, same_word=True)
    assert sorted(near.sentence.word for near in found) == ["Play", "play", "play", "play"]


def test_a_word_that_the_corpus_lacks_has_no_neighbour_of_the_same_word(store, embedder):
    assert search(store, embedder, "A [windmill] .", 5, same_word=True) == []


def test_a_token_in_the_same_context_is_nearest(tmp_path, embedder):
    (tmp_path / "twice.txt").write_text("\n".join([*CORPUS, "They saw the play at noon !"]) + "\n")
    store = neighbours.build_index(str(tmp_path / "twice"), embedder, [str(tmp_path / "twice.txt")])
    assert search(store, embedder, QUERY, 1)[0].sentence == parse_marked("They saw the [play] at noon !")


def test_the_framework_xml_is_a_corpus_too(root):
    path = str(root / "fixtures/data/wsd/hill.data.xml")
    assert list(neighbours.corpus_sentences([path]))[1] == ["The", "miller", "took", "it", "."]


@pytest.fixture
def glove(tmp_path):
    lines = ["play 1 0", "game 0.9 0.1", "sleep -1 0", "PLAY 1 0", "stage 0.5 0.5", "Stage 0 1"]
    (tmp_path / "glove.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return str(tmp_path / "glove.txt.gz")


def test_nearest_types_of_a_file_leave_out_the_word_itself(glove):
    found = neighbours.types_of_file(glove, ["play"], 3)
    assert [near.word for near in found["play"]] == ["game", "stage", "Stage"]
    assert found["play"][1].cosine == pytest.approx(0.5**0.5)


def test_a_word_is_looked_for_in_lower_case_if_need_be(glove):
    found = neighbours.types_of_file(glove, ["Game", "Stage", "unknown"], 1)
    assert found["Game"][0].word in ("play", "PLAY")
    assert found["Stage"][0].word == "game"
    assert found["unknown"] == []


def test_types_are_found_whatever_the_blocks(glove, monkeypatch):
    whole = neighbours.types_of_file(glove, ["play", "stage"], 3)
    monkeypatch.setattr(neighbours, "_TYPES_PER_BLOCK", 2)
    assert neighbours.types_of_file(glove, ["play", "stage"], 3) == whole


def test_a_first_line_of_sizes_is_passed_over(tmp_path):
    (tmp_path / "w2v.txt").write_text("2 3\na 1 0 0\nb 1 1 0\n")
    assert [near.word for near in neighbours.types_of_file(str(tmp_path / "w2v.txt"), ["a"], 5)["a"]] == ["b"]


def test_a_word_may_have_blanks_inside(tmp_path):
    (tmp_path / "v.txt").write_text("a 1 0\n. . . 1 1\n")
    assert [near.word for near in neighbours.types_of_file(str(tmp_path / "v.txt"), ["a"], 5)["a"]] == [". . ."]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 0\nb 1\n", r"v.txt, line 2: expected a word and 2 numbers, got 1 after 'b'"),
        ("a 1 0\nb one two\n", r"v.txt, line 2: 'one' isn't a number"),
        ("", r"v.txt holds no word vectors; expected lines of a word and its numbers"),
    ],
)
def test_a_bad_file_of_vectors_is_named(tmp_path, text, message):
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        neighbours.types_of_file(str(tmp_path / "v.txt"), ["a"], 1)


def test_types_of_the_bilm_are_nearest_by_its_token_layer(embedder):
    sentences = [line.split() for line in CORPUS]
    (near,) = neighbours.types_of_bilm(embedder, sentences, ["mill"], 1)["mill"]
    words = sorted({word for sentence in sentences for word in sentence} - {"mill"})
    own = embedder.embed_sentence(["mill"])[0, 0]

    def cosine(word):
        vector = embedder.embed_sentence([word])[0, 0]
        return vector @ own / numpy.linalg.norm(vector) / numpy.linalg.norm(own)

    assert near.word == max(words, key=cosine)


def test_only_frequent_types_are_considered(embedder):
    found = neighbours.types_of_bilm(embedder, [["a", "a", "b", "b", "c"]], ["x"], 5, max_types=2)
    assert sorted(near.word for near in found["x"]) == ["a", "b"]


@pytest.fixture
def run(tmp_path, corpus, embedder):
    def run(**changes):
        arguments = {
            "index": str(tmp_path / "index"),
            "corpus": [corpus],
            "queries": [QUERY],
            "layer": None,
            "float32": False,
            "same_word": False,
            "word_vectors": None,
            "num_tokens": 2,
            "num_types": 3,
            "batch_size": 4,
        }
        return neighbours.Neighbours().run(argparse.Namespace(**{**arguments, **changes}), lambda: embedder)

    return run


def test_an_index_is_queried_without_its_corpus(run):
    assert run().results == run(corpus=None).results


def test_the_report_shows_types_and_sentences(run, glove):
    report = run(word_vectors=glove)
    (query,) = report.results["queries"]
    assert [near["word"] for near in query["nearest_types"]] == ["game", "stage", "Stage"]
    assert len(query["nearest_tokens"]) == 2
    assert "They saw the [play] at noon ." in report.table and "word vectors: game, stage, Stage" in report.table


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_types": 0}, "--num-types must be 1 or more"),
        ({"queries": ["no mark"]}, "--queries: exactly one word"),
        ({"corpus": None}, "index holds no index"),
        ({"corpus": ["nowhere.txt"]}, "nowhere.txt: no such file"),
        ({"layer": 7}, "the layers 0 to 2, not 7"),
    ],
)
def test_wrong_arguments_are_refused(run, changes, message):
    with pytest.raises(ConfigurationError, match=message):
        run(**changes)


def test_an_index_of_another_layer_or_bilm_is_refused(run, embedder, make_bilm_files):
    run()
    with pytest.raises(ConfigurationError, match=r"has the layers \[2\], not 1"):
        run(corpus=None, layer=1)
    embedder.bilm = ElmoEmbedder(*make_bilm_files(seed=1, name="other")).bilm
    with pytest.raises(ConfigurationError, match="built with a different biLM"):
        run(corpus=None)
