import pytest

from dph.tasks.verifiers.qwen.spelling import without_units


@pytest.mark.parametrize(
    ("text", "rest"),
    [("12 miles", "12 "), ("5 sq m", "5 "), ("a", "a"), ("3x", "3x"), ("10 cm per s", "10   ")],
)
def test_units_that_stand_alone_go(text, rest):
    assert without_units(text).split() == rest.split()
