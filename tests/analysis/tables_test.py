import pytest

from elmo_plugin.analysis.tables import layer_name, mean_and_spread, mean_text, percent, text_table


def test_numbers_are_aligned_right_and_names_left():
    assert text_table(["F1", "all"], [["first sense", "65.9"], ["layer 1", "7"]]) == (
        "F1            all\n-----------  ----\nfirst sense  65.9\nlayer 1         7"
    )


def test_several_columns_may_be_aligned_left():
    assert text_table(["a", "b", "c"], [["x", "yy", "1"]], left=2).splitlines()[-1] == "x  yy  1"


def test_a_share_is_shown_in_percent_and_its_absence_as_a_dash():
    assert (percent(0.65857), percent(0.65857, 2), percent(0.0), percent(None)) == ("65.9", "65.86", "0.0", "-")


def test_layers_are_named_from_the_token_layer_up():
    assert [layer_name(layer) for layer in range(2)] == ["biLM, token layer", "biLM, layer 1"]


def test_the_spread_is_that_of_a_sample():
    assert mean_and_spread([1.0, 3.0]) == (2.0, pytest.approx(2**0.5))
    assert mean_and_spread([1.0]) == (1.0, None)


def test_a_mean_is_written_with_its_spread_if_it_has_one():
    assert mean_text([50.0, 54.0]) == "52.0 +- 2.8"
    assert mean_text([0.5], "+.2f", sign="±") == "+0.50"
    assert mean_text([], missing="none") == "none"
