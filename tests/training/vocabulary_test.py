import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.models.archival import archive_model, load_archive

from elmo_plugin.bilm import softmax_file
from elmo_plugin.bilm.softmax_file import WordSoftmax
from elmo_plugin.bilm.word_ids import WordIds
from elmo_plugin.training.vocabulary import BiLmVocabulary, most_frequent, read_vocab_file

CORPUS = "b a c a\n\nb a <UNK> d\ne <S>\n"
CLASSES = ["<S>", "</S>", "<UNK>", "a", "b", "c", "d", "e"]


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(CORPUS)
    return str(path)


def build(**params):
    return Vocabulary.from_params(Params({"type": "elmo::bilm", **params}), instances=never())


def never():
    raise AssertionError("the vocabulary must not read the loader's instances")
    yield


def classes(vocab, namespace="bilm_words"):
    index_to_token = vocab.get_index_to_token_vocabulary(namespace)
    return [index_to_token[index] for index in range(len(index_to_token))]


def test_special_words_come_first_then_words_by_frequency_then_by_name(corpus):
    assert classes(build(data_path=corpus)) == CLASSES


def test_min_count_leaves_out_rare_words(corpus):
    assert classes(build(data_path=corpus, min_count=2)) == CLASSES[:5]


def test_max_size_counts_the_special_words(corpus):
    assert classes(build(data_path=corpus, max_size=5)) == CLASSES[:5]


@pytest.mark.parametrize(
    "params, message", [({"max_size": 3}, "max_size has to be more than 3"), ({"min_count": 0}, "min_count")]
)
def test_limits_that_leave_no_word_are_refused(corpus, params, message):
    with pytest.raises(ConfigurationError, match=message):
        build(data_path=corpus, **params)


def test_a_corpus_without_words_is_refused(tmp_path):
    (tmp_path / "blank.txt").write_text("\n\n")
    with pytest.raises(ConfigurationError, match="blank.txt: it has no words"):
        build(data_path=str(tmp_path / "blank.txt"))


def test_exactly_one_source_is_wanted(corpus):
    with pytest.raises(ConfigurationError, match="one of data_path, vocab_file and language_model"):
        build()
    with pytest.raises(ConfigurationError, match="one of data_path, vocab_file and language_model"):
        build(data_path=corpus, vocab_file=corpus)


def test_the_words_of_a_language_model_are_taken_over_in_their_order(corpus, tmp_path):
    words = ["<S>", "</S>", "<UNK>", "z", "a"]
    softmax = WordSoftmax(words, torch.zeros(5, 2), torch.zeros(5))
    softmax_file.write(softmax, tmp_path / "softmax.hdf5")
    assert classes(build(language_model=str(tmp_path))) == words
    with pytest.raises(ConfigurationError, match="max_size and reader go with data_path"):
        build(language_model=str(tmp_path), max_size=4)


def test_the_words_of_a_run_are_taken_over(corpus, tmp_path):
    build(data_path=corpus).save_to_files(str(tmp_path / "vocabulary"))
    assert classes(build(language_model=str(tmp_path))) == CLASSES


def test_a_run_of_another_model_is_refused_by_name(tmp_path):
    Vocabulary(tokens_to_add={"tokens": ["a"]}).save_to_files(str(tmp_path / "vocabulary"))
    with pytest.raises(ConfigurationError, match=f"{tmp_path} isn't a language model"):
        build(language_model=str(tmp_path))


@pytest.mark.parametrize("name", ["wiki-small", "no/such/folder"])
def test_what_predicts_no_words_is_refused_with_a_remedy(name):
    with pytest.raises(ConfigurationError, match=f"'{name}' predicts no words(.|\n)*fit_softmax.jsonnet"):
        build(language_model=name)


def test_allennlps_own_names_and_padding_stay(corpus):
    vocab = build(data_path=corpus)
    assert vocab._oov_token == "@@UNKNOWN@@"
    assert vocab._padding_token == "@@PADDING@@"
    assert not vocab.is_padded("bilm_words")
    assert not {"@@UNKNOWN@@", "@@PADDING@@"} & set(classes(vocab))
    vocab.add_token_to_namespace("x", "tokens")
    vocab.add_token_to_namespace("x", "labels")
    assert vocab.is_padded("tokens")
    assert not vocab.is_padded("labels")


