"""The two analyses of RESULTS.md that need the biLM alone: word senses (Table 5) and parts of speech (Table 6)."""

import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from elmo_plugin.analysis.cells import experiment_hash
from elmo_plugin.analysis.runs import RunFailed
from elmo_plugin.settings import value_of


class Probe(NamedTuple):
    """An analysis by `allennlp elmo-analyze`: its title in the report, a remark, its files below the data folder."""

    title: str
    remark: str
    files: Mapping[str, Sequence[str]]  # by the flag that takes them


PROBES: Dict[str, Probe] = {
    "wsd": Probe(
        "Word senses (Table 5)",
        "Senses are averaged over SemCor, and a test word gets the nearest; no layer is trained.",
        {
            "--train": ["wsd/semcor.data.xml.gz"],
            "--test": [
                f"wsd/{name}/{name}.data.xml" for name in ("senseval2", "senseval3", "semeval2013", "semeval2015")
            ],
            "--wordnet": ["wsd/wordnet/index.sense.gz"],
        },
    ),
    "pos": Probe(
        "Parts of speech (Table 6)",
        "A linear classifier on each frozen layer; UD English EWT, PTB tags, where the paper has the PTB itself.",
        {"--train": ["pos/en_ewt-ud-train.conllu.gz"], "--test": ["pos/en_ewt-ud-dev.conllu.gz"]},
    ),
}


class Outcome(NamedTuple):
    """The files that a finished analysis left."""

    table: Path
    plot: Path


def find(name: str, data: Path, folder: Path) -> Optional[Outcome]:
    """What a finished analysis left; None if it isn't done for this biLM and data."""
    own = _folder(name, data, folder)
    outcome = Outcome(own / f"{name}.txt", own / f"{name}.png")
    return outcome if all(path.exists() for path in outcome) else None


def run(name: str, data: Path, folder: Path) -> None:
    """Runs an analysis unless that is done. Its table and progress go where ours go."""
    if find(name, data, folder) is None:
        command = [sys.executable, "-m", "allennlp", "elmo-analyze", name, *_arguments(name, data)]
        command += ["--output", str(_folder(name, data, folder))]
        exit_code = subprocess.run(command, check=False).returncode
        if exit_code != 0:
            raise RunFailed(f"{' '.join(command)} ended with {exit_code}")


def _folder(name: str, data: Path, folder: Path) -> Path:
    return folder / f"{name}-{experiment_hash({'analysis': name, 'arguments': _arguments(name, data)})}"


def _arguments(name: str, data: Path) -> List[str]:
    files = PROBES[name].files
    arguments = [part for flag, names in files.items() for part in (flag, *(str(data / file) for file in names))]
    return [*arguments, "--bilm", value_of("ELMO_BILM")]
