"""The two analyses of RESULTS.md that need the biLM alone: word senses (Table 5) and parts of speech (Table 6)."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence

from elmo_plugin.analysis.cells import experiment_hash
from elmo_plugin.analysis.runs import RunFailed, Runs
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
    """The files that a finished analysis left. Of a recorded one there is the table alone."""

    table: Path
    plot: Optional[Path] = None


def find(name: str, data: Path, runs: Runs) -> Optional[Outcome]:
    """What a finished analysis left; None if it isn't done for this biLM and data."""
    own = _folder(name, data, runs.folder)
    table, plot = own / f"{name}.txt", own / f"{name}.png"
    if table.exists() and plot.exists():
        return Outcome(table, plot)
    record = _record(name, data, runs)
    return Outcome(record) if record is not None and record.exists() else None


def run(name: str, data: Path, runs: Runs) -> None:
    """Runs an analysis unless that is done. Its table and progress go where ours go."""
    if find(name, data, runs) is None:
        folder = _folder(name, data, runs.folder)
        command = [sys.executable, "-m", "allennlp", "elmo-analyze", name, *_arguments(name, data)]
        exit_code = subprocess.run([*command, "--output", str(folder)], check=False).returncode
        if exit_code != 0:
            raise RunFailed(f"{' '.join(command)} ended with {exit_code}")
        record = _record(name, data, runs)
        if record is not None:
            record.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / f"{name}.txt", record)


def _record(name: str, data: Path, runs: Runs) -> Optional[Path]:
    """Where the table is kept beside the records of trainings."""
    return None if runs.records is None else runs.records / f"{_folder(name, data, runs.folder).name}.txt"


def _folder(name: str, data: Path, folder: Path) -> Path:
    return folder / f"{name}-{experiment_hash({'analysis': name, 'arguments': _arguments(name, data)})}"


def _arguments(name: str, data: Path) -> List[str]:
    files = PROBES[name].files
    arguments = [part for flag, names in files.items() for part in (flag, *(str(data / file) for file in names))]
    return [*arguments, "--bilm", value_of("ELMO_BILM")]
