import pytest

from dph._processes.sandbox.judge import same_value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, 1),
        (1, 1.0),
        (True, 1),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        ({1: "a", "b": (2,)}, {"1": "a", "b": [2]}),
        (None, None),
        ("a", "a"),
    ],
)
def test_what_json_cannot_tell_apart_is_the_same(value, expected):
    assert same_value(value, expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, "1"),
        ("1", 1),
        ([1], 1),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({1}, [1]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({1: 1, "1": 1}, {"1": 1}),
        (None, 0),
        (float("nan"), float("nan")),
        (1 + 0j, 1),
        (b"a", "a"),
        ({}, []),
    ],
)
def test_another_value_or_another_shape_is_not(value, expected):
    assert not same_value(value, expected)


def test_what_lies_about_its_equality_is_no_value():
    class Always:
        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    assert not same_value(Always(), 5)
    assert not same_value([Always()], [5])
