"""What is shared by predictors that write JSON or, for their task's official scorer, columns."""

from typing import List

from allennlp.common.util import JsonDict
from allennlp.data import DatasetReader, Instance
from allennlp.models import Model
from allennlp.predictors import Predictor

OUTPUT_FORMATS = ("json", "conll")


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
