import json
import logging
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError

from elmo_plugin import settings
from elmo_plugin.settings import HELP_VARIABLE, SETTINGS, Setting, value_of, with_defaults

LIBRARY = Path(__file__).parent.parent / "training_configs" / "lib" / "settings.libsonnet"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """None of the variables is set, whatever the tests are run with, and no name has been warned of."""
    for name in list(os.environ):
        if name.startswith(settings.PREFIX):
            monkeypatch.delenv(name)
    settings._warn_if_misspelt.cache_clear()


def evaluated(expression: str, tmp_path: Path) -> Any:
    """The value of an expression in a config that is read as AllenNLP reads it."""
    config = tmp_path / "config.jsonnet"
    config.write_text(f"local settings = import '{LIBRARY}';\n{{ value: {expression} }}")
    return Params.from_file(config).params["value"]


def test_absent_variables_get_their_defaults_and_set_ones_stay():
    values = with_defaults({"ELMO_NER_TRAIN": "mine.txt", "ELMO_SNLI_DEV": "", "HOME": "/"})
    assert values["ELMO_SEED"] == "13370"
    assert values["ELMO_NER_TRAIN"] == "mine.txt"
    assert values["ELMO_SNLI_DEV"] == ""
    assert set(values) == set(SETTINGS) | {HELP_VARIABLE}


def test_one_value_is_the_environments_or_the_default(monkeypatch):
    assert value_of("ELMO_SEED") == "13370"
    monkeypatch.setenv("ELMO_SEED", "7")
    assert value_of("ELMO_SEED") == "7"


def test_each_task_of_the_paper_has_its_data_files():
    for task in ("NER", "SST", "SNLI", "SRL", "COREF", "SQUAD", "BILM"):
        assert SETTINGS[f"ELMO_{task}_TRAIN"].default == SETTINGS[f"ELMO_{task}_DEV"].default == ""


def test_names_have_the_prefix_and_help_completes_a_sentence():
    for name, setting in SETTINGS.items():
        assert name == setting.name and name.startswith(settings.PREFIX)
        assert setting.help and not setting.help.endswith(".")


