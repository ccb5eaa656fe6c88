"""Text of any size into one HDF5 file: in shards, by several processes, with nothing lost when it is interrupted."""

import logging
import os
from pathlib import Path
from typing import Dict, Iterable, Iterator, Optional, Set

import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm import BiLmState
from elmo_plugin.bilm.cache import fingerprint
from elmo_plugin.embedding.embedder_api import ElmoEmbedder
from elmo_plugin.embedding.engines import Engine, ThisProcess
from elmo_plugin.embedding.hdf5_file import new_hdf5_file
from elmo_plugin.embedding.hdf5_layout import DatasetKeys
from elmo_plugin.embedding.shards import Shard, ShardFolder, ShardWriter, cut, read_shard
from elmo_plugin.files import replacing

logger = logging.getLogger(__name__)

DEFAULT_SHARD_SIZE = 1024


class EmbeddingJob:
    """Embeds tokenised sentences, one a line, into `output_file`, laid out as `hdf5_layout.py` describes.

    The lines are cut into shards of `shard_size` (rounded up to whole batches), each of which is embedded into a file
    of its own in the folder `output_file` + ".partial". In the end the shards are merged, the output file takes its
    name, and the folder goes; so while it merges, the job takes twice the output's space. Memory doesn't grow with the
    text, but for `sentence_to_index`, which `forget_sentences` leaves out.

    After an interruption of any kind, `run(..., resume=True)` goes on behind the shards that were finished, and the
    output is the same as without the interruption. Each finished shard knows a digest of its lines, and the text that
    is read again has to match it.
    """

    def __init__(
        self,
        embedder: ElmoEmbedder,
        output_file: str,
        writer: Optional[ShardWriter] = None,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
        shard_size: int = DEFAULT_SHARD_SIZE,
        engine: Optional[Engine] = None,
    ) -> None:
        if shard_size < 1:
            raise ConfigurationError(f"a shard needs at least 1 line, got {shard_size}")
        self._embedder = embedder
        self._output_file = Path(output_file)
        self._writer = writer or ShardWriter()
        self._forget_sentences = forget_sentences
        self._use_sentence_keys = use_sentence_keys
        # Whole batches, so that the batches are the same for any size of shards.
        self._shard_size = -(-shard_size // self._writer.batch_size) * self._writer.batch_size
        self._engine = engine or ThisProcess()
        self._folder = ShardFolder(output_file)
        if embedder.bilm.stateful and not isinstance(self._engine, ThisProcess):
            raise ConfigurationError("carried states go from line to line, so one process has to read them all")

    @property
    def partial_folder(self) -> Path:
        return self._folder.path

    def run(self, sentences: Iterable[str], num_sentences: Optional[int] = None, resume: bool = False) -> None:
        """Embeds `sentences`: lines without the white space around them. `num_sentences` is for the progress bar."""
        self._check_output(resume)
        try:
            with self._folder.opened(self._record(), resume):
                num_shards = self._embed(sentences, num_sentences)
                self._merge(num_shards)
        except OSError as error:
            remedy = "Nothing was finished yet"
            if self._folder.path.exists():
                remedy = f"What was finished is kept in {self._folder.path}: run the same command with --resume"
            raise ConfigurationError(f"{error.filename}: {error.strerror or error}. {remedy}") from error

    def _check_output(self, resume: bool) -> None:
        if self._output_file.is_dir():
            raise ConfigurationError(f"the output {self._output_file} is a folder; name a file")
        if resume and self._output_file.exists() and not self._folder.path.exists():
            raise ConfigurationError(
                f"there is nothing to resume: {self._output_file} is there, and it only appears when it is complete. "
                "To write it again, leave out --resume"
            )

    def _record(self) -> Dict[str, object]:
        """What has to be the same when the job is resumed. How lines are keyed doesn't: that is decided in the end."""
        return {
            "output format": self._writer.output_format,
            "batch size": self._writer.batch_size,
            "float16": self._writer.float16,
            "stateful": self._embedder.bilm.stateful,
            "shard size": self._shard_size,
            "biLM": fingerprint(self._embedder.bilm).hex(),
        }

    def _embed(self, sentences: Iterable[str], num_sentences: Optional[int]) -> int:
        """Makes the shards that are missing, and returns how many there are in all."""
        finished = self._folder.finished()
        if finished:
            logger.info("%s: going on behind %d finished shards", self._folder.path, len(finished))
        shards_seen: Set[int] = set()
        with Tqdm.tqdm(total=num_sentences, desc="embedding", unit=" lines") as bar:

            def unfinished() -> Iterator[Shard]:
                for shard in cut(sentences, self._shard_size):
                    shards_seen.add(shard.number)
                    if shard.number in finished and self._is_intact(shard):
                        bar.update(len(shard.sentences))
                    else:
                        yield shard

            if self._embedder.bilm.stateful:
                self._embed_carrying_states(unfinished(), finished, bar.update)
            else:
                self._engine.run(self._embedder, self._writer, unfinished(), self._folder, bar.update)
        if not shards_seen:
            raise ConfigurationError("there isn't a single line in the text")
        if finished - shards_seen:
            raise ConfigurationError(
                f"the text ends before line {max(finished) * self._shard_size + 1}, which was embedded already: it "
                f"isn't the text that the run in {self._folder.path} was started with. Delete the folder to start anew"
            )
        return len(shards_seen)

    def _is_intact(self, shard: Shard) -> bool:
        path = self._folder.shard_file(shard.number)
        try:
            with read_shard(path) as contents:
                found = contents.digest
        except (OSError, KeyError):
            logger.warning("%s can't be read, and is made again", path)
            return False
        if found != shard.digest():
            raise ConfigurationError(
                f"{shard} aren't the text that the run in {self._folder.path} was started with. Give it the text as it "
                "was, or delete the folder to start anew"
            )
        return True

    def _embed_carrying_states(self, shards: Iterator[Shard], finished: Set[int], advance) -> None:
        """Shard by shard, where the states behind each are on the disk before it counts as finished."""
        bilm = self._embedder.bilm
        bilm.reset_state()
        for shard in shards:
            before, behind = map(self._folder.states_file, (shard.number - 1, shard.number))
            if shard.number - 1 in finished:  # the first one since the job was resumed
                bilm._carried_state = self._read_states(before)
            with new_hdf5_file(self._folder.shard_file(shard.number)) as output:
                self._writer.write(self._embedder, shard, *output, advance)
                with replacing(behind) as temporary:
                    torch.save(bilm._carried_state, temporary)
            before.unlink(missing_ok=True)

    def _read_states(self, path: Path) -> BiLmState:
        if not path.exists():
            raise ConfigurationError(
                f"{path}, the states to go on from, isn't there, so the run can't be resumed: delete "
                f"{self._folder.path} to start anew"
            )
        return torch.load(path)

    def _merge(self, num_shards: int) -> None:
        merged = self._folder.path / "merged.hdf5"
        with new_hdf5_file(merged) as (output, check):
            keys = DatasetKeys(
                output, self._forget_sentences, self._use_sentence_keys, unique_keys=self._embedder.bilm.stateful
            )
            for number in Tqdm.tqdm(range(num_shards), desc="merging", unit=" shards"):
                with read_shard(self._folder.shard_file(number)) as shard:
                    for line, sentence in enumerate(shard.sentences(), start=number * self._shard_size):
                        key = keys.key(line, sentence)
                        if key is not None:
                            shard.file.copy(str(line), output, name=key)
                            keys.remember(sentence)
                            check()
            keys.write_index()
        os.replace(merged, self._output_file)
