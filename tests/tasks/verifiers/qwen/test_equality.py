import pytest

pytest.importorskip("sympy")

from dph.tasks.verifiers.qwen.equality import qwen_equal


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("5", "5"),
        ("(B)", "B"),
        ("500", "5"),
        ("0.05", "5"),
        ("1,000", "1000"),
        ("50\\%", "0.5"),
        ("5.0004", "5"),
        ("[1,2]", "{1,2}"),
        ("(1,\\frac{4}{2})", "(1,2)"),
        (r"\begin{pmatrix}1\\\frac{4}{2}\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        ("x+1=y", "y=x+1"),
        ("x=5", "5.0001"),
        ("5.0001", "x=5"),
        (r"\frac{2}{4}", r"\frac{1}{2}"),
        ("(x+1)^2", "x^2+2x+1"),
    ],
)
def test_what_the_tool_takes_as_equal(answer, gold):
    assert qwen_equal(answer, gold)


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("6", "5"),
        ("", "5"),
        ("A", "B"),
        ("9" * 400, "5"),
        ("x%", "5"),
        ("(1,3)", "(1,2)"),
        (r"\begin{pmatrix}1\\3\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"\begin{pmatrix}1\\3\end{pmatrix}", "{1,2}"),
        ("x+1=y", "y=x+2"),
        ("x", "y"),
    ],
)
def test_what_the_tool_takes_as_different(answer, gold):
    assert not qwen_equal(answer, gold)
