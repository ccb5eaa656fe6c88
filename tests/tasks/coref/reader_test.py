import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader
from allennlp.data.dataset_readers.dataset_reader import WorkerInfo
from allennlp.data.token_indexers import SingleIdTokenIndexer
from allennlp.data.tokenizers import WhitespaceTokenizer

from elmo_plugin.tasks.coref import CoreferenceReader
from elmo_plugin.tasks.coref.conll import format_document


@pytest.fixture
def write(tmp_path):
    def write(*documents):
        path = tmp_path / "data.conll"
        path.write_text("".join(format_document(*document) for document in documents), encoding="utf-8")
        return str(path)

    return write


SENTENCES = [["Ada", "Byron", "left"], ["She", "waved"]]
CLUSTERS = [[(0, 1), (3, 3)], [(4, 4)]]


def genre(instance):
    return instance["genre"].label


def test_a_document_is_a_list_of_sentences(write):
    (instance,) = CoreferenceReader().read(write(("nw/a", 3, SENTENCES, CLUSTERS)))
    assert [[token.text for token in sentence] for sentence in instance["text"]] == SENTENCES
    metadata = instance["metadata"]
    assert (metadata["document_id"], metadata["part"], metadata["sentences"]) == ("nw/a", 3, SENTENCES)
    assert metadata["clusters"] == CLUSTERS


def test_clusters_of_one_mention_are_dropped_on_demand(write):
    path = write(("nw/a", 0, SENTENCES, CLUSTERS))
    (instance,) = CoreferenceReader(keep_singletons=False).read(path)
    assert instance["metadata"]["clusters"] == CLUSTERS[:1]


def test_the_genre_is_in_the_documents_name(write):
    path = write(("bc/a", 0, SENTENCES, []), ("GUM_news_a", 0, SENTENCES, []))
    assert list(map(genre, CoreferenceReader().read(path))) == ["bc", "nw"]
    reader = CoreferenceReader(genre_pattern="GUM_([a-z]+)_", default_genre="any")
    assert list(map(genre, reader.read(path))) == ["any", "news"]


@pytest.mark.parametrize("pattern, message", [("GUM_", "must have a group"), ("(", "isn't a regular expression")])
def test_a_genre_pattern_that_gives_no_genre_is_refused(pattern, message):
    with pytest.raises(ConfigurationError, match=message):
        CoreferenceReader(genre_pattern=pattern)


def test_speakers_have_numbers_of_their_own_in_each_document():
    speakers = [["Cy", "Cy", "Bo"], ["Cy", "Dora"]]
    instance = CoreferenceReader().text_to_instance(SENTENCES, speakers)
    assert instance["speaker_ids"].tensor.tolist() == [0, 0, 1, 0, 2]
    assert CoreferenceReader().text_to_instance(SENTENCES)["speaker_ids"].tensor.tolist() == [0] * 5


def test_speakers_that_dont_fit_the_words_are_refused():
    with pytest.raises(ValueError, match="exactly one speaker for each word"):
        CoreferenceReader().text_to_instance(SENTENCES, [["Bo"], ["Cy"]])


def test_text_is_split_and_tokenised_and_knows_its_places():
    text = "Ada  left. She waved."
    instance = CoreferenceReader().text_to_instance(text)
    metadata = instance["metadata"]
    assert metadata["sentences"] == [["Ada", "left", "."], ["She", "waved", "."]]
    assert metadata["text"] == text
    for token in metadata["tokens"]:
        assert text[token.idx : token.idx_end] == token.text
    assert "clusters" not in metadata.metadata


@pytest.mark.parametrize(
    "tokenizer, text",
    [(None, [["Ada", "left."], [], ["She", "waved."]]), (WhitespaceTokenizer(), "Ada  left. She waved.")],
    ids=["words", "no places"],
)
def test_words_without_places_get_those_in_the_words_joined(tokenizer, text):
    metadata = CoreferenceReader(tokenizer=tokenizer).text_to_instance(text)["metadata"]
    assert metadata["text"] == "Ada left. She waved."
    assert metadata["sentences"] == [["Ada", "left."], ["She", "waved."]]
    assert [token.idx for token in metadata["tokens"]] == [0, 4, 10, 14]


@pytest.mark.parametrize("text", ["", "  ", [], [[]]])
def test_a_text_without_words_is_refused(text):
    with pytest.raises(ValueError, match="no word to read"):
        CoreferenceReader().text_to_instance(text)


def test_a_file_without_documents_is_refused(write):
    with pytest.raises(ConfigurationError, match="data.conll holds no document"):
        list(CoreferenceReader().read(write()))


def test_workers_share_the_documents(write):
    path = write(*((name, 0, SENTENCES, []) for name in "abc"))
    shards = []
    for worker in range(2):
        reader = CoreferenceReader()
        reader._set_worker_info(WorkerInfo(2, worker))
        shards.append([instance["metadata"]["document_id"] for instance in reader.read(path)])
    assert shards == [["a", "c"], ["b"]]


def test_it_is_registered_and_indexes_every_sentence(write):
    params = {"type": "elmo::coref", "token_indexers": {"words": {"type": "single_id"}}}
    reader = DatasetReader.from_params(Params(params))
    (instance,) = reader.read(write(("nw/a", 0, SENTENCES, [])))
    reader.apply_token_indexers(instance)
    assert all(isinstance(each.token_indexers["words"], SingleIdTokenIndexer) for each in instance["text"])


def test_all_files_below_a_folder_are_read_in_order(tmp_path):
    for name, document_id in (("b.v4_gold_conll", "nw/b"), ("a/c.v4_gold_conll", "nw/c"), ("b.v4_auto_conll", "nw/x")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(format_document(document_id, 0, SENTENCES, CLUSTERS))
    instances = CoreferenceReader().read(str(tmp_path))
    assert [instance["metadata"]["document_id"] for instance in instances] == ["nw/c", "nw/b"]
