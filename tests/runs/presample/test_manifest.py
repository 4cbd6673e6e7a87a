from pathlib import Path

import pytest

from dph.errors import PoolError
from dph.runs.presample.manifest import (
    Counts,
    Manifest,
    Rule,
    ValueSource,
    cut_off_share,
    likely_cause,
    require_fit,
    require_usable,
    shortage,
)
from dph.runs.presample.pool import load_pool
from letter_task import GRADING
from small_pools import small_source
from tiny_models import build_model


def manifest(outcomes, *, histogram=(10, 0, 0, 0, 0), threshold=3, **sides):
    sizes = {"answers": 50, "tokens": 500, "cut_off": 0, "bytes_per_token": 1.0}
    counts = {**sizes, "prompts": 10, "exploration": 10, "rehearsal": 0, "discarded": 0, **sides}
    return Manifest(
        format=3,
        kind="pool",
        source=small_source(build_model(), answers=4, max_tokens=512),
        values=ValueSource(graded_by="grader:grade", graded_version="1"),
        rule=Rule(threshold=threshold, wrong_final="discard"),
        counts=Counts(**counts, histogram=histogram, outcomes=outcomes),
        files={},
    )


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ({"CUT_OFF": 48, "WRONG": 2}, "96.0% of the answers were cut off at sampling.max_tokens"),
        ({"CUT_OFF": 10, "CORRECT": 40}, "'grader:grade' called every answer correct"),
        ({"CRASHED": 50}, "'grader:grade' crashed on 100.0% of the answers"),
        ({"CRASHED": 20, "CUT_OFF": 20, "WRONG": 10}, "'grader:grade' crashed on 66.7%"),
        ({"TIMED_OUT": 50}, "'grader:grade' timed out on 100.0%.*data.verifier_timeout"),
        ({"NO_ANSWER": 50}, "found no answer in 100.0% of the responses"),
        ({"INVALID": 50}, "could not evaluate 100.0% of the answers"),
        ({"BAD_GOLD": 50}, "could not use the gold answer.*ungradable.parquet"),
        ({"WRONG": 50}, "called none of the first 4 answers to any problem correct"),
    ],
)
def test_the_cause_is_the_outcome_that_nearly_all_answers_have(outcomes, said):
    found = manifest(outcomes)
    with pytest.raises(PoolError, match=said) as refused:
        require_usable(Path("pool"), found, rehearses=True, explores=1)
    assert "lower presample.threshold" not in str(refused.value)


def test_a_refusal_holds_both_histograms():
    found = manifest({"WRONG": 30, "CORRECT": 20}, histogram=(1, 4, 5, 0, 0))
    with pytest.raises(PoolError) as refused:
        require_usable(Path("pool"), found, rehearses=True, explores=1)
    said = str(refused.value)
    assert "holds no rehearsal sample" in said
    assert "0 of 4: 1, 1 of 4: 4, 2 of 4: 5" in said
    assert "WRONG 60.0%, CORRECT 40.0%" in said
    assert "no problem was solved more than 2 of 4 times: lower presample.threshold" in said


def test_too_easy_problems_and_wrong_final_samples_are_named():
    easy = {"histogram": (0, 0, 0, 5, 5), "exploration": 0, "rehearsal": 10}
    found = manifest({"WRONG": 5, "CORRECT": 45}, **easy)
    assert shortage(found.counts) == "no problem to explore"
    assert "raise presample.threshold, which is 3 of 4" in likely_cause(found)
    wrong = {"histogram": (5, 0, 0, 5, 0), "exploration": 5, "discarded": 5}
    found = manifest({"WRONG": 20, "CORRECT": 30}, **wrong)
    assert "the final sample of every near-perfect problem was wrong" in likely_cause(found)


def test_fewer_problems_than_a_step_needs_are_told_with_both_numbers():
    found = manifest({"WRONG": 25, "CORRECT": 25}, histogram=(5, 0, 0, 0, 5), rehearsal=5)
    with pytest.raises(PoolError, match=r"10 problems to explore, fewer than .* = 64.* lower tr"):
        require_usable(Path("pool"), found, rehearses=True, explores=64)


def test_what_a_method_does_not_need_may_be_missing():
    require_usable(Path("pool"), manifest({"WRONG": 50}), rehearses=False, explores=10)
    found = manifest({"CORRECT": 50}, exploration=0, rehearsal=10)
    require_usable(Path("pool"), found, rehearses=True, explores=0)


def test_the_share_of_cut_off_answers_is_not_known_in_the_first_format():
    assert cut_off_share(manifest({"CUT_OFF": 1, "WRONG": 3}).counts) == 0.25
    assert cut_off_share(manifest({}).counts) is None


def test_a_damaged_manifest_is_refused(tmp_path):
    for content, message in [
        ("{", "is not a pool"),
        ("{}", "pool format None is unknown"),
        ('{"format": 4}', "pool format 4 is unknown, this version reads 3"),
        ('{"format": 3}', "is damaged: kind"),
    ]:
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(PoolError, match=message):
            load_pool(tmp_path)


def test_a_pool_of_something_else_is_refused(pool_of, tmp_path, make_model, make_source, rule):
    manifest, model = pool_of(tmp_path / "pool"), make_model()

    def fits(grading=(), **source):
        graded = GRADING.model_copy(update=dict(grading))
        require_fit(tmp_path / "pool", manifest, make_source(model, **source), graded, rule)

    fits(path="elsewhere")  # a moved model directory
    for changes, named in [
        ({"model_fingerprint": "x"}, "model fingerprint was"),
        ({"tokenizer_fingerprint": "x"}, "tokenizer fingerprint was"),
        ({"prompts_fingerprint": "x"}, "prompts fingerprint was"),
        ({"temperature": 0.7}, r"temperature was 1.0, this run has 0.7"),
        ({"grading": {"graded_by": "x"}}, "verifier was 'letter', this run has 'x'"),
        ({"grading": {"graded_version": "2"}}, "verifier version was '1', this run has '2'"),
        ({"grading": {"graded_settings": {"timeout": 2.0}}}, "timeout was None, this run has 2.0"),
    ]:
        with pytest.raises(PoolError, match=named):
            fits(**changes)
