import json
import sys
from pathlib import Path

import pytest
import torch
from allennlp.commands import main
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model, archival
from allennlp.models.archival import load_archive

from elmo_plugin.elmo import Elmo
from elmo_plugin.elmo.conversion import convert

INDEXER = {"type": "elmo_characters", "namespace": "elmo_characters", "token_min_padding_length": 2}
READER = {"type": "sequence_tagging", "token_indexers": {"elmo": INDEXER}}
SENTENCES = "the###DET mill###NOUN turns###VERB\nslowly###ADV\nthe###DET river###NOUN\n"


@pytest.fixture
def make_old_archive(root, tmp_path):
    """Archives AllenNLP's tagger with AllenNLP's ELMo, whose weights were tuned: they differ from the biLM's files."""

    def make(model_changes=None, **changes) -> str:
        embedder = {
            "type": "elmo_token_embedder",
            "options_file": str(root / "fixtures/bilm/options.json"),
            "weight_file": str(root / "fixtures/bilm/weights.hdf5"),
            **changes,
        }
        model = {
            "type": "simple_tagger",
            "text_field_embedder": {"token_embedders": {"elmo": embedder}},
            "encoder": {"type": "lstm", "input_size": changes.get("projection_dim", 16), "hidden_size": 5},
            **(model_changes or {}),
        }
        folder, data = tmp_path / "old", tmp_path / "data.txt"
        folder.mkdir()
        data.write_text(SENTENCES)
        instances = list(DatasetReader.from_params(Params(json.loads(json.dumps(READER)))).read(str(data)))
        vocab = Vocabulary.from_instances(instances)
        vocab.save_to_files(folder / "vocabulary")
        tagger = Model.from_params(Params(json.loads(json.dumps(model))), vocab=vocab)
        torch.manual_seed(1)
        state = {name: value + 0.1 * torch.randn_like(value) for name, value in tagger.state_dict().items()}
        # Padding has no vector to tune.
        for name, value in state.items():
            if name.endswith("_char_embedding_weights"):
                value[0] = 0.0
        torch.save(state, folder / "best.th")
        (folder / "config.json").write_text(json.dumps({"dataset_reader": READER, "model": model}))
        (folder / "meta.json").write_text(json.dumps({"version": "2.10.1"}))
        return archival.archive_model(folder)

    return make


def predictions(archive_file: str, tmp_path: Path) -> torch.Tensor:
    """The logits of two batches of different sizes, so that carried states matter."""
    archive = load_archive(archive_file)
    archive.model.eval()
    instances = list(archive.dataset_reader.read(str(tmp_path / "data.txt")))
    outputs = [archive.model.forward_on_instances(batch) for batch in (instances, instances[:2], instances[1:])]
    return torch.cat([torch.as_tensor(output["logits"]) for batch in outputs for output in batch])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"do_layer_norm": True},
        {"projection_dim": 6},
        {"scalar_mix_parameters": [0.5, -1.0, 2.0]},
        {"requires_grad": True, "dropout": 0.1},
    ],
    ids=["plain", "layer norm", "projection", "fixed weights", "tuned"],
)
def test_the_new_archive_predicts_what_the_old_one_did(make_old_archive, tmp_path, changes):
    old, new = make_old_archive(**changes), str(tmp_path / "new.tar.gz")
    convert(old, new)
    torch.testing.assert_close(predictions(new, tmp_path), predictions(old, tmp_path), rtol=0.0, atol=1e-5)


def test_the_new_archive_holds_this_plugins_elmo_and_needs_no_files(make_old_archive, root, tmp_path, monkeypatch):
    convert(make_old_archive(dropout=0.3), str(tmp_path / "new.tar.gz"))
    monkeypatch.setattr("elmo_plugin.bilm.checkpoint.read", lambda *_: pytest.fail("read the biLM's files"))
    archive = load_archive(tmp_path / "new.tar.gz")
    (elmo,) = [module for module in archive.model.modules() if isinstance(module, Elmo)]
    assert elmo.dropout.p == 0.3 and elmo.bilm.stateful
    assert archive.config["dataset_reader"]["token_indexers"]["elmo"]["type"] == "elmo::characters"


