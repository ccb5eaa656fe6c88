"""What predictors share: texts in their input, and for some the columns of an official scorer as their output."""

from typing import Any, List

from allennlp.common.util import JsonDict
from allennlp.data import DatasetReader, Instance
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_plugin.tasks.common.words import is_words

OUTPUT_FORMATS = ("json", "conll")


def text_in(inputs: JsonDict, predictor: str, *keys: str) -> Any:
    """A text, or the words of one, under the first of `keys` that the input has; by default `tokens` or `sentence`."""
    keys = keys or ("tokens", "sentence")
    key = next((key for key in keys if key in inputs), keys[-1])
    value = inputs.get(key)
    if not isinstance(value, str) and not is_words(value):
        raise ValueError(
            f"predictor {predictor} needs {' or '.join(map(repr, keys))}, a text or a list of words; {key!r} is "
            f"{value!r} in {inputs}"
        )
    return value


class ConllPredictor(Predictor):
    """`output_format` "json" or "conll"; the latter is `format_conll` of each output instead of a line of JSON."""

    def __init__(
        self, model: Model, dataset_reader: DatasetReader, frozen: bool = True, output_format: str = "json"
    ) -> None:
        super().__init__(model, dataset_reader, frozen)
        if output_format not in OUTPUT_FORMATS:
            raise ValueError(f"output_format must be one of {', '.join(OUTPUT_FORMATS)}, not {output_format!r}")
        self._output_format = output_format

    def complete(self, output: JsonDict, instance: Instance) -> JsonDict:
        """The model's output, with what follows from it and the instance."""
        raise NotImplementedError

    def format_conll(self, output: JsonDict) -> str:
        raise NotImplementedError

    def predict_instance(self, instance: Instance) -> JsonDict:
        return self.predict_batch_instance([instance])[0]

    def predict_batch_instance(self, instances: List[Instance]) -> List[JsonDict]:
        outputs = super().predict_batch_instance(instances)
        return [self.complete(output, instance) for output, instance in zip(outputs, instances, strict=True)]

    def dump_line(self, outputs: JsonDict) -> str:
        return super().dump_line(outputs) if self._output_format == "json" else self.format_conll(outputs)
