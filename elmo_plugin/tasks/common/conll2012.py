"""Where the files of CoNLL-2012 and OntoNotes are, for the tasks that read them."""

from pathlib import Path
from typing import List

from allennlp.common.checks import ConfigurationError

SUFFIXES = ("gold_conll", "gold_conll.gz")


def find_files(path: str) -> List[str]:
    """A file is itself; a folder is all `*gold_conll` files in it and below it, gzipped or not, in order; a URL is
    itself.
    """
    if "://" in path or Path(path).is_file():
        return [path]
    if not Path(path).is_dir():
        raise ConfigurationError(f"there is no file or folder {path}")
    files = sorted(file for file in Path(path).rglob("*") if file.is_file() and file.name.endswith(SUFFIXES))
    if not files:
        raise ConfigurationError(f"the folder {path} holds no file whose name ends with {' or '.join(SUFFIXES)}")
    return [str(file) for file in files]
