from pathlib import Path
from typing import Callable, Dict

import pytest
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.util import prepare_environment
from allennlp.models.archival import archive_model


@pytest.fixture(scope="session")
def archive_of(root, tmp_path_factory) -> Callable[..., str]:
    """Trains a config, named by its path in the repository without the ending, once; gives its archive."""
    archives: Dict[str, str] = {}
    runs = tmp_path_factory.mktemp("runs")

    def archive_of(config: str) -> str:
        if config not in archives:
            archives[config] = _train(config, runs / "_".join(Path(config).parts[-2:]))
        return archives[config]

    def _train(config: str, run: Path) -> str:
        run.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)
            params = Params.from_file(f"{config}.jsonnet")
            params.to_file(str(run / "config.json"))
            prepare_environment(params)
            TrainModel.from_params(params=params, serialization_dir=str(run), local_rank=0).run()
            archive_model(str(run))
        return str(run / "model.tar.gz")

    return archive_of
