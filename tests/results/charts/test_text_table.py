import csv
import io

import pytest

from dph.errors import DataError
from dph.results.charts.text_table import (
    TableNumber,
    TextTable,
    comma_separated,
    duration,
    latex,
    latex_text,
    markdown,
    marked,
    one_line,
    visible,
    with_code_points,
)

TABLE = TextTable(
    name="scores-a",
    title="Scores & more",
    columns=("method", "greedy (%)"),
    rows=(("dph_f|x", "70.1 ± 2.0"), (marked("a_b"), marked("5"))),
    note="100% of {them} cost $1 ~ #2 ^ <3> \\.",
)


def test_every_character_of_meaning_to_latex_is_escaped():
    assert latex_text("_&%$#{}") == r"\_\&\%\$\#\{\}"
    assert latex_text("~^\\") == r"\textasciitilde{}\textasciicircum{}\textbackslash{}"
    assert latex_text("a<b>±") == r"a\textless{}b\textgreater{}$\pm$"


def test_latex_is_a_booktabs_table_with_bold_marks():
    text = latex(TABLE)
    assert r"\begin{tabular}{lr}" in text
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert text.count(rule) == 1
    assert r"dph\_f|x & 70.1 $\pm$ 2.0 \\" in text
    assert r"\textbf{a\_b} & \textbf{5} \\" in text
    assert r"Scores \& more. 100\% of \{them\} cost \$1" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_markdown_keeps_bars_inside_their_cells():
    lines = markdown(TABLE).splitlines()
    assert lines[2:5] == ["| method | greedy (%) |", "| --- | ---: |", r"| dph_f\|x | 70.1 ± 2.0 |"]
    assert lines[5] == "| **a_b** | **5** |"


def test_csv_has_no_marks_and_both_ends_of_an_interval_in_cells_of_their_own():
    rows = list(csv.reader(io.StringIO(comma_separated(TABLE))))
    assert rows == [["method", "greedy (%)"], ["dph_f|x", "70.1 ± 2.0"], ["a_b", "5"]]
    table = TextTable(
        name="t",
        title="T",
        columns=("method", "greedy", "cut off"),
        rows=(
            ("a", TableNumber(value=100 * 2 / 3, low=60.0, high=72.25), TableNumber(value=1.5)),
            ("b", TableNumber(value=None), TableNumber(value=None)),
        ),
        note="",
    )
    rows = list(csv.DictReader(io.StringIO(comma_separated(table))))
    names = ["method", "greedy", "greedy low", "greedy high", "cut off"]
    assert [*map(list, rows)] == [names, names]
    assert [*rows[0].values()] == ["a", "66.66666667", "60", "72.25", "1.5"]
    assert [*rows[1].values()] == ["b", "", "", "", ""]
    assert "| a | 66.7 [60.0, 72.2] | 1.5 |" in markdown(table)
    assert r"a & 66.7 [60.0, 72.2] & 1.5 \\" in latex(table)


def test_a_row_of_another_length_is_refused():
    with pytest.raises(DataError, match="has 1 cells"):
        TextTable(name="t", title="", columns=("a", "b"), rows=(("x",),), note="")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand  blanks", "two lines and blanks"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("right\u202eto left", r"right\u202eto left"),
        ("Straße 東京", "Straße 東京"),
        ("", ""),
    ],
)
def test_only_what_can_be_printed_on_one_line_is_left(text, shown):
    assert one_line(text) == shown


def test_characters_that_nobody_sees_are_written_out_and_what_can_be_seen_stays():
    assert visible("a\n\tb\u2028c\u200bd") == "a\n\tb\\u2028c\\u200bd"
    assert with_code_points("a\u202eb\u200b\x07") == "a⟨U+202E⟩b⟨U+200B⟩⟨U+0007⟩"
    text = "SELECT 'Zürich', 名 FROM t\n\tWHERE x > 1 🙂"
    assert with_code_points(text) == text


def test_durations_are_readable():
    found = [duration(seconds) for seconds in (0, 59.94, 60, 3599, 3600)]
    assert found == ["0.0 s", "59.9 s", "1 min 0 s", "59 min 59 s", "1 h 0 min"]
