import pytest

from dph.tasks.verifiers.qwen.spelling import qwen_spelling


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        (r"\dfrac{1}{2}", r"\frac{1}{2}"),
        (r"\frac12", r"\frac{1}{2}"),
        (r"\frac1{2}", r"\frac{1}{2}"),
        (r"\frac1", r"\frac1"),
        ("3/4", r"\frac{3}{4}"),
        ("03/4", "03/4"),
        ("z/4", "z/4"),
        ("1/2/3", "1/2/3"),
        (r"\sqrt3/2", r"\frac{\sqrt{3}}{2}"),
        (r"\sqrt3", r"\sqrt{3}"),
        ("x=5", "5"),
        ("k = 5", "5"),
        ("abc=5", "abc=5"),
        ("3.00", "3"),
        ("3.00 m", "3"),
        (".5", "0.5"),
        (r"50\%", "50"),
        ("073", "73"),
        ("-3", "-3"),
        (r"\text{seven}", "7"),
        (r"\text{Monday}", "Monday"),
        (r"5 \text{ yuan}", "5"),
        (r"5 \text{cm}^2", "5"),
        ("12 miles", "12"),
        ("90^\\circ", "90"),
        (r"\left(1, 2\right)", "(1,2)"),
        (r"\begin{array}{cc}1&2\end{array}", r"\begin{pmatrix}1&2\end{pmatrix}"),
        (r"(-\infty,\infty)", r"\mathbb{R}"),
        ("infinity", "\\infty"),
        ("2+3j", "2+3i"),
        (r"5\mbox{ cm}", "5"),
        ("", ""),
        ("$", ""),
        # The order of the units: "s" goes before "s ." could take the sign along.
        (r"\frac{1}{s + a}", r"\frac{1}{+}"),
        (r"- a \pi", r"-\pi"),
        ("d . ", "d"),
    ],
)
def test_a_spelling_is_the_tools(text, spelling):
    assert qwen_spelling(text) == spelling
