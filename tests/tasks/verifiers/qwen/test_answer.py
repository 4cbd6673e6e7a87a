import pytest

from dph.tasks.verifiers.qwen.verifier import qwen_answer


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("The final answer is $5$. I hope it is correct. \\boxed{6}", "5"),
        (r"\boxed{1}, \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed 5$ is it", "5"),
        (r"\boxed{12", "12"),
        ("ends in boxed", ""),
        ("The answer is 5. Yes, the answer is: 6.", " 6"),
        ("final answer is 7/", "7"),
        ("\u7b54\u6848\u662f 8\n\nend", "8"),
        ("1,200 then -3.5.", "-3.5"),
        ("12.", "12"),
        ("no number", ""),
    ],
)
def test_the_first_rule_that_applies_decides(response, answer):
    assert qwen_answer(response) == answer
