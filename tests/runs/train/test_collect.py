from dataclasses import replace

import pytest

from dph.errors import SettingsError, TrainingError
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.graded import GradedSampler
from dph.records import Outcome, Problem
from dph.runs.train.collect import SelfConsistency, uniform_outcomes
from dph.runs.train.tracking import step_metrics
from loop_parts import collected, completion, graded, group_of, rollout_of

RIGHT, WRONG, BAD, CRASHED = (
    graded(outcome, reason="no such table: pet")
    for outcome in (Outcome.CORRECT, Outcome.WRONG, Outcome.BAD_GOLD, Outcome.CRASHED)
)
HALF = graded(Outcome.WRONG, reward=0.5)


def drawn_and_kept(answers, *, wanted, **objective):
    """Problems of a step's groups; ``answers`` are those to each problem's id."""

    def draw(problems, **_):
        return rollout_of(problems, [answers[problem.problem_id] for problem in problems])

    found = collected(draw, names=answers, wanted=wanted, samples=2, **objective)
    names = {id(group): name for name, group in answers.items()}
    return [
        "".join(sorted({names[id(g.completions)] for g in part}))
        for part in (found.drawn, found.groups)
    ]


def test_ungradable_golds_are_left_out_replaced_and_told_where_there_are_no_others():
    answers = {"a": (RIGHT, WRONG), "b": (RIGHT, BAD), "c": (WRONG, WRONG)}
    assert drawn_and_kept(answers, wanted=3) == ["abc", "ac"]
    assert drawn_and_kept({"b": (BAD, BAD), "g": (RIGHT, WRONG)}, wanted=1)[1] == "g"
    with pytest.raises(TrainingError, match=r"no gold answer of \d+ groups .*no such table: pet"):
        drawn_and_kept({"a": (BAD, BAD), "b": (BAD, BAD)}, wanted=2)


def test_dynamic_sampling_counts_no_signal_that_a_crash_or_a_bad_gold_pretends():
    answers = {"a": (RIGHT, WRONG), "b": (RIGHT, BAD), "c": (RIGHT, CRASHED)}
    assert drawn_and_kept(answers, wanted=3, dynamic_sampling=True, max_refills=2)[1] == "a"


@pytest.mark.parametrize("outcome", Outcome)
def test_one_outcome_for_all_answers_is_named_with_what_to_look_at(outcome):
    answer = graded(outcome, reward=0.0)
    said = uniform_outcomes([group_of(answer, answer)] * 3)
    assert said.startswith(f"all 6 answers are {outcome.value}: ")
    assert len(said) > len(f"all 6 answers are {outcome.value}: ")


def test_groups_that_differ_alone_are_counted_and_what_differs_within_one_is_enough():
    right, wrong = group_of(RIGHT, RIGHT), group_of(WRONG, WRONG)
    assert "4 CORRECT, 2 WRONG" in uniform_outcomes([right, wrong, right])
    assert uniform_outcomes([group_of(RIGHT, RIGHT), group_of(RIGHT, WRONG)]) is None
    assert uniform_outcomes([group_of(WRONG, HALF)]) is None


PROMPTS = tuple(Problem(problem_id=f"u{i}", prompt=f"{i}") for i in range(7))


class Letters:
    """Answers agree when they start with the same letter; '?' is no result."""

    identity = {"name": "letters", "version": "1", "settings": {}}  # noqa: RUF012

    def classes(self, problems, answers):
        assert len(problems) == len(answers)
        found = []
        for group in answers:
            letters = [t[0] if t and t[0] != "?" else None for t in group]
            order = list(dict.fromkeys(letter for letter in letters if letter is not None))
            found.append(tuple(None if c is None else order.index(c) for c in letters))
        return found

    def close(self):
        pass


def consistency(*, per_step=2, seed=0):
    return SelfConsistency(problems=PROMPTS, per_step=per_step, comparer=Letters(), seed=seed)


def rewards(verdicts):
    return [[v.reward for v in group] for group in verdicts]


def test_the_majority_earns_one_and_the_first_of_two_equal_ones_is_it():
    groups = [["b", "a", "apple", None], ["a", "b", "b", "a"], ["?", None, "?", "?"]]
    verdicts = consistency().verdicts(PROMPTS[:3], groups)
    assert rewards(verdicts) == [[0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]]
    assert {v.outcome for v in verdicts[2]} == {Outcome.NO_ANSWER}


