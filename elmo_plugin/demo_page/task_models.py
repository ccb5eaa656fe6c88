"""The archives that the page was given: opened, grouped by task, and queried."""

import os
import re
from pathlib import PurePath
from typing import Dict, List, NamedTuple, Sequence, Tuple

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import JsonDict
from allennlp.models.archival import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.analysis.layer_weights import LayerWeights, mixes_of
from elmo_plugin.analysis.tables import layer_name
from elmo_plugin.demo_page.texts import MAX_CHARACTERS, check_text
from elmo_plugin.tasks.common.display import Bars, Display, DisplayedPredictor

_MEMBER = re.compile(r"members\.(\d+)\.")


class TaskModel(NamedTuple):
    """A trained model: its name on the page, its predictor, and the layer weights it has learnt."""

    name: str
    predictor: Predictor
    layer_weights: List[Bars]


class Task(NamedTuple):
    """The models of one task, to be shown side by side. The input is what the first one's predictor takes."""

    models: List[TaskModel]

    @property
    def described(self) -> DisplayedPredictor:
        return self.models[0].predictor  # type: ignore[return-value]

    def check_inputs(self, texts: Dict[str, str], max_characters: int = MAX_CHARACTERS) -> JsonDict:
        """The predictor's input, after checking that every text it needs is there and none is too long."""
        return {
            each.key: check_text(texts[each.key], each.label, max_characters)
            for each in self.described.inputs
            if not each.is_optional or texts.get(each.key, "").strip()
        }

    def predict(self, inputs: JsonDict) -> List[List[Display]]:
        """For each model, the parts of its output."""
        return [model.predictor.display(model.predictor.predict_json(inputs)) for model in self.models]  # type: ignore


def open_predictor(archive_file: str, cuda_device: int = -1) -> Tuple[Predictor, JsonDict]:
    """A trained model's predictor, and its config."""
    archive = load_archive(archive_file, cuda_device=cuda_device)
    config = archive.config.duplicate().as_dict(quiet=True)
    return Predictor.from_archive(archive), config


def open_tasks(archive_files: Sequence[str], cuda_device: int = -1) -> List[Task]:
    """The archives by task, in the order in which each task is first named."""
    by_title: Dict[str, List[TaskModel]] = {}
    for name, archive_file in zip(short_names(archive_files), archive_files, strict=True):
        predictor, config = open_predictor(archive_file, cuda_device)
        if not isinstance(predictor, DisplayedPredictor):
            raise ConfigurationError(
                f"{archive_file}: the page doesn't know how to show the output of a {type(predictor).__name__}; it "
                "shows models of the six tasks, their ensembles, and a biLM given as --language-model"
            )
        mixes = mixes_of(predictor._model.state_dict(), config, name)
        model = TaskModel(name, predictor, [_as_bars(mix) for mix in mixes])
        by_title.setdefault(predictor.task_title, []).append(model)
    return [Task(models) for models in by_title.values()]


def short_names(archive_files: Sequence[str]) -> List[str]:
    """The folder of each run, with as much of its path as is needed to distinguish the runs."""
    parts = [_named_parts(archive_file) for archive_file in archive_files]
    for length in range(1, max((len(each) for each in parts), default=0) + 1):
        names = ["/".join(each[-length:]) for each in parts]
        if len(set(names)) == len(set(map(tuple, parts))):
            return names
    return []


def _named_parts(archive_file: str) -> Tuple[str, ...]:
    path = PurePath(os.path.abspath(archive_file))
    return (path.parent if path.name == "model.tar.gz" else path).parts


def _as_bars(mix: LayerWeights) -> Bars:
    member = _MEMBER.match(mix.mix)
    of_member = f"member {int(member[1]) + 1}, " if member else ""
    title = f"Layer weights: {of_member}ELMo at the {mix.placement}, gamma {mix.gamma:.2f}"
    return Bars(title, {layer_name(layer): weight for layer, weight in enumerate(mix.weights)})
