"""An index of vectors that is killed while it is built, again and again, and has to end like one that wasn't.

    python tests/helpers/killing.py --kills 12 --seed 1

Each kill is SIGKILL at a random moment; the next process goes on with what it finds.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict

import torch

from elmo_plugin import ElmoEmbedder
from elmo_plugin.analysis import token_store

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def build(folder: Path, num_sentences: int) -> None:
    sentences = ([f"word{number % 97}", "of", f"sentence{number}", "."] for number in range(num_sentences))
    token_store._SENTENCES_PER_COMMIT = 64
    token_store.build(folder, ElmoEmbedder(str(FIXTURES / "bilm")), sentences, f"{num_sentences} sentences")


def start(folder: Path, num_sentences: int) -> int:
    """A process of its own that builds. Returns its id."""
    process_id = os.fork()
    if process_id == 0:
        sys.stderr = open(os.devnull, "w")  # its progress bars
        build(folder, num_sentences)
        os._exit(0)
    return process_id


def contents(folder: Path) -> Dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".lock"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=12, metavar="N")
    parser.add_argument("--sentences", type=int, default=20_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    source = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as temporary:
        whole, killed = Path(temporary, "whole"), Path(temporary, "killed")
        started = time.monotonic()
        os.waitpid(start(whole, arguments.sentences), 0)
        seconds = time.monotonic() - started
        num_kills = 0
        while not (killed / token_store.STORE).exists():
            process_id = start(killed, arguments.sentences)
            if num_kills < arguments.kills:
                time.sleep(source.uniform(0, 2 * seconds / arguments.kills))
                os.kill(process_id, signal.SIGKILL)
            _, status = os.waitpid(process_id, 0)
            num_kills += os.WIFSIGNALED(status)
        ended, expected = contents(killed), contents(whole)
    others = sorted(name for name in ended.keys() | expected.keys() if ended.get(name) != expected.get(name))
    print(
        f"{num_kills} kills; " + (f"these files differ: {others}" if others else "the index is the same, byte for byte")
    )
    return bool(others)


if __name__ == "__main__":
    sys.exit(main())
