import logging

import pytest

from dph.errors import DataError, SettingsError, VerifierError
from dph.model.forward.scorer import ComparedTokens
from dph.records import Outcome, Verdict
from dph.runs.evaluate import evaluate as module
from dph.runs.evaluate.evaluate import (
    EvaluationSet,
    evaluate,
    evaluate_set,
    keep_token_details,
    total_answers,
)
from dph.runs.evaluate.samples_file import read_scores, read_token_details
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


def reader(calls=None):
    def compare(prompts, completions):
        if calls is not None:
            calls.append(len(prompts))
        return [
            ComparedTokens(
                logprobs=(-0.5,) * len(ids),
                ref_logprobs=(-0.25,) * len(ids),
                entropy=(1.5,) * len(ids),
                reverse_kl=(0.0,) * len(ids),
                forward_kl=(0.0,) * len(ids),
            )
            for ids in completions
        ]

    return {"compare": compare, "piece": lambda token: f"<{token}>"}


@pytest.fixture
def evaluated(tmp_path, make_set):
    sets = [make_set(problems=6), make_set("more", problems=3)]
    table = evaluate(tmp_path / "samples.parquet", sets, model="m", samples=4, seed=1)
    return sets, table


def keep(path, evaluated, **changes):
    sets, table = evaluated
    settings = {"samples": 2, "seed": 1, "digest": "d", **reader(), **changes}
    keep_token_details(path, sets, table, **settings)


def test_the_first_samples_and_the_greedy_answer_are_kept_token_by_token(tmp_path, evaluated):
    path = tmp_path / "tokens.parquet"
    keep(path, evaluated)
    rows = read_token_details(path).to_pylist()
    assert len(rows) == 9 * 3
    assert [row["sample_index"] for row in rows[:3]] == [-1, 0, 1]
    graded = {
        (row["set"], row["problem_id"], row["sample_index"]): row["tokens"]
        for row in evaluated[1].to_pylist()
    }
    for row in rows:
        length = graded[row["set"], row["problem_id"], row["sample_index"]]
        assert row["token_ids"] == [1] * length
        assert row["pieces"] == ["<1>"] * length
        assert row["entropy"] == [1.5] * length
        assert (row["logprobs"], row["ref_logprobs"]) == ([-0.5] * length, [-0.25] * length)


def test_a_finished_file_is_left_and_another_digest_makes_it_again(tmp_path, evaluated):
    path, calls = tmp_path / "tokens.parquet", []
    for digest in ("d", "d", "e"):
        keep(path, evaluated, **reader(calls), digest=digest)
    assert calls == 2 * [3 * 4, 3 * 2, 3 * 3]  # two chunks of the first set, one of the second


def test_a_killed_call_continues_with_the_chunk_it_was_at(tmp_path, evaluated):
    path, calls = tmp_path / "tokens.parquet", []
    keep(tmp_path / "whole.parquet", evaluated)
    sets, _ = evaluated
    for chosen in sets:
        chosen.draw.sampler.calls = 0
    sets[0].draw.sampler.fail_at_call = 3  # the greedy answers of the second chunk
    with pytest.raises(RuntimeError, match="killed"):
        keep(path, evaluated)
    sets[0].draw.sampler.fail_at_call = None
    keep(path, evaluated, **reader(calls))
    assert calls == [3 * 2, 3 * 3]
    assert path.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_answers_that_came_out_otherwise_are_left_out_and_counted(tmp_path, evaluated, caplog):
    path = tmp_path / "tokens.parquet"
    with caplog.at_level(logging.WARNING):
        keep(path, evaluated, seed=2)  # other draws than those that were graded
    rows = read_token_details(path).to_pylist()
    texts = {
        (row["set"], row["problem_id"], row["sample_index"]): row["text"]
        for row in evaluated[1].to_pylist()
    }
    sampler = CountingSampler()
    draw = evaluated[0][0].draw
    for row in rows:
        if row["sample_index"] >= 0:
            again = sampler._draw(row["problem_id"], row["sample_index"], draw.parameters, 2)
            assert again.text == texts[row["set"], row["problem_id"], row["sample_index"]]
    (record,) = caplog.records
    assert f"{9 * 3 - len(rows)} of {9 * 3} answers differed" in record.message