def test_importing_the_plugin_and_reading_a_config_leave_the_environment_alone(tmp_path):
    (tmp_path / "config.jsonnet").write_text("{ seed: std.extVar('ELMO_SEED') }")
    program = (
        "import os; import elmo_plugin.plugin; from allennlp.common import Params\n"
        "print(Params.from_file('config.jsonnet')['seed'], [name for name in os.environ if name.startswith('ELMO_')])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout == "13370 []\n"


@pytest.mark.parametrize("name, nearest", [("ELMO_NER_TRIAN", "ELMO_NER_TRAIN"), ("ELMO_BILMS", "ELMO_BILM")])
def test_a_misspelt_name_is_warned_of_once_with_the_nearest_one(name, nearest, caplog):
    with_defaults({name: "x"})
    with_defaults({name: "x"})
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"{name} has no effect. Is {nearest} meant?" in caplog.text


def test_known_names_and_names_unlike_any_are_not_warned_of(caplog):
    with_defaults({"ELMO_SEED": "1", "ELMO_STREET_PUPPET_COLOUR": "red", "NER_TRAIN": "x", HELP_VARIABLE: "{}"})
    assert caplog.records == []


def test_a_worker_does_not_repeat_the_warning(caplog, monkeypatch):
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    with_defaults({"ELMO_NER_TRIAN": "x"})
    assert caplog.records == []


@pytest.mark.parametrize("name", ["ELMO_OPTIONS_FILE", "ELMO_WEIGHT_FILE", "ELMO_BILM_ARCHIVE"])
def test_a_variable_that_was_replaced_is_refused_with_the_way_over(name):
    with pytest.raises(ConfigurationError, match=rf"{name} \(mine\) is no longer read: .* set ELMO_BILM to"):
        with_defaults({name: "mine"})
    with_defaults({name: ""})  # as an older version of the plugin leaves it in the environment


def test_a_value_that_is_not_utf_8_is_refused_by_name():
    with pytest.raises(ConfigurationError, match="ELMO_NER_TRAIN isn't valid UTF-8"):
        with_defaults({"ELMO_NER_TRAIN": os.fsdecode(b"caf\xe9.txt")})


@pytest.mark.parametrize(
    "expression, value, expected",
    [
        ("settings.string('ELMO_NER_TRAIN')", "a.txt", "a.txt"),
        ("settings.string('ELMO_NER_TRAIN')", None, ""),
        ("settings.required('ELMO_NER_TRAIN')", "a.txt", "a.txt"),
        ("settings.optional('ELMO_NER_TRAIN', 'other')", "a.txt", "a.txt"),
        ("settings.optional('ELMO_NER_TRAIN', null)", None, None),
        ("settings.number('ELMO_SEED')", None, 13370),
        ("settings.number('ELMO_CUDA_DEVICE', null)", None, None),
        ("settings.number('ELMO_CUDA_DEVICE', null)", "-1", -1),
        ("settings.number('ELMO_SEED')", "1.5e-3", 0.0015),
        ("settings.bool('ELMO_SEED')", "True", True),
        ("settings.bool('ELMO_SEED')", "0", False),
        ("settings.bool('ELMO_NER_TRAIN', true)", None, True),
    ],
)
def test_a_config_reads_a_variable(expression, value, expected, tmp_path, monkeypatch):
    if value is not None:
        monkeypatch.setenv(expression.split("'")[1], value)
    result = evaluated(expression, tmp_path)
    assert result == expected and type(result) is type(expected)


@pytest.mark.parametrize(
    "expression, value, message",
    [
        (
            "settings.required('ELMO_NER_TRAIN')",
            "",
            r"Set ELMO_NER_TRAIN to the CoNLL-2003 training file \(eng\.train\)\.",
        ),
        ("settings.number('ELMO_NER_TRAIN')", "", "Set ELMO_NER_TRAIN to the CoNLL-2003"),
        ("settings.bool('ELMO_NER_TRAIN')", "", "Set ELMO_NER_TRAIN to the CoNLL-2003"),
        ("settings.number('ELMO_NER_TRAIN')", "a.txt", "ELMO_NER_TRAIN is 'a.txt', but must be a number"),
        ("settings.number('ELMO_NER_TRAIN')", "e", "ELMO_NER_TRAIN is 'e', but must be a number"),
        ("settings.bool('ELMO_NER_TRAIN')", "maybe", "ELMO_NER_TRAIN is 'maybe', but must be true or false"),
        ("settings.string('ELMO_NOT_IN_THE_TABLE')", "", "undefined external variable: ELMO_NOT_IN_THE_TABLE"),
    ],
)
def test_a_config_says_what_is_wrong_with_a_variable(expression, value, message, tmp_path, monkeypatch):
    if "NOT_IN" not in expression:
        monkeypatch.setenv("ELMO_NER_TRAIN", value)
    with pytest.raises(RuntimeError, match=message):
        evaluated(expression, tmp_path)


def test_help_reaches_the_library_whatever_characters_it_holds(monkeypatch, tmp_path):
    monkeypatch.setitem(SETTINGS, "ELMO_QUOTES", Setting("ELMO_QUOTES", "", "a 'quoted' \"value\", 100%"))
    with pytest.raises(RuntimeError, match="Set ELMO_QUOTES to a 'quoted' \"value\", 100%"):
        evaluated("settings.required('ELMO_QUOTES')", tmp_path)


@pytest.mark.filterwarnings("error")
def test_the_table_is_printed_with_values_and_defaults(monkeypatch, capsys):
    monkeypatch.setenv("ELMO_SEED", "7")
    runpy.run_module("elmo_plugin.settings", run_name="__main__")  # what "python -m elmo_plugin.settings" does
    printed = capsys.readouterr().out
    assert "ELMO_SEED = '7' (default '13370')" in printed
    for setting in SETTINGS.values():
        assert setting.name in printed and setting.help in printed


def test_the_help_variable_is_json_of_the_table():
    assert json.loads(with_defaults({})[HELP_VARIABLE])["ELMO_SQUAD_DEV"] == SETTINGS["ELMO_SQUAD_DEV"].help
