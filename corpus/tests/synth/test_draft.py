import pytest

from corpus.tests.synth.answers import HONEST
from dph_corpus.synth.draft import NoDraft, read_draft


def test_the_parts_of_an_answer_are_found():
    draft = read_draft(HONEST)
    assert draft.instruction == "Return the sum of the squares of the even numbers in a list."
    assert draft.entry_point == "sum_even_squares"
    assert draft.tests[1] == "assert sum_even_squares([]) == 0"
    assert len(draft.tests) == 4
    assert draft.response().startswith("```python\ndef sum_even_squares")


def test_the_text_of_a_draft_is_python_with_its_task_as_comments():
    text = read_draft(HONEST).text()
    compile(text, "row", "exec")
    assert text.startswith("# Return the sum")


def test_an_assertion_counts_once():
    again = HONEST.replace("sum_even_squares([5, 7]) == 0", "sum_even_squares([]) == 0")
    assert len(read_draft(again).tests) == 3


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "program"),
        ("x\n```python\n1 +\n```", "program"),
        ("x\n```python\nx = 1\n```", "program"),
        ("x\n```python\ndef f(): return " + "+".join("1" * 900) + "\n```", "program"),
        (HONEST.replace("assert sum", "print(1)\nassert sum"), "tests"),
        ("```python\ndef f(): pass\n```", "instruction"),
        (HONEST.replace("assert sum_even", "assert other"), "entry_point"),
    ],
)
def test_what_is_no_draft_says_what_is_missing(answer, reason):
    with pytest.raises(NoDraft, match=f"^{reason}: "):
        read_draft(answer)
