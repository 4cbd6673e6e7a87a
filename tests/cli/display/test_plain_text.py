import pytest

from dph.cli.display.plain_text import plain_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("two\nlines\tand  blanks", "two lines and blanks"),
        ("\x1b]0;title\x07", "?]0;title?"),
        ("right\u202eto left", "right?to left"),
        ("Straße 東京", "Straße 東京"),
        ("", ""),
    ],
)
def test_only_what_can_be_printed_on_one_line_is_left(text, shown):
    assert plain_text(text) == shown


def test_a_long_text_is_cut_and_says_so():
    assert plain_text("x" * 10**6, widest=5) == "xxxx…"
    assert plain_text("x" * 5, widest=5) == "xxxxx"
