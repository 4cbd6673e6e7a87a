import pytest

from dph.model.forward.scorer import AnswerScorer
from dph.runs.objective import make_objective
from dph.runs.train.policy_rows import scorers_of
from dph.runs.train.tracking import read_metrics
from dph.runs.train.updating import update
from loop_parts import letters_recipe


def recipe_of(method="grpo", dtype="bfloat16", **train):
    train = {"steps": 2, "minibatches": 2, **train}
    return letters_recipe(method, model={"path": "letters", "dtype": dtype}, train=train)


SAMPLERS, FIRST_OF_TWO, ALL = (False, 0), (True, 2), (True, 0)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"dtype": "float32"}, SAMPLERS),
        ({"dtype": "float32", "old_logprobs": "recompute"}, ALL),
        ({}, FIRST_OF_TWO),
        ({"old_logprobs": "sampler"}, SAMPLERS),
        ({"old_logprobs": "recompute"}, ALL),
        ({"epochs": 2}, ALL),  # every row comes again
        ({"method": "rkl"}, FIRST_OF_TWO),
        ({"method": "flowrl"}, ALL),  # the advantage compares them
    ],
)
def test_rows_are_scored_before_the_update_only_where_something_reads_it(settings, expected):
    recipe, policy = recipe_of(**settings), object()
    more = {"policy": policy, "reference": policy, "dtype": recipe.model.dtype}
    found = scorers_of(recipe.train, make_objective(recipe.objective), **more)
    assert (found.old is policy, found.first_of) == expected


def test_one_optimizer_step_a_rollout_makes_no_second_pass(start, tmp_path, monkeypatch):
    passes = []
    inner = AnswerScorer.logprobs

    def counted(self, model, prompts, *rest, **options):
        passes.append(len(prompts))
        return inner(self, model, prompts, *rest, **options)

    monkeypatch.setattr(AnswerScorer, "logprobs", counted)
    start(recipe_of(minibatches=1), tmp_path / "once")
    assert not passes
    lines = read_metrics(tmp_path / "once" / "metrics.jsonl")
    for line in lines:
        assert line["clipped_low"] == line["clipped_high"] == 0
        assert 0 <= line["sampler_gap"] <= line["sampler_gap_max"]
    start(recipe_of(minibatches=1, old_logprobs="recompute"), tmp_path / "again")
    again = read_metrics(tmp_path / "again" / "metrics.jsonl")
    assert passes == [line["rows"] for line in again]
    assert lines[0]["grad_norm"] == pytest.approx(again[0]["grad_norm"], rel=0.02)


def test_of_two_mini_batches_the_rows_of_the_second_alone_are_scored(start, tmp_path, monkeypatch):
    seen, updates = [], []

    def noted(minibatch, *rest, on_policy, **options):
        updates.append((on_policy, [row for group in minibatch.groups for row in group]))
        return update(minibatch, *rest, on_policy=on_policy, **options)

    inner = AnswerScorer.logprobs

    def counted(self, model, prompts, completions, **options):
        found = inner(self, model, prompts, completions, **options)
        seen.append(dict(zip(zip(prompts, completions, strict=True), found, strict=True)))
        return found

    monkeypatch.setattr("dph.runs.train.loop.update", noted)
    monkeypatch.setattr(AnswerScorer, "logprobs", counted)
    start(recipe_of(), tmp_path)
    assert [on_policy for on_policy, _ in updates] == [True, False] * 2
    second = [[row for row in rows if row.advantage] for _, rows in updates[1::2]]
    for scored, rows in zip(seen, filter(None, second), strict=True):
        assert scored.keys() == {(row.prompt_ids, row.completion_ids) for row in rows}
        assert all(row.old_logprobs == scored[row.prompt_ids, row.completion_ids] for row in rows)
