import gzip

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis import wsd_data

SENTENCE = '<sentence id="s1"><wf>The</wf><instance id="t1" lemma="Play" pos="NOUN">{}</instance></sentence>'


@pytest.fixture
def data(root):
    return root / "fixtures" / "data" / "wsd"


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_target_of_several_words_is_so_many_tokens(data):
    *_, sentence, _ = wsd_data.read_sentences(str(data / "train.data.xml"))
    assert sentence.tokens[:6] == ["The", "fair", "took", "place", "by", "the"]
    assert sentence.targets[0] == wsd_data.Target("d001.s000.t000", ("take_place", "VERB"), 2, 4)
    assert "&" in sentence.tokens


def test_words_of_an_unmarked_element_are_tokens_too(data):
    sentence = list(wsd_data.read_sentences(str(data / "train.data.xml")))[2]
    assert sentence == wsd_data.SenseSentence(["Nothing", "else", "was", "said", "."], [])


def test_lemmas_are_looked_up_in_lower_case(tmp_path):
    path = write(tmp_path / "a.data.xml", f"<corpus>{SENTENCE.format('play')}</corpus>")
    (sentence,) = wsd_data.read_sentences(path)
    assert sentence.targets[0].lemma == ("play", "NOUN")


def test_a_sentence_is_yielded_before_the_rest_is_read(tmp_path):
    path = write(tmp_path / "a.data.xml", f"<corpus>{SENTENCE.format('play')}\n<broken")
    assert next(wsd_data.read_sentences(path)).tokens == ["The", "play"]


def test_sentences_that_have_been_read_are_dropped(tmp_path, monkeypatch):
    path = write(tmp_path / "a.data.xml", f"<corpus>{f'<text>{SENTENCE.format(0)}</text>' * 50}</corpus>")
    seen = []
    original = wsd_data._sentence
    monkeypatch.setattr(wsd_data, "_sentence", lambda element, name: seen.append(element) or original(element, name))
    for _ in wsd_data.read_sentences(path):
        assert all(len(element) == 0 for element in seen[:-1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"<corpus>\n{SENTENCE.format('play')}\n</text>", r"a.data.xml:3: this isn't well-formed XML"),
        ("", r"a.data.xml:1: this isn't well-formed XML"),
        ("<corpus></corpus>", r"a.data.xml: there is no <sentence>"),
        (
            f"<corpus>{SENTENCE.format('')}</corpus>",
            r"sentence 's1' has an <instance> that lacks its id, lemma, pos or text",
        ),
        (f"<corpus>{SENTENCE.format('play').replace('pos=', 'x=')}</corpus>", r"lacks its id, lemma, pos or text"),
    ],
)
def test_what_is_wrong_in_a_data_file_is_named(tmp_path, text, message):
    path = write(tmp_path / "a.data.xml", text)
    with pytest.raises(ConfigurationError, match=message):
        list(wsd_data.read_sentences(path))


def test_a_folder_and_an_encoding_that_cant_be_read_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match="is a folder; expected a file called NAME.data.xml"):
        list(wsd_data.read_sentences(str(tmp_path)))
    path = write(tmp_path / "a.data.xml", '<?xml version="1.0" encoding="shift_jis"?><corpus></corpus>')
    with pytest.raises(ConfigurationError, match="a.data.xml:1: .*encoding"):
        list(wsd_data.read_sentences(path))


def test_gzipped_data_that_is_cut_off_is_named(tmp_path, data):
    whole = gzip.compress((data / "train.data.xml").read_bytes())
    (tmp_path / "a.data.xml.gz").write_bytes(whole)
    assert len(list(wsd_data.read_sentences(str(tmp_path / "a.data.xml.gz")))) == 5
    (tmp_path / "a.data.xml.gz").write_bytes(whole[:-200])
    with pytest.raises(ConfigurationError, match="a.data.xml.gz: the gzip data is cut off"):
        list(wsd_data.read_sentences(str(tmp_path / "a.data.xml.gz")))


def test_keys_stand_beside_the_data_plain_or_gzipped(tmp_path):
    data_path = str(tmp_path / "set.data.xml")
    with pytest.raises(ConfigurationError, match=r"set.gold.key.txt or .*set.gold.key.txt.gz; not found"):
        wsd_data.keys_path(data_path)
    (tmp_path / "set.gold.key.txt.gz").touch()
    assert wsd_data.keys_path(data_path) == str(tmp_path / "set.gold.key.txt.gz")
    assert wsd_data.data_name(data_path) == "set"
    with pytest.raises(ConfigurationError, match=r"expected a file called NAME.data.xml"):
        wsd_data.keys_path("set.xml")


def test_an_instance_may_have_several_keys(tmp_path):
    path = write(tmp_path / "keys", "a play%1:10:01:: play%1:10:00::\n\nb steep%5:00:00:immoderate:00\n")
    assert wsd_data.read_keys(path) == {
        "a": ["play%1:10:01::", "play%1:10:00::"],
        "b": ["steep%5:00:00:immoderate:00"],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a play%1:10:01::\nb\n", r"keys:2: there is no sense key"),
        ("a play%1:10:01::\n\nb play\n", r"keys:3: 'play' isn't a sense key"),
        ("a play%1:10:01::\na play%1:10:01::\n", r"keys:2: the instance 'a' is already on an earlier line"),
        ("\n", r"keys: this file of sense keys is empty"),
    ],
)
def test_a_bad_line_of_keys_is_named(tmp_path, text, message):
    path = write(tmp_path / "keys", text)
    with pytest.raises(ConfigurationError, match=message):
        wsd_data.read_keys(path)


def test_the_first_sense_goes_by_number_not_by_order(data):
    first = wsd_data.read_first_senses(str(data / "index.sense"))
    assert first["bank", "NOUN"] == "bank%1:17:01::"
    assert first["take", "VERB"] == "take%2:41:04::"
    assert first["be", "VERB"] == "be%2:42:03::"


def test_satellites_are_adjectives(data):
    first = wsd_data.read_first_senses(str(data))
    assert first["steep", "ADJ"] == "steep%5:00:00:immoderate:00"
    assert first["steep", "VERB"] == "steep%2:30:00::"


def test_a_bad_index_of_senses_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="neither index.sense nor index.sense.gz"):
        wsd_data.read_first_senses(str(tmp_path))
    path = write(tmp_path / "index.sense", "bank%1:17:01:: 09213565 1 25\nbank n 10 5\n")
    with pytest.raises(ConfigurationError, match=r"index.sense:2: 'bank n 10 5' isn't a line of index.sense"):
        wsd_data.read_first_senses(path)


def test_data_and_keys_must_name_the_same_instances():
    wsd_data.check_same_instances({"a"}, "data", {"a": []}, "keys")
    with pytest.raises(ConfigurationError, match=r"keys: 1 of the instances in data are missing here, 'b'"):
        wsd_data.check_same_instances({"a", "b"}, "data", {"a": []}, "keys")
    with pytest.raises(ConfigurationError, match=r"data: 1 of the instances in keys are missing here, 'c'"):
        wsd_data.check_same_instances({"a"}, "data", {"a": [], "c": []}, "keys")