def test_the_prompts_of_a_step_are_a_function_of_seed_and_step_and_none_comes_twice():
    made, again = consistency(), consistency()
    steps = [[p.problem_id for p in made.of_step(step)] for step in range(1, 10)]
    assert steps == [[p.problem_id for p in again.of_step(step)] for step in range(1, 10)]
    for start in (0, 3, 6):  # three steps of two make a pass over seven prompts
        one_pass = [name for step in steps[start : start + 3] for name in step]
        assert len(set(one_pass)) == 6
    assert steps[:3] != steps[3:6]
    other = consistency(seed=1)
    assert steps != [[p.problem_id for p in other.of_step(step)] for step in range(1, 10)]


def test_too_few_prompts_are_refused():
    with pytest.raises(SettingsError, match="only 7 unlabelled prompts"):
        consistency(per_step=8)


class Sampler:
    """Gives every unlabelled prompt the same texts."""

    def __init__(self, texts):
        self.texts = texts

    def sample(self, requests, *_, **__):
        return [
            [answer(r.problem_id, i, self.texts[i]) for i in range(r.samples)] for r in requests
        ]


def answer(problem, index, text):
    done = text is not None
    return completion(problem=problem, index=index, finished=done, text=text or "")


class Draw(GradedSampler):
    """Grades labelled problems as right and wrong in turn."""

    def __call__(self, problems, *, samples, seed):  # noqa: ARG002
        turns = (Outcome.CORRECT, Outcome.WRONG)
        groups = [
            tuple(graded(turns[i % 2], problem=p.problem_id, index=i) for i in range(samples))
            for p in problems
        ]
        return rollout_of(problems, groups)


def drawn(texts, *, of=4, **objective):
    """A step of ``of`` groups, of which two are of unlabelled prompts."""
    draw = Draw(
        sampler=Sampler(texts),
        verifier=None,
        encode=lambda _: (1,),
        parameters=SamplingParameters(max_tokens=4, stop_token_ids=(0,)),
    )
    sizes = {"names": "abcdefgh", "wanted": of, "samples": len(texts)}
    return collected(draw, **sizes, unlabelled=consistency(), **objective)


def test_a_step_has_as_many_groups_as_without_unlabelled_ones():
    found = drawn(["a", "a", "b", "?"])
    assert [group.labelled for group in found.groups] == [True, True, False, False]
    assert (found.position.offset, found.refills) == (2, 0)
    everything = drawn(["a", "a", "b", "?"], of=2)
    assert [group.labelled for group in everything.groups] == [False, False]
    assert (everything.position.offset, everything.refills) == (0, 0)


def test_dynamic_sampling_leaves_out_unlabelled_groups_in_which_all_agree():
    kept = drawn(["a", "a", "a", "a"], dynamic_sampling=True)
    assert [group.labelled for group in kept.groups] == [True, True]
    assert sum(not group.labelled for group in kept.drawn) == 2


def report():
    names = ("policy", "clipped_low", "clipped_high", "grad_norm")
    counts = ("rows", "packed", "skipped", "masked", "row_tokens", "computed_tokens")
    tables = ("penalties", "anchors", "weights")
    numbers = {**dict.fromkeys(names, 0.0), **dict.fromkeys(counts, 1)}
    return type("Report", (), {**numbers, **{name: {} for name in tables}})


def test_rewards_of_labelled_and_unlabelled_groups_are_told_apart():
    found = drawn(["a", "a", "b", "?"])
    metrics = step_metrics(found, [report()], None, step=1, learning_rate=0.1)
    assert (metrics["reward"], metrics["correct"]) == (0.5, 0.5)
    assert metrics["unlabelled_reward"] == 0.5
    assert metrics["unlabelled_without_result"] == 0.25
    assert metrics["outcome_wrong"] == 0.5
    assert "outcome_no_answer" not in metrics
    labelled = tuple(group for group in found.drawn if group.labelled)
    plain = step_metrics(
        replace(found, drawn=labelled), [report()], None, step=1, learning_rate=0.1
    )
    assert not any(name.startswith("unlabelled") for name in plain)
