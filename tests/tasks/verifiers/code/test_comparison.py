import pytest

from dph.tasks.verifiers.code.handler import first_difference, same_output


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("5", "5\n"),
        ("  a b \n\nc\n\n", "a b\n\nc"),
        ("1.0 2", "1 2.00"),
        ("1e2", "100"),
        ("-0", "0"),
        ("YES\r\nNO\r\n", "YES\nNO"),
        ("", ""),
    ],
)
def test_blanks_at_the_ends_and_the_writing_of_numbers_do_not_count(printed, expected):
    assert same_output(printed, expected)
    assert same_output(expected, printed)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("1 2", "1\n2"),
        ("1  2 x", "1 2 x"),
        ("0.3333", "0.33333"),
        ("nan", "NaN"),
        ("inf", "Infinity"),
        ("yes", "YES"),
        ("", "0"),
        ("1\n2", "1"),
        ("a b", "b a"),
    ],
)
def test_another_text_is_another_output(printed, expected):
    assert not same_output(printed, expected)
    assert not same_output(expected, printed)
    assert first_difference(printed, expected)


def test_a_number_of_a_million_digits_is_compared_as_text():
    digits = "1" * 1_000_000
    assert same_output(digits, digits)
    assert not same_output(digits + ".0", digits)


def test_the_first_line_that_differs_is_named():
    assert first_difference("1\n2\n3", "1\n4\n3") == "line 2 is '2', '4' was expected"
    assert first_difference("1", "1\n2") == "1 lines were printed, 2 expected"
