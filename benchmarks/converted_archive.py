"""Predictions a second of an archive trained with AllenNLP's ELMo, before and after `allennlp elmo-convert`.

The model is AllenNLP's `simple_tagger`, untrained, on a biLM of 1024/128 with random weights. Both archives are opened
by AllenNLP's `load_archive` and predict the same sentences, others at each turn, from tokens to tags: a batch a turn,
and one sentence a turn. The text is that of embedding.py. How far the converted archive's scores are from the old
one's is printed beside.
"""

import json
import random
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Dict, List

import torch
from allennlp.common import Params
from allennlp.data import DatasetReader, Instance, Token, Vocabulary
from allennlp.models import Archive, Model, archival
from embedding import SMALL, invented_text
from interleave import compare, interleaved, new_parser, parse, report

from elmo_plugin.bilm import BiLm, checkpoint
from elmo_plugin.elmo.conversion import convert

OURS, THEIRS = "converted", "as AllenNLP wrote it"
READER = {"type": "sequence_tagging", "token_indexers": {"elmo": {"type": "elmo_characters"}}}


def make_archive(folder: Path) -> str:
    """An archive as AllenNLP writes it after training."""
    files = {"options_file": str(folder / "options.json"), "weight_file": str(folder / "weights.hdf5")}
    checkpoint.write(BiLm(SMALL), files["weight_file"], files["options_file"])
    model = {
        "type": "simple_tagger",
        "text_field_embedder": {"token_embedders": {"elmo": {"type": "elmo_token_embedder", **files}}},
        "encoder": {"type": "lstm", "input_size": 2 * SMALL.projection_dim, "hidden_size": 100, "bidirectional": True},
    }
    vocab = Vocabulary()
    for tag in range(20):
        vocab.add_token_to_namespace(f"tag{tag}", "labels")
    vocab.save_to_files(folder / "vocabulary")
    (folder / "config.json").write_text(json.dumps({"dataset_reader": READER, "model": model}), encoding="utf-8")
    (folder / "meta.json").write_text(json.dumps({"version": "2.10.1"}), encoding="utf-8")
    tagger = Model.from_params(Params(json.loads(json.dumps(model))), vocab=vocab)
    torch.save(tagger.state_dict(), folder / "best.th")
    return archival.archive_model(folder)


class Predicting:
    """One contender, predicting a batch a turn."""

    def __init__(self, archive: Archive, batches: List[List[Instance]]) -> None:
        self._model = archive.model.eval()
        self._batches = iter(batches)

    def __call__(self) -> List[Dict[str, Any]]:
        return self._model.forward_on_instances(next(self._batches))


def instances(sentences: List[List[str]]) -> List[Instance]:
    reader = DatasetReader.from_params(Params(json.loads(json.dumps(READER))))
    made = [reader.text_to_instance([Token(word) for word in sentence]) for sentence in sentences]
    for instance in made:
        reader.apply_token_indexers(instance)
    return made


def measure(archives: Dict[str, str], batch_size: int, repeats: int) -> Dict[str, Any]:
    text = invented_text(random.Random(1))
    # One more for a turn that isn't measured, and one to compare scores on.
    batches = [instances(list(islice(text, batch_size))) for _ in range(repeats + 2)]
    contenders: Dict[str, Callable] = {
        name: Predicting(archival.load_archive(file), batches) for name, file in archives.items()
    }
    pairs = zip(contenders[OURS](), contenders[THEIRS](), strict=True)
    error = max(abs(own["logits"] - theirs["logits"]).max() for own, theirs in pairs)
    return {
        **compare(interleaved(contenders, repeats), OURS, THEIRS, units=batch_size),
        "largest_difference": float(error),
    }


def main() -> None:
    arguments = parse(new_parser(__doc__, repeats=9, quick="few repeats"))
    with tempfile.TemporaryDirectory() as folder:
        old, new = make_archive(Path(folder)), str(Path(folder, "converted.tar.gz"))
        convert(old, new)
        results = {
            f"a tagger on 1024/128, {name}": measure({OURS: new, THEIRS: old}, batch_size, arguments.repeats)
            for name, batch_size in (("batches of 64", 64), ("one sentence at a time", 1))
        }
    report(results, arguments.output)


if __name__ == "__main__":
    main()
