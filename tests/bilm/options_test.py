import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLmOptions


def test_the_defaults_are_the_papers_sizes():
    options = BiLmOptions()
    assert (options.cell_dim, options.projection_dim, options.num_layers, options.num_filters) == (4096, 512, 2, 2048)


def test_json_and_back_is_the_same():
    options = BiLmOptions(
        projection_dim=8,
        cell_dim=8,
        filters=((2, 3), (4, 5)),
        activation="tanh",
        cell_clip=None,
        use_skip_connections=False,
    )
    assert BiLmOptions.from_json(options.to_json()) == options


def test_written_options_count_the_masking_id():
    assert BiLmOptions().to_json()["char_cnn"]["n_characters"] == 262


def test_options_from_training_with_261_characters_are_read_too():
    json = BiLmOptions().to_json()
    json["char_cnn"]["n_characters"] = 261
    assert BiLmOptions.from_json(json) == BiLmOptions()


def changed(section, **values):
    json = BiLmOptions().to_json()
    json[section].update(values)
    return json


@pytest.mark.parametrize(
    "json, message",
    [
        ({"lstm": {}}, "no 'char_cnn'"),
        (changed("char_cnn", n_characters=300), "n_characters is 300"),
        (changed("char_cnn", activation="gelu"), "not 'gelu'"),
        (changed("char_cnn", filters=[[60, 1]]), "width 60"),
        (changed("lstm", dim=256), r"projection_dim 512\) can't be wider"),
        (changed("lstm", n_layers=0), r"o.json: a biLM's num_layers \(lstm.n_layers in .* from 1 to 64, not 0"),
        (changed("lstm", n_layers=10**5), r"lstm.n_layers in options.json\) .* from 1 to 64, not 100000; correct it"),
        (changed("char_cnn", n_highway=10**9), r"char_cnn.n_highway in .* from 0 to 64, not 1000000000"),
        (changed("char_cnn", filters=[[1, 10**5]]), r"char_cnn.filters, added up, .* from 1 to 65536, not 100000"),
        (changed("lstm", dim=1e400), "isn't a biLM's options.json: cannot convert float infinity"),
        (changed("lstm", cell_clip="3"), "cell_clip has to be null or 0, .* not '3'"),
        (changed("lstm", proj_clip=-3), "projection_clip has to be .* not -3"),
        ([], "isn't a biLM's options.json"),
    ],
)
def test_impossible_options_are_refused(json, message):
    with pytest.raises(ConfigurationError, match=message):
        BiLmOptions.from_json(json, name="o.json")
