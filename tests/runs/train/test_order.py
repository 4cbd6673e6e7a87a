from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dph.recipe.objective import AnchorSettings
from dph.records import Problem
from dph.runs.train.rows import (
    PolicyRow,
    Position,
    next_problems,
    prompts_of_step,
    rehearsal_of_step,
    schemas_of_step,
    split_minibatches,
    stored_of_step,
)
from loop_parts import stored_answer

PROBLEMS = [Problem(problem_id=str(i), prompt="p") for i in range(10)]
STORED = [stored_answer(problem=str(i), index=8) for i in range(10)]


@given(st.lists(st.integers(1, 10), max_size=20), st.integers(0, 5))
def test_no_problem_comes_twice_in_one_call(counts, seed):
    position = Position()
    for count in counts:
        chosen, position = next_problems(PROBLEMS, count, position, seed=seed)
        assert len({p.problem_id for p in chosen}) == count


def test_an_epoch_shows_every_problem_once_and_leaves_out_a_tail_that_is_too_short():
    position, seen = Position(), []
    for _ in range(5):
        chosen, position = next_problems(PROBLEMS, 2, position, seed=0)
        seen += [p.problem_id for p in chosen]
    assert sorted(seen) == sorted(p.problem_id for p in PROBLEMS)
    assert next_problems(PROBLEMS, 2, position, seed=0)[1] == Position(epoch=1, offset=2)
    chosen, position = next_problems(PROBLEMS, 4, Position(epoch=0, offset=8), seed=0)
    assert len(chosen) == 4
    assert position == Position(epoch=1, offset=4)


def test_epochs_and_seeds_have_their_own_shuffles():
    orders = {
        tuple(p.problem_id for p in next_problems(PROBLEMS, 10, Position(epoch=e), seed=s)[0])
        for e in range(3)
        for s in range(3)
    }
    assert len(orders) == 9


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
    chosen = prompts_of_step(PROMPTS, 4, 1, seed=0)
    # Two prompts of three answers: one would be too few.
    assert sorted(Counter(row.prompt_ids for row in chosen).values()) == [3, 3]
    assert chosen == prompts_of_step(PROMPTS, 4, 1, seed=0)
    assert len({tuple(prompts_of_step(PROMPTS, 4, step, seed=0)) for step in range(20)}) > 5
    assert sorted(prompts_of_step(PROMPTS, 99, 1, seed=0), key=PROMPTS.index) == PROMPTS


PROMPTS = [
    stored_answer((answer,), prompt=(prompt,), problem=str(prompt), index=answer)
    for prompt in range(5)
    for answer in range(3)
]
SCHEMAS = [tuple(range(1000 * k, 1000 * k + 40)) for k in range(4)]


def drawn(samples, count, step, **settings):
    anchor = AnchorSettings(divergence="forward_kl", **settings)
    return stored_of_step(samples, anchor, step, count=count, seed=0)


def asked(schema, question):
    """A stored answer of 3 tokens to a question of 5 tokens on a schema of 40."""
    prompt = (*SCHEMAS[schema], *(7 + question,) * 5)
    return stored_answer((0,) * 3, prompt=prompt, problem=f"{schema} {question}")


ASKED = [asked(schema, question) for schema in range(4) for question in range(6)]


def test_answers_of_one_schema_come_together_as_often_and_small_ones_fill_a_step():
    times = Counter()
    for step in range(2000):
        chosen = drawn(ASKED, 5, step, whole_schemas=True)
        assert len({row.problem_id for row in chosen}) == 5
        assert len({row.prompt_ids[:40] for row in chosen}) == 1
        times.update(row.problem_id for row in chosen)
    # 2,000 draws with probability 5/24: four standard deviations are 73.
    assert len(times) == 24
    assert all(abs(count - 2000 * 5 / 24) < 73 for count in times.values())
    assert chosen == drawn(ASKED, 5, 1999, whole_schemas=True)
    rows = [asked(schema, question) for schema in range(4) for question in range(3)]
    chosen = drawn(rows, 5, 1, whole_schemas=True)
    assert sorted(Counter(row.prompt_ids[0] for row in chosen).values()) == [2, 3]


def test_a_step_computes_no_more_tokens_than_it_may():
    apart = [asked(schema, 0) for schema in range(4)]  # 48 tokens each
    for most, expected in [(1, 1), (48, 1), (95, 1), (96, 2)]:
        chosen = drawn(apart, 9, 3, tokens_per_step=most)
        assert chosen == rehearsal_of_step(apart, 9, 3, seed=0)[:expected]
    # 48 tokens for the first, and 8 more for each that has the schema.
    chosen = drawn(ASKED, 24, 3, whole_schemas=True, tokens_per_step=48 + 3 * 8 + 7)
    assert chosen == schemas_of_step(ASKED, 24, 3, seed=0)[:4]


def test_settings_of_an_anchor_say_how_its_samples_are_drawn():
    assert drawn(PROMPTS, 7, 1, per_step=3, whole_prompts=True) == prompts_of_step(
        PROMPTS, 3, 1, seed=0
    )
    assert drawn(PROMPTS, 4, 1) == rehearsal_of_step(PROMPTS, 4, 1, seed=0)


def group_of(name, size=2):
    return tuple(
        PolicyRow(prompt_ids=(name,), completion_ids=(i,), advantage=1.0, old_logprobs=(0.0,))
        for i in range(size)
    )


@given(st.integers(1, 12), st.integers(0, 12), st.integers(1, 6))
def test_every_group_and_sample_is_in_one_minibatch_and_shares_differ_by_at_most_one(
    groups, samples, parts
):
    all_groups = [group_of(i) for i in range(groups)]
    all_stored = [stored_answer(problem=str(i), prompt=(i,)) for i in range(samples)]
    batches = split_minibatches(all_groups, {"a": all_stored, "b": all_stored[:1]}, parts)
    assert len(batches) == min(parts, groups)
    for sizes in ([len(b.groups) for b in batches], [len(b.stored["a"]) for b in batches]):
        assert max(sizes) - min(sizes) <= 1
    assert sorted(g[0].prompt_ids for b in batches for g in b.groups) == [
        (i,) for i in range(groups)
    ]
    for name, share in (("a", all_stored), ("b", all_stored[:1])):
        dealt = [s.problem_id for b in batches for s in b.stored[name]]
        assert sorted(dealt) == sorted(s.problem_id for s in share)
    whole = split_minibatches(all_groups, {"a": [s for s in all_stored for _ in range(3)]}, parts)
    assert [[s.problem_id for s in b.stored["a"]][::3] for b in whole] == [
        [s.problem_id for s in b.stored["a"]] for b in batches
    ]
