import copy
import pickle

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.dataset_readers.dataset_reader import DistributedInfo
from allennlp.data.fields import LabelField, ListField, TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer

from elmo_plugin.characters import CharacterMapping
from elmo_plugin.training.reader import BiLmReader
from elmo_plugin.training.vocabulary import BiLmVocabulary


def text_field(text):
    return TextField([Token(word) for word in text.split()], {"tokens": SingleIdTokenIndexer()})


@DatasetReader.register("reader_test_task", exist_ok=True)
class TaskReader(DatasetReader):
    """Reads `passage sentence | passage sentence = question` lines."""

    def __init__(self, shard: bool = False, **kwargs):
        super().__init__(manual_distributed_sharding=shard, manual_multiprocess_sharding=shard, **kwargs)
        self._shard = shard

    def _read(self, file_path):
        with open(file_path) as file:
            for line in self.shard_iterable(file) if self._shard else file:
                passage, question = line.split("=")
                fields = {"passage": ListField([text_field(sentence) for sentence in passage.split("|")])}
                yield Instance({**fields, "question": text_field(question), "label": LabelField("yes")})


TASK = "a b | c = who ?\na b | c = when ?\nd | = when ?\na b | c = why ?\n"


@pytest.fixture
def task_file(tmp_path):
    (tmp_path / "task.txt").write_text(TASK)
    return str(tmp_path / "task.txt")


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.txt").write_text("a b a\nc\na c b a b\n")
    return str(tmp_path / "corpus.txt")


def joined(sentences):
    return [" ".join(words) for words in sentences]


def test_an_instance_has_characters_and_classes_without_boundaries(corpus):
    reader = DatasetReader.from_params(Params({"type": "elmo::bilm"}))
    vocab = BiLmVocabulary.from_corpus(corpus, min_count=2)  # classes <S> </S> <UNK> a b c
    instance = next(iter(reader.read(corpus)))
    instance.index_fields(vocab)
    tensors = instance.as_tensor_dict()
    mapping = CharacterMapping()
    assert tensors["target_ids"].tolist() == [3, 4, 3]
    assert tensors["tokens"]["elmo"]["elmo_tokens"].tolist() == [list(mapping.ids(word)) for word in "aba"]


def test_allennlps_loader_pads_classes_along_with_tokens(corpus):
    loader = MultiProcessDataLoader(BiLmReader(), corpus, batch_size=3, quiet=True)
    loader.index_with(BiLmVocabulary.from_corpus(corpus, max_size=5))
    (batch,) = loader
    assert batch["tokens"]["elmo"]["elmo_tokens"].shape == (3, 5, 50)
    assert batch["target_ids"].tolist() == [[3, 4, 3, 0, 0], [2, 0, 0, 0, 0], [3, 2, 4, 3, 4]]
    assert batch["target_ids"].dtype == torch.long


def test_text_to_instance_takes_words_and_tokens_and_never_splits():
    reader = BiLmReader(max_sentence_length=1)
    for tokens in (["a", "b"], [Token("a"), Token("b")]):
        instance = reader.text_to_instance(tokens)
        assert [token.text for token in instance["tokens"].tokens] == ["a", "b"]
        assert instance["target_ids"].words == ["a", "b"]


def test_long_sentences_are_read_as_several_instances(corpus):
    instances = list(BiLmReader(max_sentence_length=2).read(corpus))
    assert joined(instance["target_ids"].words for instance in instances) == ["a b", "a", "c", "a c", "b a", "b"]


def test_the_width_of_the_characters_is_configurable():
    config = {
        "type": "elmo::bilm",
        "token_indexers": {"elmo": {"type": "elmo::characters", "max_characters_per_token": 7}},
    }
    assert DatasetReader.from_params(Params(config)).character_mapping == CharacterMapping(7)


@pytest.mark.parametrize("key, kind", [("elmo", "single_id"), ("other", "elmo::characters")])
def test_indexers_without_elmo_characters_are_refused(key, kind):
    config = {"type": "elmo::bilm", "token_indexers": {key: {"type": kind}}}
    with pytest.raises(ConfigurationError, match='needs an entry "elmo" of type elmo::characters'):
        DatasetReader.from_params(Params(config))


