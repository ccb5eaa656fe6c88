import argparse

import pytest
from allennlp.common.checks import ConfigurationError

from elmo_plugin.analysis.run_arguments import changes_from, overrides_from


def test_updates_need_epochs():
    with pytest.raises(ConfigurationError, match="--updates-per-epoch needs --epochs"):
        changes_from(argparse.Namespace(epochs=None, updates_per_epoch=3))


@pytest.mark.parametrize("text", ["{", "3"])
def test_wrong_overrides_are_refused(text):
    with pytest.raises(ConfigurationError, match="--overrides"):
        overrides_from(argparse.Namespace(overrides=text))
