from dataclasses import replace

import pytest

from dph.errors import SettingsError
from dph.model.sampler.base import SamplingParameters
from dph.model.sampler.graded import GradedSampler
from dph.records import Outcome, Problem
from dph.runs.train.collect import SelfConsistency
from dph.runs.train.tracking import step_metrics
from loop_parts import collected, completion, graded, rollout_of

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
