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
        (changed("lstm", n_layers=0), "num_layers must be at least 1"),
        ([], "isn't a biLM's options.json"),
    ],
)
def test_impossible_options_are_refused(json, message):
    with pytest.raises(ConfigurationError, match=message):
        BiLmOptions.from_json(json)
