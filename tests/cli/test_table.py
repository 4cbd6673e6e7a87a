import json

import pytest

from dph.cli.table import BAR_WIDTH, bar_chart, json_text, text_table


def test_columns_are_as_wide_as_their_widest_cell():
    lines = text_table(["set", "x"], [["a", "10.0"], ["long name", "1"]]).splitlines()
    assert lines == ["set           x", "a          10.0", "long name     1"]


def test_the_longest_bar_has_the_full_width_and_no_count_disappears():
    lines = bar_chart(["0", "1", "2"], [1000, 0, 1]).splitlines()
    assert [line.count("#") for line in lines] == [BAR_WIDTH, 0, 1]


def test_small_counts_are_one_mark_each():
    assert [line.count("#") for line in bar_chart(["0", "1"], [3, 5]).splitlines()] == [3, 5]


def test_nothing_to_chart_is_empty():
    assert bar_chart([], []) == ""


def test_json_is_one_document_without_nan():
    assert json.loads(json_text({"ä": 1})) == {"ä": 1}
    with pytest.raises(ValueError, match="Out of range"):
        json_text(float("nan"))
