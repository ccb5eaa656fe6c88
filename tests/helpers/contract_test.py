import contract
import pytest
from contract import assert_same


def test_equal_json_is_the_same_but_for_rounding():
    left = {"a": [1, 0.5, "x", None, True], "b": {"c": [[1e6]]}}
    assert_same(left, {"a": [1, 0.50001, "x", None, True], "b": {"c": [[1e6 + 10.0]]}})


@pytest.mark.parametrize(
    "actual, place",
    [
        ({"a": [{"b": 0.6}, "x"]}, r"a\[0\].b differs: 0.5 and 0.6"),
        ({"a": [{"b": 0.5}, "y"]}, r"a\[1\] differs: 'x' and 'y'"),
        ({"a": [{"b": 0.5}]}, "a has another length: 2 and 1"),
        ({"a": [{"c": 0.5}, "x"]}, r"a\[0\] has other keys"),
        ({"a": "x"}, "a differs"),
        ({"a": [{"b": float("nan")}, "x"]}, r"a\[0\].b differs"),
    ],
)
def test_what_differs_is_named(actual, place):
    with pytest.raises(AssertionError, match=place):
        assert_same({"a": [{"b": 0.5}, "x"]}, actual)


class FakePredictor:
    """Answers with the length of a batch times `per_batch`, and with an input's place in it times `per_place`."""

    def __init__(self, per_batch=0, per_place=0, value=1.0):
        self.per_batch, self.per_place, self.value = per_batch, per_place, value

    def predict_json(self, input_):
        return self.predict_batch_json([input_])[0]

    def predict_batch_json(self, inputs):
        return [
            {"a": self.value + self.per_batch * len(inputs) + self.per_place * place} for place, _ in enumerate(inputs)
        ]


def predict_with(predictor, monkeypatch):
    monkeypatch.setattr(contract.Predictor, "from_path", lambda archive_file: predictor)
    return contract._predict("model.tar.gz", [{}, {}], tolerance=1e-4)


def test_predictions_that_depend_on_nothing_but_their_input_pass(monkeypatch):
    assert predict_with(FakePredictor(), monkeypatch) == [{"a": 1.0}, {"a": 1.0}]


def test_a_prediction_that_depends_on_the_batch_is_caught(monkeypatch):
    with pytest.raises(AssertionError, match=r"batch\[0\].a differs: 2.0 and 3.0"):
        predict_with(FakePredictor(per_batch=1), monkeypatch)


def test_a_prediction_that_depends_on_the_order_is_caught(monkeypatch):
    with pytest.raises(AssertionError, match=r"batch\[1\].a differs"):
        predict_with(FakePredictor(per_place=1), monkeypatch)


def test_a_prediction_that_json_has_no_number_for_is_caught(monkeypatch):
    with pytest.raises(ValueError, match="not JSON compliant"):
        predict_with(FakePredictor(value=float("nan")), monkeypatch)


def test_one_input_is_too_few(tmp_path):
    with pytest.raises(AssertionError, match="fewer than two inputs"):
        contract.check_experiment("missing.jsonnet", tmp_path, [{}])
