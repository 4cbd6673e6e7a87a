import pytest

from dph.results.charts.text_table import one_line, shortened, visible, with_code_points


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


def test_a_long_text_is_cut_and_says_so():
    assert one_line("x" * 10**6, widest=5) == "xxxx…"
    assert one_line("x" * 5, widest=5) == "xxxxx"


def test_new_lines_and_tabs_stay_visible_as_they_are_and_nothing_else_steers():
    assert visible("a\n\tb\u2028c\u200bd") == "a\n\tb\\u2028c\\u200bd"


def test_what_was_left_out_is_counted():
    assert shortened("x" * 12, characters=10) == "x" * 10 + " ... (2 more characters)"
    assert shortened("x" * 10, characters=10) == "x" * 10


def test_characters_that_nobody_sees_are_written_out():
    assert with_code_points("a\u202eb\u200b\x07") == "a⟨U+202E⟩b⟨U+200B⟩⟨U+0007⟩"


def test_what_can_be_seen_stays():
    text = "SELECT 'Zürich', 名 FROM t\n\tWHERE x > 1 🙂"
    assert with_code_points(text) == text
