"""Text of any size into one HDF5 file: in pieces, by several processes, with nothing lost when it is interrupted."""

import hashlib
import logging
import os
import shutil
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, Optional

import numpy
import torch
from allennlp.common import Tqdm

from elmo_plugin.bilm import BiLm, BiLmState
from elmo_plugin.bilm.cache import fingerprint
from elmo_plugin.embedding.embedder_api import ElmoEmbedder
from elmo_plugin.embedding.engines import Engine, ThisProcess
from elmo_plugin.embedding.hdf5_file import GrowingHdf5File
from elmo_plugin.embedding.hdf5_layout import VectorWriter
from elmo_plugin.embedding.pieces import PieceEmbedder, cut
from elmo_plugin.errors import ConfigurationError
from elmo_plugin.progress import Record, only_process

logger = logging.getLogger(__name__)

DEFAULT_PIECE_SIZE = 1024


class EmbeddingJob:
    """Embeds tokenised sentences, one per line, into `output_file`, laid out as `hdf5_layout.py` describes.

    The lines are cut into pieces of `piece_size` (rounded up to whole batches). Their vectors are appended, one piece
    after the other, to a file in the folder `output_file` + ".partial"; after each, a record there says how far it has
    come. At the end the file takes the output's name, and the folder is removed. Memory doesn't grow with the text,
    except for `sentence_to_index`, which `forget_sentences` leaves out.

    After an interruption of any kind, `run(..., resume=True)` continues after the last finished piece, and the output
    is the same, byte for byte, as without the interruption. The text has to be the same up to there.
    """

    def __init__(
        self,
        embedder: ElmoEmbedder,
        output_file: str,
        piece_embedder: Optional[PieceEmbedder] = None,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
        piece_size: int = DEFAULT_PIECE_SIZE,
        engine: Optional[Engine] = None,
    ) -> None:
        if piece_size < 1:
            raise ConfigurationError(f"a piece needs at least 1 line, got {piece_size}")
        self._embedder = embedder
        self._output_file = Path(output_file)
        self._piece_embedder = piece_embedder or PieceEmbedder()
        self._writer = VectorWriter(forget_sentences, use_sentence_keys, unique_keys=embedder.bilm.stateful)
        # Whole batches, so that the batches are the same for any size of pieces.
        batch_size = self._piece_embedder.batch_size
        self._piece_size = -(-piece_size // batch_size) * batch_size
        self._engine = engine or ThisProcess()
        self.partial_folder = Path(f"{output_file}.partial")
        # What has to be the same when the job is resumed.
        identity = {
            "output format": self._piece_embedder.output_format,
            "batch size": batch_size,
            "float16": self._piece_embedder.float16,
            "sentence keys": use_sentence_keys,
            "stateful": embedder.bilm.stateful,
            "piece size": self._piece_size,
            "biLM": fingerprint(embedder.bilm).hex(),
        }
        self._record = Record(
            self.partial_folder / "progress.npz", identity, f"delete {self.partial_folder} to start over"
        )
        if embedder.bilm.stateful and not isinstance(self._engine, ThisProcess):
            raise ConfigurationError("carried states go from line to line, so one process has to read them all")

    def run(self, sentences: Iterable[str], num_sentences: Optional[int] = None, resume: bool = False) -> None:
        """Embeds `sentences`: lines without the white space around them. `num_sentences` is for the progress bar."""
        self._check_output(resume)
        try:
            with only_process(self.partial_folder):
                try:
                    self._run(iter(sentences), num_sentences, resume)
                    self._record.path.unlink()
                finally:
                    if not self._record.path.exists():
                        shutil.rmtree(self.partial_folder, ignore_errors=True)
        except OSError as error:
            remedy = "Nothing has been finished yet"
            if self._record.path.exists():
                remedy = f"What was finished is kept in {self.partial_folder}: run the same command with --resume"
            raise ConfigurationError(f"{error.filename}: {error.strerror or error}. {remedy}") from error

    def _check_output(self, resume: bool) -> None:
        if self._output_file.is_dir():
            raise ConfigurationError(f"the output {self._output_file} is a folder; name a file")
        if resume and self._output_file.exists() and not self.partial_folder.exists():
            raise ConfigurationError(
                f"there is nothing to resume: {self._output_file} exists, and it only appears when it is complete. "
                "To write it again, leave out --resume"
            )

    def _run(self, sentences: Iterator[str], num_sentences: Optional[int], resume: bool) -> None:
        if self._record.path.exists() and not resume:
            raise ConfigurationError(
                f"{self.partial_folder} holds the finished part of a run that was interrupted: continue it with "
                "--resume, or delete the folder to start over"
            )
        path = self.partial_folder / "vectors.hdf5"
        done = self._record.load()
        is_complete = done is not None and bool(done.get("is_complete"))
        if is_complete and not path.exists():
            return  # it was interrupted right after the file had taken the output's name
        bar = Tqdm.tqdm(total=num_sentences, desc="embedding", unit=" lines")
        with bar, GrowingHdf5File(path) as file:
            so_far = _SoFar()
            self._embedder.bilm.reset_state()
            if done is not None:
                try:
                    self._go_on(done, sentences, so_far, file, bar.update)
                except (OSError, RuntimeError, KeyError) as error:  # what HDF5 raises for a damaged file
                    raise ConfigurationError(
                        f"{path} is damaged ({error}); delete {self.partial_folder} to start over"
                    ) from error
            if not is_complete:
                self._embed(sentences, so_far, file, bar.update)
        os.replace(path, self._output_file)

    def _go_on(
        self,
        done: Dict[str, numpy.ndarray],
        sentences: Iterator[str],
        so_far: "_SoFar",
        file: GrowingHdf5File,
        advance: Callable[[int], object],
    ) -> None:
        """Restores the end of the last finished piece, after checking that text and vectors are what they were then."""
        try:
            num_lines, text_digest, vectors_digest = (done[name].item() for name in ("num_lines", "text", "vectors"))
            _restore_states(self._embedder.bilm, done)
            file.restore(done)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self._record.damaged(error) from error
        logger.info("%s: continuing after line %d", self.partial_folder, num_lines)
        for piece in cut(islice(sentences, num_lines), self._piece_size):
            with file.reading() as vectors:  # reopened, as HDF5 keeps what it has read until it is closed
                for sentence in piece.sentences:
                    self._writer.remember(so_far.num_lines, sentence)
                    so_far.add(sentence, self._writer.read(vectors, so_far.num_lines, sentence))
                    advance(1)
        if so_far.text.hexdigest() != text_digest or (done["is_complete"] and next(sentences, None) is not None):
            problem = "ends before that" if so_far.num_lines < num_lines else "isn't the same"
            raise ConfigurationError(
                f"the run in {self.partial_folder} has embedded {num_lines} lines, and this text {problem}. Give it "
                "the text as it was, or delete the folder to start over"
            )
        if so_far.vectors.hexdigest() != vectors_digest:
            raise OSError("its vectors aren't those that were written")

    def _embed(
        self, sentences: Iterator[str], so_far: "_SoFar", file: GrowingHdf5File, advance: Callable[[int], object]
    ) -> None:
        pieces = cut(sentences, self._piece_size, so_far.num_lines)
        embedded = self._engine.embed(self._embedder, self._piece_embedder, pieces, self.partial_folder)
        with closing(embedded):
            for piece, vectors in embedded:
                with file.piece() as (output, check):
                    for sentence, array in zip(piece.sentences, vectors, strict=True):
                        self._writer.write(output, so_far.num_lines, sentence, array)
                        check()
                        so_far.add(sentence, array)
                        advance(1)
                self._finish_piece(so_far, file)
        if so_far.num_lines == 0:
            raise ConfigurationError("the text has no lines")
        with file.piece() as (output, _):
            self._writer.write_index(output)
        self._finish_piece(so_far, file, is_complete=True)

    def _finish_piece(self, so_far: "_SoFar", file: GrowingHdf5File, is_complete: bool = False) -> None:
        """Records the piece, which isn't made again from now on."""
        self._record.save(
            num_lines=so_far.num_lines,
            text=so_far.text.hexdigest(),
            vectors=so_far.vectors.hexdigest(),
            is_complete=is_complete,
            **_carried_states(self._embedder.bilm),
            **file.changes(),
        )
        file.accept()


class _SoFar:
    """How many lines are done, and digests of their text and of their vectors."""

    def __init__(self) -> None:
        self.num_lines = 0
        self.text, self.vectors = hashlib.blake2b(digest_size=16), hashlib.blake2b(digest_size=16)

    def add(self, sentence: str, vectors: Optional[numpy.ndarray]) -> None:
        self.num_lines += 1
        self.text.update(sentence.encode("utf-8") + b"\n")
        if vectors is not None:
            self.vectors.update(numpy.ascontiguousarray(vectors).data)


def _carried_states(bilm: BiLm) -> Dict[str, Any]:
    """A stateful biLM's states: hidden and cell, (num_layers of both directions, batch_size, dim)."""
    if bilm._carried_state is None:
        return {}
    tensors = bilm._carried_state.tensors()
    return {"hidden": torch.stack(tensors[::2]).cpu().numpy(), "cell": torch.stack(tensors[1::2]).cpu().numpy()}


def _restore_states(bilm: BiLm, saved: Dict[str, numpy.ndarray]) -> None:
    if bilm.stateful:
        layers = zip(torch.tensor(saved["hidden"]), torch.tensor(saved["cell"]), strict=True)
        bilm._carried_state = BiLmState.from_tensors(chain.from_iterable(layers))
