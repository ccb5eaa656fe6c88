import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, DatasetReader, Vocabulary

from elmo_plugin.tasks.common.fraction import FractionReader
from elmo_plugin.tasks.common.labels import UNKNOWN_TAG_ID
from elmo_plugin.tasks.srl import SrlReader


@pytest.fixture
def train(root):
    return root / "fixtures/data/srl/train"


def predicates(instances):
    metadata = [instance["metadata"] for instance in instances]
    return [each["tokens"][each["predicate_index"]] for each in metadata]


def tensors(reader, instances, vocab):
    for instance in instances:
        reader.apply_token_indexers(instance)
    batch = Batch(instances)
    batch.index_instances(vocab)
    return batch.as_tensor_dict()


def test_there_is_an_instance_for_each_predicate(train):
    instances = list(SrlReader().read(train))
    assert predicates(instances) == ["sold", "says", "bought", "left", "sale", "thinks", "sank", "give"]
    bought = instances[2]
    assert [token.text for token in bought["tokens"].tokens] == "Bo says he bought it yesterday .".split()
    assert bought["tags"].labels == ["O", "O", "B-ARG0", "B-V", "B-ARG1", "B-ARGM-TMP", "O"]
    assert bought["predicate_indicator"].labels == [0, 0, 0, 1, 0, 0, 0]
    assert bought["metadata"]["gold_tags"] == bought["tags"].labels


def test_continuations_and_references_are_kept(train):
    labels = {label for instance in SrlReader().read(train) for label in instance["tags"].labels}
    assert {"B-C-ARG1", "B-R-ARG0", "B-C-V"} < labels


def test_one_word_is_the_predicate_even_if_its_brackets_hold_more(root):
    instances = list(SrlReader().read(root / "fixtures/data/srl/dev.gold_conll"))
    gave_up = instances[2]
    assert gave_up["tags"].labels == ["B-ARG0", "B-V", "I-V", "O"]
    assert gave_up["predicate_indicator"].labels == [0, 1, 0, 0]


def test_nominal_predicates_can_be_left_out(train):
    assert "sale" not in predicates(SrlReader(verbal_predicates_only=True).read(train))
    assert len(list(SrlReader(verbal_predicates_only=True).read(train))) == 7


def test_long_sentences_can_be_left_out(train):
    assert predicates(SrlReader(max_tokens=6).read(train)) == ["sale"]
    assert len(list(SrlReader(max_tokens=8).read(train))) == 8


def test_places_tell_sentences_apart(train):
    places = [instance["metadata"]["place"] for instance in SrlReader().read(train)]
    assert len(set(places)) == 6
    assert places[1] == places[2] and places[1].endswith("mill_01.gold_conll:10")


def test_a_tag_that_training_never_saw_is_marked_as_unknown():
    reader = SrlReader()
    known = reader.text_to_instance(["Ada", "left"], 1, ["B-ARG0", "B-V"])
    reader.apply_token_indexers(known)
    vocab = Vocabulary.from_instances([known])
    new = reader.text_to_instance(["Ada", "left"], 1, ["B-ARGM-COM", "B-V"])
    tags = tensors(reader, [known, new], vocab)["tags"]
    assert (tags == UNKNOWN_TAG_ID).tolist() == [[False, False], [True, False]]
    assert tags[0].tolist() == [vocab.get_token_index(tag, "labels") for tag in ("B-ARG0", "B-V")]


def test_tensors_are_padded():
    reader = SrlReader()
    instances = [reader.text_to_instance(["Ada", "left"], 1), reader.text_to_instance(["Go"], 0)]
    batch = tensors(reader, instances, Vocabulary())
    assert batch["predicate_indicator"].tolist() == [[0, 1], [1, 0]]
    assert "tags" not in batch


@pytest.mark.parametrize("index", [-1, 2])
def test_a_predicate_outside_of_the_sentence_is_refused(index):
    with pytest.raises(ValueError, match=f"there is no word {index} among the 2 of 'Ada left'"):
        SrlReader().text_to_instance(["Ada", "left"], index)


def test_an_impossible_length_is_refused():
    with pytest.raises(ConfigurationError, match="max_tokens must be 1 or more, or null, not 0"):
        SrlReader(max_tokens=0)


def test_fractions_are_nested(train):
    places = [
        {(place["place"], place["predicate_index"]) for place in (each["metadata"] for each in reader.read(train))}
        for reader in (FractionReader(SrlReader(), fraction) for fraction in (0.3, 0.7))
    ]
    assert places[0] < places[1]


def test_it_is_built_from_a_config():
    params = {"type": "elmo::srl", "predicate_finder": {"type": "spacy", "model": "any"}, "max_tokens": 100}
    assert isinstance(DatasetReader.from_params(Params(params)), SrlReader)
