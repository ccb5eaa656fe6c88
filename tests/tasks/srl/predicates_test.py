import json

import pytest
import spacy
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, DatasetReader, Vocabulary
from allennlp.models import Model
from allennlp.models.archival import archive_model

from elmo_plugin.tasks.srl import PredicateFinder, SpacyPredicateFinder, TaggerPredicateFinder

SENTENCES = [["Ada", "has", "left"], ["Bo"], ["it", "is", "so"]]


@pytest.fixture
def pipeline_folder(tmp_path):
    """A pipeline that knows a few words."""
    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("attribute_ruler")
    ruler.add([[{"TEXT": "left"}]], {"POS": "VERB"})
    ruler.add([[{"TEXT": "has"}]], {"POS": "AUX", "DEP": "aux"})
    ruler.add([[{"TEXT": "is"}]], {"POS": "AUX", "DEP": "ROOT"})
    pipeline.to_disk(tmp_path / "pipeline")
    return str(tmp_path / "pipeline")


def test_spacy_finds_verbs_that_arent_auxiliaries(pipeline_folder):
    finder = PredicateFinder.from_params(Params({"type": "spacy", "model": pipeline_folder}))
    assert finder.find(SENTENCES) == [[2], [], [1]]
    assert finder.find([]) == []


def test_a_missing_pipeline_is_an_error_at_first_use_only():
    finder = SpacyPredicateFinder("no_such_pipeline")
    with pytest.raises(ConfigurationError, match="isn't installed. Give them with the input"):
        finder.find(SENTENCES)


@pytest.fixture
def tagger_archive(tmp_path):
    """A tagger of parts of speech that has learned a few words by heart."""
    config = {
        "dataset_reader": {"type": "sequence_tagging"},
        "model": {
            "type": "simple_tagger",
            "text_field_embedder": {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 4}}},
            "encoder": {"type": "pass_through", "input_dim": 4},
        },
    }
    (tmp_path / "train.tsv").write_text("Ada###NNP\tleft###VBD\nBo###NNP\tis###VBZ\n")
    reader = DatasetReader.from_params(Params(config).duplicate()["dataset_reader"])
    instances = list(reader.read(tmp_path / "train.tsv"))
    vocab = Vocabulary.from_instances(instances)
    torch.manual_seed(0)
    model = Model.from_params(Params(config).duplicate()["model"], vocab=vocab)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(30):
        optimizer.zero_grad()
        sum(output["loss"] for output in (_forward(model, instance) for instance in instances)).backward()
        optimizer.step()
    folder = tmp_path / "tagger"
    folder.mkdir()
    torch.save(model.state_dict(), folder / "best.th")
    vocab.save_to_files(folder / "vocabulary")
    (folder / "config.json").write_text(json.dumps(config))
    return archive_model(folder)


def _forward(model, instance):
    batch = Batch([instance])
    batch.index_instances(model.vocab)
    return model(**batch.as_tensor_dict())


def test_any_tagger_finds_words_by_their_tags(tagger_archive):
    finder = PredicateFinder.from_params(Params({"type": "tagger", "archive_file": str(tagger_archive)}))
    assert finder.find([["Ada", "is"], ["Bo"], ["left", "left"]]) == [[1], [], [0, 1]]
    past_only = TaggerPredicateFinder(str(tagger_archive), predicate_tags=["VBD"])
    assert past_only.find([["Ada", "is"], ["left"]]) == [[], [0]]


def test_a_model_that_gives_no_tags_is_refused(tagger_archive, monkeypatch):
    finder = TaggerPredicateFinder(str(tagger_archive))
    monkeypatch.setattr("allennlp.models.simple_tagger.SimpleTagger.forward_on_instances", lambda self, batch: [{}])
    with pytest.raises(ConfigurationError, match="holds a SimpleTagger, which gives no 'tags'"):
        finder.find([["Ada"]])
