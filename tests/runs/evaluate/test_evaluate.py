import logging

import pytest

from dph.errors import DataError, SettingsError, VerifierError
from dph.records import Outcome, Verdict
from dph.runs.evaluate import evaluate as module
from dph.runs.evaluate.evaluate import EvaluationSet, evaluate, evaluate_set, total_answers
from dph.runs.evaluate.samples_file import read_scores
from runs.evaluate.digits import CountingSampler, DigitVerifier


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 4)


def run(path, sets, **changes):
    return evaluate(path, sets, **{"model": "weights", "samples": 3, "seed": 0, **changes})


@pytest.mark.parametrize("fail_at_call", range(1, 11))
def test_an_evaluation_killed_anywhere_ends_with_the_same_file(make_set, tmp_path, fail_at_call):
    def sets(sampler):  # 3 + 2 chunks, two calls each
        return [make_set("a", 10, sampler), make_set("b", 5, sampler)]

    run(tmp_path / "whole.parquet", sets(CountingSampler()))
    path = tmp_path / "run" / "samples.parquet"
    with pytest.raises(RuntimeError, match="killed"):
        run(path, sets(CountingSampler(fail_at_call)))
    assert not path.exists()
    again, seen = CountingSampler(), []
    run(path, sets(again), on_progress=seen.append)
    assert path.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert again.calls == 10 - 2 * ((fail_at_call - 1) // 2)  # finished chunks are not drawn again
    assert sum(seen) == total_answers(sets(again), samples=3)
    assert [p.name for p in path.parent.iterdir()] == ["samples.parquet"]


def test_a_finished_evaluation_is_not_done_again(make_set, tmp_path):
    path, seen = tmp_path / "samples.parquet", []
    first = run(path, [make_set()])
    sampler = CountingSampler(fail_at_call=1)
    assert run(path, [make_set(sampler=sampler)], on_progress=seen.append).equals(first)
    assert seen == [10 * 4]


@pytest.mark.parametrize(
    "changes", [{"model": "other"}, {"seed": 1}, {"samples": 2}, {"greedy": False}]
)
def test_parts_of_other_settings_are_removed_with_a_message(make_set, tmp_path, caplog, changes):
    path = tmp_path / "samples.parquet"
    with pytest.raises(RuntimeError):
        run(path, [make_set(sampler=CountingSampler(3))])
    sampler = CountingSampler()
    with caplog.at_level(logging.WARNING):
        run(path, [make_set(sampler=sampler)], **changes)
    assert "other settings" in caplog.text
    assert sampler.calls == (3 if "greedy" in changes else 6)


def test_a_finished_file_of_other_parameters_is_replaced(make_set, tmp_path):
    path = tmp_path / "samples.parquet"
    run(path, [make_set()])
    assert len(read_scores(path)["digits"].problem_ids) == 10
    for changes in ({"temperature": 0.5}, {"style": None}, {"problems": 3}):
        sampler = CountingSampler()
        run(path, [make_set(sampler=sampler, **changes)])
        assert sampler.calls > 0
    assert len(read_scores(path)["digits"].problem_ids) == 3


@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"version": "2"}, {"settings": {"timeout": 9.0}}]
)
def test_verdicts_of_another_verifier_or_of_other_settings_are_not_returned(
    make_set, tmp_path, change
):
    path, first = tmp_path / "samples.parquet", make_set()
    run(path, [first])
    verifier = DigitVerifier()
    for name, value in change.items():
        setattr(verifier, name, value)
    sampler = CountingSampler()
    draw = module.replace(first.draw, verifier=verifier, sampler=sampler)
    run(path, [module.replace(first, draw=draw)])
    assert sampler.calls > 0


def test_a_chunk_of_which_most_crash_the_verifier_ends_the_evaluation(make_set, tmp_path):
    class Crashing(DigitVerifier):
        def grade(self, problems, responses):
            crash = Verdict(outcome=Outcome.CRASHED, reward=0.0, reason="KeyError: 'limit'")
            graded = super().grade(problems, responses)
            return [
                crash if int(p.problem_id[-1]) >= 4 else v
                for p, v in zip(problems, graded, strict=True)
            ]

    path, chosen = tmp_path / "samples.parquet", make_set()
    draw = module.replace(chosen.draw, verifier=Crashing(), crash_limit=0.5)
    with pytest.raises(VerifierError, match="KeyError: 'limit'"):
        run(path, [module.replace(chosen, draw=draw)])
    assert [p.name for p in (tmp_path / "samples.partial").glob("*.parquet")] == ["000000.parquet"]


def test_greedy_answers_come_first_and_one_that_was_cut_off_has_an_outcome_of_its_own(make_set):
    rows = evaluate_set(make_set(problems=2), samples=2, seed=0).to_pylist()
    order = [(row["problem_id"], row["sample_index"]) for row in rows]
    assert order == [(f"digits-{i}", index) for i in range(2) for index in (-1, 0, 1)]
    rows = evaluate_set(make_set(problems=40), samples=8, seed=0).to_pylist()
    cut = [row for row in rows if not row["finished"]]
    assert cut
    assert {(row["outcome"], row["reward"]) for row in cut} == {("CUT_OFF", 0.0)}


def test_no_sets_give_an_empty_file_and_sets_that_cannot_be_evaluated_are_refused(
    tmp_path, make_set
):
    assert run(tmp_path / "samples.parquet", []).num_rows == 0
    assert read_scores(tmp_path / "samples.parquet") == {}
    with pytest.raises(DataError, match="'digits' has no problems"):
        make_set(problems=0)
    one = make_set(problems=1)
    with pytest.raises(DataError, match="two problems 'digits-0'"):
        EvaluationSet(name="digits", problems=one.problems * 2, draw=one.draw)
    with pytest.raises(SettingsError, match="different names, got digits, digits"):
        run(tmp_path / "samples.parquet", [one, one])
    with pytest.raises(SettingsError, match="at least 1, got 0"):
        run(tmp_path / "samples.parquet", [one], samples=0)
