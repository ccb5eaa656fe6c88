"""Model "elmo::ensemble": several trained models of one task that decide together.

    {"model": {"type": "elmo::ensemble", "archives": ["runs/a/model.tar.gz", "runs/b/model.tar.gz"]},
     "trainer": {"type": "no_op"}, ...}

Trained by AllenNLP's `no_op` trainer, it becomes an archive like any other, which no longer needs those it was made
from. training_configs/ensemble.jsonnet is the whole config.

An archive's weights.th holds the members' weights, but its config.json only says where the members once were. So the
ensemble leaves a record of how to build them in the run's `vocabulary/` folder, which AllenNLP puts into the archive:
each member's `model` section, and whatever parts of the member had themselves left in the `vocabulary/` folder of its
archive. All of these are dot-files, which `Vocabulary` passes over.
"""

import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence

import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.common.params import remove_keys_from_params
from allennlp.data import DatasetReader, Vocabulary
from allennlp.models import Model, archival
from allennlp.predictors import Predictor

from elmo_plugin.archive_records import WhenFirstSaved, read_record, saved_weights, write_record
from elmo_plugin.tasks.common.task_model import Scores, TaskModel
from elmo_plugin.text.word_vectors import TABLES_FOLDER, WordVectors

RECORD_NAME = ".ensemble_members.json"
_LOCK_NAME = ".lock"


class _Recipe(NamedTuple):
    """What it takes to build a member, apart from a vocabulary and weights."""

    model: Dict[str, Any]  # the `model` section of the member's config
    files: Dict[str, str]  # the dot-files of the member's vocabulary folder, by name


class _Member(NamedTuple):
    archive_file: str
    model: Model
    recipe: _Recipe


@Model.register("elmo::ensemble", constructor="from_archives")
class Ensemble(Model):
    """Several models of one task, any `TaskModel`: they score jointly, and one of them decodes the result.

    There is no loss: an ensemble isn't trained.
    """

    default_predictor = "elmo::ensemble"

    def __init__(self, vocab: Vocabulary, members: Sequence[Model], serialization_dir: Optional[str] = None) -> None:
        super().__init__(vocab, serialization_dir=serialization_dir)
        self.members: Any = torch.nn.ModuleList(members)  # Any, since ModuleList doesn't say what its modules are

    @classmethod
    def from_archives(
        cls, vocab: Vocabulary, archives: List[str], serialization_dir: Optional[str] = None
    ) -> "Ensemble":
        """The models in `archives`; or, in a run's folder or an archive of an ensemble, those in there."""
        folder = None if serialization_dir is None else Path(serialization_dir)
        recorded = folder and read_record(folder, RECORD_NAME, list)
        if folder is not None and recorded and (weights_file := saved_weights(folder)):
            recipes = [_read_recipe(recipe, folder / "vocabulary" / RECORD_NAME) for recipe in recorded]
            ensemble = cls(vocab, [_rebuild(recipe, vocab, weights_file) for recipe in recipes], serialization_dir)
            # AllenNLP loads them too where it loads an archive, but not where it resumes a run.
            ensemble.load_state_dict(torch.load(weights_file, map_location="cpu", weights_only=True))
            _share_equal_parameters(ensemble.members)
            return ensemble
        members = [_load(archive_file) for archive_file in archives]
        _check_one_task(members)
        _check_one_vocabulary(members, vocab)
        ensemble = cls(vocab, [member.model for member in members], serialization_dir)
        _share_equal_parameters(ensemble.members)
        if folder is not None:
            write = partial(_write_record, [member.recipe for member in members])
            ensemble.register_state_dict_pre_hook(WhenFirstSaved(folder, write))
        return ensemble

    def forward(self, **tensors: Any) -> Dict[str, Any]:  # type: ignore[override]
        return self.members[0].decode(self.scores(**tensors), **tensors)

    def scores(self, **tensors: Any) -> Scores:
        return self.members[0].joint_scores(list(self.members), **tensors)

    def make_output_human_readable(self, output_dict: Dict[str, Any]) -> Dict[str, Any]:
        return self.members[0].make_output_human_readable(output_dict)

    def get_metrics(self, reset: bool = False) -> Dict[str, float]:
        return self.members[0].get_metrics(reset)


@Predictor.register("elmo::ensemble", constructor="of_members")
class EnsemblePredictor(Predictor):
    """The predictor of the ensemble's task: input and output are those of a single model."""

    @classmethod
    def of_members(cls, model: Ensemble, dataset_reader: DatasetReader, **kwargs: Any) -> Predictor:
        predictor_name = model.members[0].default_predictor
        predictor_class = cls if predictor_name is None else Predictor.by_name(predictor_name)
        return predictor_class(model, dataset_reader, **kwargs)


def _share_equal_parameters(members: Iterable[torch.nn.Module]) -> None:
    """Keeps one copy of what members have in common, such as fixed word vectors; it is then saved once, too."""
    first, *others = (dict(member.named_parameters()) for member in members)
    for name, parameter in ((name, parameter) for other in others for name, parameter in other.items()):
        if name in first and torch.equal(first[name], parameter):
            parameter.data = first[name].data