def test_what_else_an_archive_holds_comes_along(make_old_archive, tmp_path):
    make_old_archive()
    (tmp_path / "old" / "notes[1].txt").write_text("of the training")
    old = archival.archive_model(tmp_path / "old", include_in_archive=["notes*"])
    convert(old, str(tmp_path / "new.tar.gz"))
    with archival.extracted_archive(tmp_path / "new.tar.gz") as folder:
        assert Path(folder, "notes[1].txt").read_text() == "of the training"
        assert not Path(folder, "best.th").exists()


def test_elmo_outside_of_token_embedders_is_refused_by_name(make_old_archive, tmp_path):
    archive = rewritten(make_old_archive(), tmp_path, type="embedding")
    with pytest.raises(ConfigurationError, match="ELMo is elsewhere in it than .*token_embedder_elmo._elmo._elmo_lstm"):
        convert(archive, str(tmp_path / "new.tar.gz"))


def test_a_stateless_archive_gives_a_sentence_the_same_vectors_each_time(make_old_archive, tmp_path):
    convert(make_old_archive(), str(tmp_path / "new.tar.gz"), stateful=False)
    archive = load_archive(tmp_path / "new.tar.gz")
    archive.model.eval()
    (instance, *_) = archive.dataset_reader.read(str(tmp_path / "data.txt"))
    first, second = (archive.model.forward_on_instance(instance)["logits"] for _ in range(2))
    assert (first == second).all()


def test_published_sizes_need_no_options_file(make_old_archive, root, tmp_path):
    url = "https://example.invalid/elmo_2x4096_512_2048cnn_2xhighway_options.json"
    archive = rewritten(make_old_archive(), tmp_path, options_file=url)
    with pytest.raises(ConfigurationError, match="options"):  # the fixture's sizes are others
        convert(archive, str(tmp_path / "new.tar.gz"))
    assert not (tmp_path / "new.tar.gz").exists()
    convert(archive, str(tmp_path / "new.tar.gz"), options_file=str(root / "fixtures/bilm/options.json"))


def rewritten(archive: str, tmp_path: Path, **changes) -> str:
    """The same archive with another config."""
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    config["model"]["text_field_embedder"]["token_embedders"]["elmo"].update(changes)
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    return archival.archive_model(tmp_path / "old")


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"vocab_to_cache": ["mill"]}, "'elmo' has vocab_to_cache"),
        ({"options_file": "gone.json"}, "gone.json is needed for its sizes.*--options-file"),
    ],
    ids=["cached words", "no options"],
)
def test_what_cannot_be_converted_is_refused(make_old_archive, tmp_path, changes, complaint):
    archive = rewritten(make_old_archive(), tmp_path, **changes)
    with pytest.raises(ConfigurationError, match=complaint):
        convert(archive, str(tmp_path / "new.tar.gz"))
    assert not (tmp_path / "new.tar.gz").exists()


def test_an_archive_without_elmo_has_nothing_to_convert(make_old_archive, tmp_path):
    convert(make_old_archive(), str(tmp_path / "new.tar.gz"))
    with pytest.raises(ConfigurationError, match="no token embedder of type elmo_token_embedder"):
        convert(str(tmp_path / "new.tar.gz"), str(tmp_path / "newer.tar.gz"))


def test_the_command_writes_the_archive_and_overwrites_nothing(make_old_archive, tmp_path, monkeypatch, capsys):
    arguments = ["allennlp", "elmo-convert", make_old_archive(), str(tmp_path / "new" / "model.tar.gz")]
    monkeypatch.setattr(sys, "argv", arguments)
    main()
    assert "wrote" in capsys.readouterr().out and (tmp_path / "new" / "model.tar.gz").is_file()
    with pytest.raises(SystemExit, match="error: .*already exists"):
        main()
