"""A step is true when exact fractions say so, and is written in one way only."""

import pytest

from lab.tests.worlds.countdown.brute_force import allowed, value_of
from lab.worlds.countdown.verifier import (
    LARGEST,
    LONGEST_STEP,
    OPERATORS,
    CountdownStep,
    read_step,
    result_of,
)


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_step_gives_what_exact_fractions_say(operator):
    for first in range(LARGEST + 1):
        for second in range(LARGEST + 1):
            exact = value_of(first, operator, second)
            expected = int(exact) if allowed(exact) else None
            assert result_of(first, operator, second) == expected


def test_an_unknown_operator_is_refused():
    with pytest.raises(ValueError, match="one of"):
        result_of(2, "%", 3)


def test_two_numbers_always_have_a_legal_step():
    for first in range(1, LARGEST + 1):
        for second in range(1, LARGEST + 1):
            assert any(
                result_of(a, operator, b)
                for operator in OPERATORS
                for a, b in ((first, second), (second, first))
            )


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_written_step_is_read_as_it_was_meant(operator):
    for first, second, result in ((1, 2, 3), (99, 98, 97), (10, 9, 90)):
        text = f"{first} {operator} {second} = {result}"
        assert read_step(text) == CountdownStep(first, operator, second, result)
        assert len(text) <= LONGEST_STEP


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7-5=2",
        "7 - 5",
        "7 - 5 = 2 ",
        "7  - 5 = 2",
        "7\t- 5 = 2",
        "7 - 5 = 2\n",
        "-7 + 9 = 2",
        "+7 - 5 = 2",
        "07 - 5 = 2",
        "0 + 5 = 5",
        "7 - 5 = 2.0",
        "7 - 5 == 2",
        "7 % 5 = 2",
        "7 ** 5 = 2",
        "100 - 98 = 2",
        "\u0667 - \u0665 = \u0662",
        "\uff17 - \uff15 = \uff12",
        "7 \u2212 5 = 2",
        "7 - 5 = 2 = 2",
        "7 - 5 = 0",
        "\u00b2  - 1 = 1",
        "a - b = c",
    ],
)
def test_anything_else_is_no_step(text):
    assert read_step(text) is None
