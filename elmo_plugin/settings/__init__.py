"""The environment variables that training configs read, in one table.

AllenNLP hands the environment to jsonnet, where `std.extVar` has no default and its failure can't be caught. So where a
config is read, `elmo_plugin.compat` also passes on the default of each absent variable; the environment itself doesn't
change. Configs read the variables with `training_configs/lib/settings.libsonnet`. An empty value means that the
variable isn't set; its help says what happens then.

    python -m elmo_plugin.settings

prints the table. To add a variable, add a `Setting` to `_TABLE`.
"""

import difflib
import functools
import json
import logging
import multiprocessing
import os
from typing import Dict, List, Mapping, NamedTuple

from elmo_plugin.errors import ConfigurationError

logger = logging.getLogger(__name__)

PREFIX = "ELMO_"

# What each variable is for, as JSON, so that an error raised in jsonnet can say so. `with_defaults` passes it to the
# library; it isn't a setting.
HELP_VARIABLE = "ELMO_SETTINGS_HELP"


class Setting(NamedTuple):
    """An environment variable. `help` completes the sentence "Set <name> to ..."."""

    name: str
    default: str
    help: str


def _data(task: str, train: str, dev: str) -> List[Setting]:
    """The two data files of a task. There is no default: no corpus ships with the plugin."""
    return [Setting(f"ELMO_{task}_TRAIN", "", train), Setting(f"ELMO_{task}_DEV", "", dev)]


_TABLE: List[Setting] = [
    Setting(
        "ELMO_BILM",
        "wiki-base",
        "a biLM: a name such as original, a folder with options.json and weights.hdf5, a model.tar.gz, or a URL",
    ),
    Setting("ELMO_FINETUNED_ARCHIVE", "", "the model.tar.gz of a biLM tuned on the task's text"),
    Setting("ELMO_CUDA_DEVICE", "", "the GPU's number, or -1 for the CPU; empty: GPU 0 if there is one, else the CPU"),
    Setting("ELMO_KNOBS", "", "an experiment's knobs as JSON, such as {\"batch_size\": 16}; empty: the paper's"),
    Setting("ELMO_ABLATION", "", "the ablation to train; see training_configs/lib/ablations.libsonnet"),
    Setting("ELMO_TRUST_ARCHIVES", "", "1 to open archives whose config names files or classes outside them"),
    Setting("ELMO_SEED", "13370", "the random seed of a run; the paper's means over seeds need several"),
    Setting("ELMO_WORD_VECTORS", "", "word vectors as text, one word per line (a path or URL); empty: random, trained"),
    Setting(
        "ELMO_WORD_VECTORS_DIM", "", "the width of the vectors in ELMO_WORD_VECTORS; empty: the task's in the paper"
    ),
    Setting("ELMO_TURIAN_VECTORS", "", "Turian et al.'s 50-d vectors, which coreference uses in addition; empty: none"),
    Setting("ELMO_COVE_FILE", "", "CoVe's weights, wmtlstm-8f474287.pth, for experiments with CoVe instead of ELMo"),
    *_data("NER", "the CoNLL-2003 training file (eng.train)", "the CoNLL-2003 development file (eng.testa)"),
    *_data("SST", "the SST training trees (train.txt)", "the SST development trees (dev.txt)"),
    *_data("SNLI", "snli_1.0_train.jsonl", "snli_1.0_dev.jsonl"),
    *_data("SRL", "the folder of OntoNotes 5.0 training files", "the folder of OntoNotes 5.0 development files"),
    *_data("COREF", "the CoNLL-2012 training file (*_gold_conll)", "the CoNLL-2012 development file (*_gold_conll)"),
    *_data("SQUAD", "train-v1.1.json", "dev-v1.1.json"),
    *_data("BILM", "the training text: a file or a glob, one sentence per line", "the held-out text: a file or a glob"),
    Setting("ELMO_BILM_VOCAB", "", "the softmax vocabulary, one word per line, most frequent first"),
    Setting("ELMO_FINETUNE_TASK", "", "the task whose text the biLM is tuned on, such as snli; empty: ELMO_BILM_TRAIN"),
    Setting("ELMO_TRAIN_FRACTION", "1", "the fraction of the training set to train on, above 0 and up to 1"),
    Setting("ELMO_ENSEMBLE_OF", "", "the experiment that the ensemble's members are runs of, such as snli/elmo"),
    Setting("ELMO_ENSEMBLE_ARCHIVES", "", "the members' model.tar.gz files, separated by commas"),
]

SETTINGS: Dict[str, Setting] = {setting.name: setting for setting in _TABLE}


REPLACED: Dict[str, str] = {
    "ELMO_OPTIONS_FILE": "set ELMO_BILM to the folder that holds options.json and weights.hdf5",
    "ELMO_WEIGHT_FILE": "set ELMO_BILM to the folder that holds options.json and weights.hdf5",
    "ELMO_BILM_ARCHIVE": "set ELMO_BILM to the archive",
}
"""Variables of earlier versions, and what to do instead."""


def value_of(name: str) -> str:
    """What configs read for a variable: its value in the environment, or its default."""
    return os.environ.get(name, SETTINGS[name].default)


def with_defaults(environment: Mapping[str, str]) -> Dict[str, str]:
    """The variables of the table, with defaults for absent ones. Warns about names that look misspelt."""
    for name, remedy in REPLACED.items():
        if environment.get(name):
            raise ConfigurationError(f"{name} ({environment[name]}) is no longer read: unset it, and {remedy}.")
    values = {name: environment.get(name, setting.default) for name, setting in SETTINGS.items()}
    for name, value in values.items():
        _check_decoded(name, value)
    if multiprocessing.parent_process() is None:  # a worker would only repeat it
        for name in sorted(environment):
            _warn_if_misspelt(name)
    return {**values, HELP_VARIABLE: json.dumps({name: setting.help for name, setting in SETTINGS.items()})}


def _check_decoded(name: str, value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"The environment variable {name} isn't valid UTF-8: {value!r}. jsonnet can't read it. Give it another "
            "value, for example a link to the file under a plain name."
        ) from error


@functools.cache  # once in a process
def _warn_if_misspelt(name: str) -> None:
    if name.startswith(PREFIX) and name not in SETTINGS:
        for nearest in difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.8):
            logger.warning("The environment variable %s has no effect. Is %s meant?", name, nearest)


def as_table(environment: Mapping[str, str] = os.environ) -> str:
    """The table as text: name, current value, default and help of each variable."""
    lines = []
    for setting in SETTINGS.values():
        value = environment.get(setting.name, setting.default)
        lines.append(f"{setting.name} = {value!r} (default {setting.default!r})")
        lines.append(f"    {setting.help}")
    return "\n".join(lines)
