"""Mean vectors of word senses, and a file that preserves them across an interruption."""

from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Set

import numpy

from elmo_plugin.analysis.wsd_data import Lemma
from elmo_plugin.files import PathOrStr
from elmo_plugin.progress import Record


class SenseAverages:
    """The mean vector, at each layer, of every sense of some lemmas."""

    def __init__(self, senses: Dict[Lemma, Set[str]]) -> None:
        self._keys: List[str] = []
        self._rows: Dict[Lemma, slice] = {}
        for lemma in sorted(senses):
            start = len(self._keys)
            self._keys.extend(sorted(senses[lemma]))
            self._rows[lemma] = slice(start, len(self._keys))
        self._row_of = {
            (lemma, self._keys[row]): row for lemma, rows in self._rows.items() for row in range(rows.start, rows.stop)
        }
        # A sum points in its mean's direction, which is all that a cosine asks for.
        # Shape: (num_layers, num_senses, dim), once the first vector says how many and how wide
        self.sums: Optional[numpy.ndarray] = None

    def __contains__(self, lemma: Lemma) -> bool:
        return lemma in self._rows

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, lemma: Lemma, keys: Iterable[str], vectors: numpy.ndarray) -> None:
        """Counts an occurrence, (num_layers, dim), for each of its senses."""
        if self.sums is None:
            self.sums = numpy.zeros((vectors.shape[0], len(self._keys), vectors.shape[1]), dtype=numpy.float64)
        for key in keys:
            self.sums[:, self._row_of[lemma, key]] += vectors

    def nearest(self, lemma: Lemma, vectors: numpy.ndarray) -> List[str]:
        """For each layer of an occurrence, (num_layers, dim), the sense whose average has the highest cosine."""
        assert self.sums is not None, "no occurrence was added yet"
        rows = self._rows[lemma]
        # Shape: (num_layers, num_candidates, dim)
        candidates = self.sums[:, rows]
        norms = numpy.linalg.norm(candidates, axis=-1)
        cosines = numpy.einsum("lcd,ld->lc", candidates, vectors) / numpy.maximum(norms, 1e-12)
        return [self._keys[rows.start + int(best)] for best in cosines.argmax(axis=1)]


class AveragesFile:
    """Averages on disk, with the number of sentences that are in them. `identity`, in JSON's types, distinguishes them
    from the averages of another text or biLM.
    """

    def __init__(self, folder: PathOrStr, identity: Dict[str, Any]) -> None:
        path = Path(folder) / "averages.npz"
        self._record = Record(path, identity, f"remove {path} to start over")

    def load(self, averages: SenseAverages) -> int:
        """Restores what was saved, if anything was. Returns the number of sentences."""
        saved = self._record.load()
        if saved is None:
            return 0
        try:
            sums = saved["sums"]
            if sums.size and (sums.ndim != 3 or sums.shape[1] != len(averages)):
                raise ValueError(f"sums of shape {sums.shape} for {len(averages)} senses")
            averages.sums = sums if sums.size else None
            return int(saved["num_sentences"])
        except (KeyError, ValueError, TypeError) as error:
            raise self._record.damaged(error) from error

    def save(self, averages: SenseAverages, num_sentences: int) -> None:
        sums = numpy.empty(0) if averages.sums is None else averages.sums
        self._record.save(num_sentences=num_sentences, sums=sums)