def test_words_that_allennlps_files_cannot_hold_are_unknown():
    odd = ["", " ", "\n", "\r", "a b", "x\u2028y", "x\x85y", "@@NEWLINE@@", "\ud800"]
    assert most_frequent({**dict.fromkeys(odd, 5), "fine": 1, "@@PADDING@@": 1}) == ["@@PADDING@@", "fine"]


def test_the_saved_file_is_a_bilm_tf_vocabulary_and_loads_as_any_vocabulary(corpus, tmp_path):
    vocab = build(data_path=corpus)
    vocab.save_to_files(str(tmp_path / "vocabulary"))
    file = tmp_path / "vocabulary" / "bilm_words.txt"
    assert file.read_text() == "".join(f"{word}\n" for word in CLASSES)
    for loaded in (
        BiLmVocabulary.from_files(tmp_path / "vocabulary"),
        Vocabulary.from_files(tmp_path / "vocabulary"),
        build(vocab_file=str(file)),
    ):
        assert classes(loaded) == CLASSES
        assert not loaded.is_padded("bilm_words")


def test_unusual_words_of_a_corpus_survive_saving(tmp_path):
    words = ["\u200b", "\ufeffx", "é", "日本", "🙂", "@@UNKNOWN@@", "@@PADDING@@", "\x00", "\x1b", '"']
    (tmp_path / "corpus.txt").write_bytes(("start " + " ".join(words)).encode("utf-8"))
    vocab = build(data_path=str(tmp_path / "corpus.txt"))
    assert set(words) < set(classes(vocab))
    vocab.save_to_files(str(tmp_path / "vocabulary"))
    assert classes(Vocabulary.from_files(tmp_path / "vocabulary")) == classes(vocab)


def test_an_archive_loads_with_the_same_classes(corpus, tmp_path):
    @Model.register("vocabulary_test_model", exist_ok=True)
    class NoModel(Model):
        pass

    vocab = build(data_path=corpus)
    vocab.save_to_files(str(tmp_path / "run" / "vocabulary"))
    config = {"vocabulary": {"type": "elmo::bilm", "data_path": "gone.txt"}, "model": {"type": "vocabulary_test_model"}}
    config["dataset_reader"] = {"type": "sequence_tagging"}
    Params(config).to_file(str(tmp_path / "run" / "config.json"))
    torch.save({}, tmp_path / "run" / "best.th")
    archive_model(tmp_path / "run")
    loaded = load_archive(tmp_path / "run" / "model.tar.gz").model.vocab
    assert isinstance(loaded, BiLmVocabulary)
    assert classes(loaded) == CLASSES
    assert WordIds(loaded)(["a", "never seen"]) == [3, 2]


def test_a_bilm_tf_file_keeps_its_order(tmp_path):
    file = tmp_path / "vocab.txt"
    file.write_bytes("</S>\n<S>\n<UNK>\nthe\r\n\xa0\n,\n!!!MAXTERMID\n".encode())
    assert read_vocab_file(str(file)) == ["</S>", "<S>", "<UNK>", "the", "\xa0", ","]
    word_ids = WordIds(build(vocab_file=str(file)))
    assert (word_ids.end_id, word_ids.begin_id, word_ids.unknown_id) == (0, 1, 2)


@pytest.mark.parametrize(
    "text, message",
    [
        ("the\n,\n", r"vocab.txt:1: a bilm-tf vocabulary starts with .* starts with the, ,"),
        ("", "starts with nothing"),
        ("the\n<S>\n</S>\n<UNK>\n", "starts with the, <S>, </S>"),
        ("<S>\n</S>\n<UNK>\na\n\nb\n", "vocab.txt:5: expected one word, got ''"),
        ("<S>\n</S>\n<UNK>\na\nb\na\n", "vocab.txt:6: the word 'a' is already on line 4"),
    ],
)
def test_what_is_no_bilm_tf_file_is_refused_with_file_and_line(tmp_path, text, message):
    (tmp_path / "vocab.txt").write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        build(vocab_file=str(tmp_path / "vocab.txt"))


def test_limits_do_not_go_with_a_vocab_file(tmp_path):
    with pytest.raises(ConfigurationError, match="is used as it is"):
        build(vocab_file=str(tmp_path / "vocab.txt"), max_size=10)


def test_a_reader_that_is_not_ours_is_refused(corpus):
    with pytest.raises(ConfigurationError, match="has to be an elmo::bilm one, got SequenceTaggingDatasetReader"):
        build(data_path=corpus, reader={"type": "sequence_tagging"})
