import pytest

from corpus.tests.synth.answers import BY_LENGTH, HONEST, with_program
from dph.tasks.verifiers.code.verifier import CodeVerifier
from dph_corpus.synth.draft import read_draft
from dph_corpus.synth.writing import disagreements, second_prompt

SECOND = """\
```python
def sum_even_squares(numbers):
    return sum(n * n for n in numbers if not n % 2)
```
"""


@pytest.fixture(scope="module")
def verifier():
    with CodeVerifier(workers=2, timeout=1.0) as verifier:
        yield verifier


def test_the_second_author_sees_neither_program_nor_tests():
    prompt = second_prompt(read_draft(HONEST))
    assert "sum of the squares of the even numbers" in prompt
    assert "def sum_even_squares(numbers):" in prompt
    assert "total" not in prompt
    assert "assert" not in prompt


def test_two_right_programs_agree(verifier):
    assert disagreements(verifier, [read_draft(HONEST)], [SECOND]) == [""]


def test_a_program_that_knows_its_tests_by_their_lengths_is_found_out(verifier):
    (found,) = disagreements(verifier, [read_draft(BY_LENGTH)], [SECOND])
    assert found.startswith("the second program differs on other inputs")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("I do not know.", "the second answer has no program"),
        ("```python\nimport os\ndef sum_even_squares(n):\n    return 0\n```", "imports os"),
        ("```python\ndef sum_even_squares(n):\n    return 0\n```", "fails the tests"),
    ],
)
def test_a_second_answer_that_is_none_or_wrong_speaks_against_the_first(verifier, answer, found):
    assert found in disagreements(verifier, [read_draft(HONEST)], [answer])[0]


def test_wrong_tests_with_a_program_that_fits_them_are_found_out(verifier):
    tests = "\n".join(
        [
            "```python",
            *(f"assert sum_even_squares([{n}, {n + 1}]) == {2 * n + 1}" for n in (1, 2, 5)),
            "```",
        ]
    )
    wrong = with_program("def sum_even_squares(numbers):\n    return sum(numbers)", tests)
    (found,) = disagreements(verifier, [read_draft(wrong)], [SECOND])
    assert found.startswith("the second program fails the tests")
