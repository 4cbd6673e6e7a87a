import pytest

from dph.tasks.verifiers.qwen.spelling import number_of_words


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("seven", 7),
        ("Twenty-one apples", 21),
        ("two hundred and five", 205),
        ("one million two hundred", 1_000_200),
        ("two hundred thousand", 200_000),
        ("ten million eleven thousand", 10_011_000 + 11 + 1000),
        ("thousand", 1000),
        ("three point one four", 3.14),
        ("073", 73),
        (" 5", None),
        ("-3", None),
        ("apples", None),
        ("thousand million", None),
        ("thousand thousand", None),
        ("three point", 3),
        ("three point twenty", 3),
        ("point", 0),
        ("thousand five", None),
        ("two of three in four", 10),
        ("two hundred thousand four million", None),
        ("five of six of seven of eight of nine", 5),
        ("thousand million point one", None),
        ("9" * 1001, None),
        ("", None),
    ],
)
def test_number_words_are_read_as_the_tool_reads_them(text, number):
    assert number_of_words(text) == number