# ---- Members from archives ----


def _load(archive_file: str) -> _Member:
    """The model of an archive, or of a run's folder."""
    try:
        path = cached_path(archive_file)
    except Exception as error:  # offline, a server's refusal, a missing file: the remedy is the same
        raise ConfigurationError(
            f"can't get the ensemble's member {archive_file!r} ({type(error).__name__}: {error}); give the path of a "
            "model.tar.gz"
        ) from error
    with ExitStack() as stack:
        folder = Path(path)
        if not folder.is_dir():
            folder = Path(stack.enter_context(archival.extracted_archive(path)))
        archive = archival.load_archive(folder)
        files = {
            file.name: file.read_text(encoding="utf-8")
            for file in sorted((folder / "vocabulary").glob(".*"))
            if file.is_file() and file.name != _LOCK_NAME
        }
    return _Member(archive_file, archive.model, _Recipe(archive.config["model"].as_dict(quiet=True), files))


def _check_one_task(members: List[_Member]) -> None:
    if not members:
        raise ConfigurationError("an ensemble needs one archive or more, but 'archives' is empty")
    first = members[0]
    for member in members:
        if isinstance(member.model, Ensemble):
            raise ConfigurationError(
                f"{member.archive_file} is an ensemble itself, whose members would count less than the others; name "
                "their own archives instead"
            )
        if not isinstance(member.model, TaskModel):
            raise ConfigurationError(
                f"{member.archive_file} holds a {type(member.model).__name__}, which can't be a member of an ensemble: "
                "only models of the plugin's tasks can"
            )
        if type(member.model) is not type(first.model):
            raise ConfigurationError(
                f"an ensemble's members must be models of one task, but {first.archive_file} holds a "
                f"{type(first.model).__name__} and {member.archive_file} a {type(member.model).__name__}"
            )


def _check_one_vocabulary(members: List[_Member], vocab: Vocabulary) -> None:
    first = members[0]
    for member in members[1:]:
        if difference := _difference(first.model.vocab, member.model.vocab):
            raise ConfigurationError(
                f"an ensemble's members must have one vocabulary, but those of {first.archive_file} and "
                f"{member.archive_file} differ: {difference}. Were they trained on the same data?"
            )
    if difference := _difference(first.model.vocab, vocab):
        raise ConfigurationError(
            f"the vocabulary of {first.archive_file} isn't that of this run: {difference}. Use it with "
            f'"vocabulary": {{"type": "from_files", "directory": "{first.archive_file}"}} in the config'
        )


def _difference(left: Vocabulary, right: Vocabulary) -> Optional[str]:
    """Where two vocabularies first differ, in words."""
    for namespace in sorted(left.get_namespaces() | right.get_namespaces()):
        tokens = [each.get_index_to_token_vocabulary(namespace) for each in (left, right)]
        for index in range(max(map(len, tokens))):
            one, other = (each.get(index) for each in tokens)
            if one != other:
                return f"entry {index} of the namespace {namespace!r} is {one!r} in one and {other!r} in the other"
    return None


# ---- Members from a record ----


def _write_record(recipes: List[_Recipe], ensemble: torch.nn.Module, folder: Path) -> None:
    write_record(folder, RECORD_NAME, [recipe._asdict() for recipe in recipes])
    for module in ensemble.modules():
        if isinstance(module, WordVectors) and module.table is not None:
            module.table.save(folder / "vocabulary" / TABLES_FOLDER)


def _read_recipe(recipe: Any, path: Path) -> _Recipe:
    """Refuses names that lead out of the folder in which the files are written: the record may be a stranger's."""
    files = recipe.get("files") if isinstance(recipe, dict) and isinstance(recipe.get("model"), dict) else None
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        raise ConfigurationError(f"{path} doesn't say how to build a member; get the archive again, or make a new one")
    for name in files:
        if Path(name).name != name or not name.startswith("."):
            raise ConfigurationError(f"{path} was refused: {name!r} isn't the name of a member's own file")
    return _Recipe(recipe["model"], files)


def _rebuild(recipe: _Recipe, vocab: Vocabulary, weights_file: Path) -> Model:
    """A member without its weights, built in a folder like its own archive's, where its parts find what they left."""
    params = Params(recipe.model)
    remove_keys_from_params(params)  # as AllenNLP does when it loads an archive: there is nothing to initialise
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "vocabulary").mkdir()
        for name, text in recipe.files.items():
            (folder / "vocabulary" / name).write_text(text, encoding="utf-8")
        (folder / "vocabulary" / TABLES_FOLDER).symlink_to(weights_file.resolve().parent / "vocabulary" / TABLES_FOLDER)
        (folder / "weights.th").symlink_to(weights_file.resolve())
        return Model.from_params(params=params, vocab=vocab, serialization_dir=temporary)
