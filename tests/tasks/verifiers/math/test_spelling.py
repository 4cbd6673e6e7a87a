import pytest

from dph.tasks.verifiers.math.answer import clean_answer, same_spelling, trim_answer


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        ("9.", "9"),
        (" $9.$ ", "9"),
        (r"\, 9 \,", "9"),
        (r"\$5", r"\$5"),
        ("5 percent", r"5\%"),
        ("5%", r"5\%"),
        ("5\\", "5"),
        ("\u22125", "-5"),
        (".5", ".5"),
        ("...", ""),
    ],
)
def test_an_answer_is_trimmed(text, trimmed):
    assert trim_answer(text) == trimmed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\left(1,\,2\right)", "(1,2)"),
        (r"\dfrac12", r"\frac{1}{2}"),
        (r"\tfrac{a}{b}", r"\frac{a}{b}"),
        ("R = e, I = ( - e, e)", "R=e, I=(-e, e)"),
        (r"\text{east}", "east"),
        (r"2^{ - 1 / 3}", "2^{-1/3}"),
    ],
)
def test_looks_do_not_count(one, other):
    assert same_spelling(clean_answer(one)) == same_spelling(clean_answer(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("1 2", "12"), ("(1,2)", "[1,2]"), ("x y", "xy"), ("-1", "1"), (r"5\%", "5"), ("A", "a")],
)
def test_what_may_change_the_value_counts(one, other):
    assert same_spelling(clean_answer(one)) != same_spelling(clean_answer(other))