def test_an_ordinary_vocabulary_is_refused_with_the_remedy(corpus):
    instance = BiLmReader().text_to_instance(["a"])
    with pytest.raises(ConfigurationError, match="vocabulary.*elmo::bilm"):
        instance["target_ids"].index(Vocabulary.empty())


def test_the_text_of_a_task_is_that_of_all_text_fields_without_repetition(task_file):
    reader = DatasetReader.from_params(Params({"type": "elmo::bilm", "task_reader": {"type": "reader_test_task"}}))
    assert joined(reader.sentences(task_file)) == ["a b", "c", "who ?", "when ?", "d", "a b", "c", "why ?"]
    assert [len(instance["target_ids"].words) for instance in reader.read(task_file)] == [2, 1, 2, 2, 1, 2, 1, 2]


def test_repetition_can_be_kept(task_file):
    reader = BiLmReader(task_reader=TaskReader(), fields=["question"], skip_repeated=False)
    assert joined(reader.sentences(task_file)) == ["who ?", "when ?", "when ?", "why ?"]


def test_fields_choose_the_text_of_a_task(task_file):
    assert joined(BiLmReader(task_reader=TaskReader(), fields=["question"]).sentences(task_file)) == [
        "who ?",
        "when ?",
        "why ?",
    ]


@pytest.mark.parametrize("name", ["label", "premise"])
def test_a_field_that_is_no_text_is_refused_and_those_that_are_get_named(task_file, name):
    reader = BiLmReader(task_reader=TaskReader(), fields=["question", name])
    with pytest.raises(
        ConfigurationError, match=rf"no text field {name}; their text fields are \['passage', 'question'\]"
    ):
        list(reader.sentences(task_file))


def test_fields_without_a_task_reader_are_refused():
    with pytest.raises(ConfigurationError, match="no task_reader is given"):
        BiLmReader(fields=["question"])


def test_a_task_without_instances_is_refused(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ConfigurationError, match="empty.txt: it has no sentences"):
        list(BiLmReader(task_reader=TaskReader()).sentences(str(tmp_path / "empty.txt")))


def test_a_vocabulary_can_be_built_of_a_tasks_text(task_file):
    reader = {"type": "elmo::bilm", "task_reader": {"type": "reader_test_task"}}
    vocab = Vocabulary.from_params(Params({"type": "elmo::bilm", "data_path": task_file, "reader": reader}))
    assert vocab.get_vocab_size("bilm_words") == 3 + len("a b c d who when why ?".split())


@pytest.mark.parametrize("shard", [False, True])
def test_a_tasks_reader_leaves_the_dealing_out_to_ranks_to_us(task_file, monkeypatch, shard):
    monkeypatch.setattr("allennlp.common.util.is_distributed", lambda: True)
    monkeypatch.setattr("torch.distributed.get_rank", lambda: 1)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 2)
    task_reader = TaskReader(shard)
    assert task_reader.get_distributed_info() == DistributedInfo(2, 1)
    source = BiLmReader(task_reader=task_reader).sentence_source(task_file)
    assert joined(source.sentences(rank=1, world_size=2)) == ["c", "when ?", "a b", "why ?"]
    assert len(list(source.lengths())) == 8


def test_a_field_can_be_copied_compared_and_emptied(corpus):
    field = BiLmReader().text_to_instance(["a", "b"])["target_ids"]
    field.index(BiLmVocabulary.from_corpus(corpus))
    assert copy.deepcopy(field) == field
    assert len(field) == 2
    assert field.empty_field().as_tensor({"num_words": 2}).tolist() == [0, 0]


def test_a_reader_can_be_sent_to_another_process(task_file):
    reader = BiLmReader(task_reader=TaskReader())
    list(reader.sentences(task_file))
    assert joined(pickle.loads(pickle.dumps(reader)).sentences(task_file)) == joined(reader.sentences(task_file))
