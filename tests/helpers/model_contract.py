"""What every task's model has to live up to, as tests for a model's own to inherit.

In a test file with a fixture `task`:

    class TestContract(ModelContract):
        name = "elmo::ner"
"""

from typing import ClassVar

import pytest
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model


class ModelContract:
    name: ClassVar[str]

    def test_it_is_registered_with_its_predictor(self, task) -> None:
        assert type(task.build()) is Model.by_name(self.name)
        assert Model.by_name(self.name).default_predictor == self.name

    def test_a_placement_it_doesnt_have_is_refused(self, task) -> None:
        with pytest.raises(ConfigurationError, match="no placement 'pooled' here; this model has 'input', 'output'"):
            task.build(task.numbers("input", "pooled"))

    def test_a_baseline_has_no_contextual_parameter(self, task) -> None:
        names = [name for name, _ in task.build({"type": "none"}).named_parameters()]
        assert names and not any("contextual" in name for name in names)
