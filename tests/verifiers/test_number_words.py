import pytest

from dph.verifiers.number_words import number_of_words


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("seven", 7),
        ("Twenty-one apples", 21),
        ("two hundred and five", 205),
        ("one million two hundred thousand", 1_200_000),
        ("thousand", 1000),
        ("three point one four", 3.14),
        ("073", 73),
        (" 5", None),
        ("-3", None),
        ("apples", None),
        ("thousand million", None),
        ("thousand thousand", None),
        ("three point", None),
        ("three point twenty", None),
        ("thousand million point one", None),
        ("9" * 1001, None),
        ("", None),
    ],
)
def test_number_words_are_read(text, number):
    assert number_of_words(text) == number
