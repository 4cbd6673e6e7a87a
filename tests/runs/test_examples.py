import pytest

from dph import DataError
from dph.records import Problem
from dph.runs.task import Example, Shots, drawn_examples

SHOTS = Shots((Example("1 + 1", "2"), Example("{x}", "{answer}")), "Q: {prompt}\nA: {answer}\n\n")


def text(prompt):
    return Problem(problem_id="p", prompt=prompt, answer={"answer": "3"})


def test_a_question_ends_where_its_answer_would_begin():
    asked = SHOTS.before(text("1 + 2"), chat=False)
    assert asked.prompt == "Q: 1 + 1\nA: 2\n\nQ: {x}\nA: {answer}\n\nQ: 1 + 2\nA:"
    assert (asked.problem_id, asked.answer) == ("p", {"answer": "3"})


def test_all_questions_begin_alike():
    first, second = (SHOTS.before(text(each), chat=False).prompt for each in ("a", "b"))
    assert first.removesuffix("a\nA:") == second.removesuffix("b\nA:")


@pytest.mark.parametrize("chat", [False, True])
def test_examples_are_put_before_a_problem_once(chat):
    once = SHOTS.before(text("1 + 2"), chat=chat)
    assert SHOTS.before(once, chat=chat) == once


def test_in_a_chat_each_example_is_a_message_of_the_user_and_one_of_the_assistant():
    system = {"role": "system", "content": "Be short."}
    asked = Shots((Example("1 + 1", "2"),)).before(
        Problem(problem_id="p", prompt=(system, {"role": "user", "content": "1 + 2"})), chat=False
    )
    assert asked.prompt == (
        system,
        {"role": "user", "content": "1 + 1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "1 + 2"},
    )


def test_the_seed_draws_and_without_a_count_the_order_is_the_files():
    problems = [Problem(problem_id=f"{i}", prompt=f"q{i}", answer={"gold": i}) for i in range(9)]

    def drawn(**options):
        options = {"count": 4, "answer": "gold", "seed": 0, "where": "f"} | options
        return [each.problem_id for each in drawn_examples(problems, **options)[0]]

    assert drawn() == drawn()
    assert drawn() != drawn(seed=1)
    assert len(set(drawn())) == 4
    assert drawn(count=None) == [f"{i}" for i in range(9)]


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (text("a"), {"count": 2}, "2 examples are needed, f has 1"),
        (text("a"), {"answer": "gold"}, r"'p' of f has no 'gold'; its fields are \['answer'\]"),
        (
            Problem(problem_id="c", prompt=({"role": "user", "content": "a"},), answer={"gold": 1}),
            {"answer": "gold"},
            "'c' of f is a chat; an example must be text",
        ),
    ],
)
def test_what_cannot_be_shown_is_one_message(problem, options, message):
    with pytest.raises(DataError, match=message):
        drawn_examples(
            [problem], **{"count": None, "answer": "answer", "seed": 0, "where": "f", **options}
        )
