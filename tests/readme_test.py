"""What README.md shows has to work as it stands there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def test_vectors_from_python_have_the_shapes_it_says(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    names = {}
    exec(blocks("python")[0], names)
    assert names["vectors"].shape == (3, 5, 256) and names["vectors"].dtype == "float32"
    assert capsys.readouterr().out == "(3, 2, 256)\n(3, 1, 256)\n"


def test_the_spacy_example_gives_a_vector_a_token(capsys):
    exec(blocks("python")[1], {})
    assert capsys.readouterr().out == "(256,) (6, 256)\n"


def test_the_scikit_learn_example_gives_a_classifier():
    names = {}
    exec(blocks("python")[2], names)
    assert set(names["classifier"].predict(["what a film"])) <= {0, 1}


def test_the_jsonnet_example_is_what_the_config_does():
    (example,) = blocks("jsonnet")
    config = (ROOT / "training_configs/examples/simple_tagger_elmo.jsonnet").read_text(encoding="utf-8")
    for line in ("token_indexers+: { elmo: { type: 'elmo::characters' } }", "type: 'elmo::token_embedder'"):
        assert line in example and line in config


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(((?!http)[^)]+)\)", README))))
def test_every_link_leads_somewhere(path):
    assert (ROOT / path).exists()


def test_every_config_in_a_command_exists():
    configs = re.findall(r"\b(training_configs/\S+\.jsonnet)", "\n".join(blocks("bash")))
    assert configs and all((ROOT / config).is_file() for config in configs)


def test_every_variable_is_in_the_table():
    from elmo_plugin.settings import SETTINGS

    assert set(re.findall(r"\bELMO_[A-Z_]+\b", README)) <= set(SETTINGS)


def test_every_target_is_in_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("bash")), flags=re.M):
        assert re.search(rf"^{target}:", makefile, flags=re.M)
