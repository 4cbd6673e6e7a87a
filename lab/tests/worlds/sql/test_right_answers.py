"""Right answers to unlabelled prompts: read back from the words of each question."""

from random import Random

import pytest

from dph.errors import DataError
from dph.records import Problem
from lab.worlds.sql.domains import DOMAINS
from lab.worlds.sql.question_sets import (
    gold_sql,
    more_across,
    more_in_domain,
    question_of,
    with_right_answers,
)
from lab.worlds.sql.questions import KINDS, draw_question


@pytest.mark.parametrize("domain", DOMAINS, ids=[domain.name for domain in DOMAINS])
def test_every_kind_of_question_is_read_back_from_its_prompt(domain):
    rng, seen = Random(domain.name), set()
    for _ in range(400):
        question = draw_question(domain, rng)
        seen.add(question.kind)
        found = question_of(Problem(problem_id="u", prompt=question.prompt))
        assert found == question
        assert gold_sql(found) == gold_sql(question)
    assert seen == set(KINDS)


def test_prompts_keep_their_order_their_ids_and_their_columns_and_gain_a_query():
    questions = [draw_question(DOMAINS[0], Random(seed)) for seed in range(5)]
    rows = [
        Problem(problem_id=f"u{i}", prompt=q.prompt, answer={"part": "others", "database": "d"})
        for i, q in enumerate(questions)
    ]
    made = with_right_answers((), rows, seed=0)
    assert [(p.problem_id, p.prompt) for p in made] == [(p.problem_id, p.prompt) for p in rows]
    for problem, question in zip(made, questions, strict=True):
        assert problem.answer == {
            "part": "others",
            "database": "d",
            "gold_sql": gold_sql(question),
        }


@pytest.mark.parametrize(
    ("choose", "about"), [(more_in_domain, "trained"), (more_across, "others")]
)
def test_more_labels_are_those_of_the_prompts_about_one_part_after_the_training_problems(
    choose, about
):
    train = [Problem(problem_id="t0", prompt="p", answer={"gold_sql": "SELECT 1"})]
    file = [
        Problem(
            problem_id=f"u{i}",
            prompt=draw_question(DOMAINS[0], Random(i)).prompt,
            answer={"part": ("trained", "others", "untested")[i % 3]},
        )
        for i in range(6)
    ]
    found = choose(train, file, seed=0)
    assert found[:1] == train
    assert [p.answer["part"] for p in found[1:]] == [about, about]
    assert all(p.answer["gold_sql"] == gold_sql(question_of(p)) for p in found[1:])


@pytest.mark.parametrize(
    "prompt",
    [
        "singer | show fame of singer ->",
        f"{DOMAINS[0].schema} | show fame of singer ->",
        f"{DOMAINS[0].schema} | show fame of singer with seniority above many ->",
        f"{DOMAINS[0].schema} | show fame of singer with seniority above 20 and ->",
    ],
)
def test_a_prompt_that_is_no_question_of_the_world_is_refused_by_name(prompt):
    with pytest.raises(DataError, match="'u7' is not a question of the text-to-SQL world"):
        with_right_answers((), [Problem(problem_id="u7", prompt=prompt)], seed=0)
