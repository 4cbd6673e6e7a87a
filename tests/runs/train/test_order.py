from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.recipe.objective import AnchorSettings
from dph.records import Problem
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.rows import (
    Drawing,
    Position,
    drawing_of,
    next_problems,
    prompts_of_step,
    rehearsal_of_step,
    schemas_of_step,
    stored_of_step,
)

PROBLEMS = [Problem(problem_id=str(i), prompt="p") for i in range(10)]
STORED = [
    RehearsalSample(
        problem_id=str(i),
        sample_index=8,
        prompt_ids=(1,),
        completion_ids=(1,),
        ref_logprobs=(0.0,),
        correct=8,
    )
    for i in range(10)
]


@given(st.lists(st.integers(1, 10), max_size=20), st.integers(0, 5))
def test_no_problem_comes_twice_in_one_call(counts, seed):
    position = Position()
    for count in counts:
        chosen, position = next_problems(PROBLEMS, count, position, seed=seed)
        assert len({p.problem_id for p in chosen}) == count


def test_an_epoch_shows_every_problem_once():
    position, seen = Position(), []
    for _ in range(5):
        chosen, position = next_problems(PROBLEMS, 2, position, seed=0)
        seen += [p.problem_id for p in chosen]
    assert sorted(seen) == sorted(p.problem_id for p in PROBLEMS)
    chosen, position = next_problems(PROBLEMS, 2, position, seed=0)
    assert position == Position(epoch=1, offset=2)


def test_epochs_and_seeds_have_their_own_shuffles():
    orders = {
        tuple(p.problem_id for p in next_problems(PROBLEMS, 10, Position(epoch=e), seed=s)[0])
        for e in range(3)
        for s in range(3)
    }
    assert len(orders) == 9


def test_a_tail_too_short_for_the_call_is_left_out():
    chosen, position = next_problems(PROBLEMS, 4, Position(epoch=0, offset=8), seed=0)
    assert len(chosen) == 4
    assert position == Position(epoch=1, offset=4)


def test_rehearsal_is_a_function_of_seed_and_step():
    a = rehearsal_of_step(STORED, 4, 7, seed=1)
    assert a == rehearsal_of_step(STORED, 4, 7, seed=1)
    assert a != rehearsal_of_step(STORED, 4, 8, seed=1)
    assert a != rehearsal_of_step(STORED, 4, 7, seed=2)
    assert len({s.problem_id for s in a}) == 4


@pytest.mark.parametrize("count", [10, 99])
def test_a_small_pool_gives_all_it_has(count):
    assert len(rehearsal_of_step(STORED, count, 0, seed=0)) == 10
    assert rehearsal_of_step([], count, 0, seed=0) == []


def test_whole_prompts_come_with_all_their_answers_until_there_are_enough():
    rows = [stored(prompt, answer) for prompt in range(5) for answer in range(3)]
    chosen = prompts_of_step(rows, 4, 1, seed=0)
    assert len(chosen) == 6  # two prompts of three answers: one would be too few
    assert {
        len([r for r in chosen if r.prompt_ids == p]) for p in {r.prompt_ids for r in chosen}
    } == {3}
    assert chosen == prompts_of_step(rows, 4, 1, seed=0)
    assert len({tuple(prompts_of_step(rows, 4, step, seed=0)) for step in range(20)}) > 5
    assert sorted(prompts_of_step(rows, 99, 1, seed=0), key=rows.index) == rows


def stored(prompt, answer):
    return RehearsalSample(
        problem_id=str(prompt),
        sample_index=answer,
        prompt_ids=(prompt,),
        completion_ids=(answer,),
        ref_logprobs=(-1.0,),
        correct=1,
    )


SCHEMAS = [tuple(range(1000 * k, 1000 * k + 40)) for k in range(4)]


def asked(schema, question, answer=0):
    """A stored answer of 3 tokens to a question of 5 tokens on a schema of 40."""
    return RehearsalSample(
        problem_id=f"{schema} {question}",
        sample_index=answer,
        prompt_ids=(*SCHEMAS[schema], *(7 + question,) * 5),
        completion_ids=(answer,) * 3,
        ref_logprobs=(-1.0,) * 3,
        correct=1,
    )


def test_answers_of_one_schema_come_together_and_every_answer_as_often():
    rows = [asked(schema, question) for schema in range(4) for question in range(6)]
    drawing = Drawing(count=5, whole_schemas=True)
    times = Counter()
    for step in range(2000):
        chosen = stored_of_step(rows, drawing, step, seed=0)
        assert len({row.problem_id for row in chosen}) == 5
        assert len({row.prompt_ids[:40] for row in chosen}) == 1
        times.update(row.problem_id for row in chosen)
    # 2,000 draws with probability 5/24: four standard deviations are 73.
    assert len(times) == 24
    assert all(abs(count - 2000 * 5 / 24) < 73 for count in times.values())
    assert chosen == stored_of_step(rows, drawing, 1999, seed=0)


def test_small_schemas_fill_a_step_together():
    rows = [asked(schema, question) for schema in range(4) for question in range(3)]
    chosen = stored_of_step(rows, Drawing(count=5, whole_schemas=True), 1, seed=0)
    assert sorted(Counter(row.prompt_ids[0] for row in chosen).values()) == [2, 3]


def test_a_step_computes_no_more_tokens_than_it_may():
    rows = [asked(schema, question) for schema in range(4) for question in range(6)]
    for most, expected in [(1, 1), (48, 1), (95, 1), (96, 2)]:
        apart = [asked(schema, 0) for schema in range(4)]  # 48 tokens each
        drawing = Drawing(count=9, tokens=most)
        chosen = stored_of_step(apart, drawing, 3, seed=0)
        assert chosen == rehearsal_of_step(apart, 9, 3, seed=0)[:expected]
    # 48 tokens for the first, and 8 more for each that has the schema.
    drawing = Drawing(count=24, whole_schemas=True, tokens=48 + 3 * 8 + 7)
    chosen = stored_of_step(rows, drawing, 3, seed=0)
    assert chosen == schemas_of_step(rows, 24, 3, seed=0)[:4]


def test_settings_of_an_anchor_say_how_its_samples_are_drawn():
    anchor = AnchorSettings(divergence="forward_kl", whole_schemas=True, tokens_per_step=100)
    assert drawing_of(anchor, 7) == Drawing(count=7, whole_schemas=True, tokens=100)
    anchor = AnchorSettings(divergence="forward_kl", per_step=3, whole_prompts=True)
    assert drawing_of(anchor, 7) == Drawing(count=3, whole_prompts=True)
    rows = [stored(prompt, answer) for prompt in range(5) for answer in range(3)]
    assert stored_of_step(rows, drawing_of(anchor, 7), 1, seed=0) == prompts_of_step(
        rows, 3, 1, seed=0
    )
    assert stored_of_step(rows, Drawing(count=4), 1, seed=0) == rehearsal_of_step(
        rows, 4, 1, seed=0
    )
