import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLmSource, sources
from elmo_plugin.embedding import opening
from elmo_plugin.embedding.opening import open_embedder


def test_a_bilm_is_named_by_its_files(bilm_files):
    assert open_embedder(options_file=bilm_files.options_file, weight_file=bilm_files.weight_file).bilm.num_layers == 3


def test_a_bilm_is_named_by_its_archive(bilm_files, monkeypatch):
    bilm = BiLmSource.from_files(*bilm_files)
    monkeypatch.setattr(opening.BiLmSource, "from_archive", lambda archive_file: bilm)
    embedder = open_embedder(archive_file="model.tar.gz", stateful=True)
    assert embedder.bilm.stateful and embedder.bilm.options == bilm.options
    for mine, theirs in zip(embedder.bilm.parameters(), bilm.parameters(), strict=True):
        assert (mine == theirs).all()


@pytest.mark.parametrize("name, expected", [(None, opening.SHIPPED), ("original", "original")])
def test_a_bilm_is_named_by_its_name_or_is_the_one_that_ships(bilm_files, monkeypatch, name, expected):
    asked = []
    monkeypatch.setattr(sources, "pretrained_files", lambda name: asked.append(name) or bilm_files)
    open_embedder(name)
    assert asked == [expected]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"options_file": "o.json"}, "options file .* needs its weight file"),
        ({"weight_file": "w.hdf5"}, "weight file .* needs its options file"),
        ({"options_file": "o", "weight_file": "w", "archive_file": "a"}, "o and a name two biLMs"),
        ({"bilm": "original", "archive_file": "a"}, "original and a name two biLMs"),
        ({"bilm": "unheard-of"}, "no pretrained biLM 'unheard-of'"),
    ],
)
def test_two_bilms_or_half_a_one_are_refused(arguments, message):
    with pytest.raises(ConfigurationError, match=message):
        open_embedder(**arguments)
