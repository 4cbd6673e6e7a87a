from dataclasses import replace

import numpy as np
import pytest

from dph.records import Problem
from dph.results.diagnosis.changes import Change, Levels
from dph.results.diagnosis.set_diagnosis import (
    PairedSet,
    SetQuestions,
    diagnose_set,
    name_features,
    set_sentences,
)
from results.diagnosis.models import Model, a_model, samples_of, scores_of

LEVELS = Levels(lost=0.01, gained=0.01, styles=0.01, totals=0.01, features=0.01)
BASE = a_model(100)


def diagnosed(run, baseline, problems=None, names="abcd"):
    sides = []
    for seed, model in enumerate((run, baseline)):
        style, right = model.drawn(16, seed)
        sides.append((samples_of(style, right, names=names), scores_of(right)))
    asked = SetQuestions(ks=[8], levels=LEVELS, resamples=50)
    return diagnose_set(PairedSet("dev", *sides), problems, asked)


def sentences(found):
    return {one.about: one for one in set_sentences("dev", found)}


def changed(*, shares=BASE.shares, chances=BASE.chances):
    return Model(shares=np.broadcast_to(shares, BASE.shares.shape), chances=chances)


def test_of_two_draws_of_one_model_only_the_numbers_are_told():
    found = sentences(diagnosed(BASE, BASE))
    assert set(found) == {"problems", "complementarity", "pass_at_k"}
    assert "none was lost or gained" in found["problems"].text


def test_totals_are_told_where_they_are_named():
    worse = changed(chances=BASE.chances * (np.arange(100) >= 30)[:, None])
    found = diagnosed(worse, BASE)
    told = sentences(found)
    assert (
        "solved by the base model and by no answer of the run" in told["solved_before_alone"].text
    )
    assert "correct_answers" in told
    assert "solved_after_alone" not in told
    assert " They are p" in told["solved_before_alone"].text
    total = replace(found.totals["solved_before_alone"], expected=100.0)  # fewer than chance shows
    fewer = replace(found, totals={**found.totals, "solved_before_alone": total})
    assert sentences(fewer)["solved_before_alone"].text.endswith("such problems.")
    back = sentences(diagnosed(BASE, worse))
    assert "solved_after_alone" in back
    assert "solved_before_alone" not in back


def test_a_fall_that_too_few_answers_were_drawn_for_is_told_with_how_many_would_do():
    """A fall from 6 of 8 to none is not named among twelve problems with 6 of 16 right."""
    before, after = np.array([6, *[4] * 11]), np.array([0, *[2] * 11])

    def found(times):
        samples, sides = 8 * times, []
        for counts in (after, before):
            right = np.arange(samples) < times * counts[:, None]
            sides.append((samples_of(np.zeros(right.shape, int), right), scores_of(right)))
        asked = SetQuestions(ks=[8], levels=LEVELS, resamples=20)
        return diagnose_set(PairedSet("dev", *sides), None, asked)

    assert sentences(found(1))["too_few_answers"].text == (
        "8 answers each are too few to name a lost problem of dev: p0000 fell from 6/8 to 0/8, and "
        "with 16 it would be named."
    )
    assert not found(1).of(Change.LOST)
    assert [one.problem_id for one in found(2).of(Change.LOST)] == ["p0000"]
    assert "too_few_answers" not in sentences(found(2))


def test_named_features_are_told_and_others_are_not():
    easy = changed(chances=np.full(BASE.chances.shape, 0.9))
    forgot = changed(chances=easy.chances * (np.arange(100) >= 12)[:, None])
    problems = [
        Problem(problem_id=f"p{i:04d}", prompt="x", answer={"db": "z" if i < 14 else str(i % 5)})
        for i in range(100)
    ]
    found = diagnosed(forgot, easy, problems)
    assert "feature" not in sentences(found)
    told = sentences(name_features(found, 0.01))["feature"]
    assert told.text == (
        "Of the problems of dev with db = z, 12 of 14 that could be lost were lost, of the others "
        "0 of 86."
    )


def test_without_styles_nothing_is_said_of_them():
    found = diagnosed(BASE, BASE, names=(None,) * 4)
    assert set(sentences(found)) == {"problems"}
    assert set(sentences(replace(found, pass_at_k={}))) == {"problems"}


def test_what_is_told_of_the_lost_is_of_the_lost_alone():
    style, right = a_model(40).drawn(16, 0)
    before, after = right.copy(), right.copy()
    before[:5], after[:5] = True, False
    sides = [(samples_of(style, right), scores_of(right)) for right in (after, before)]
    asked = SetQuestions(ks=[1, 8], levels=LEVELS, resamples=20)
    found = diagnose_set(PairedSet("dev", *sides), None, asked)
    assert [one.problem_id for one in found.of(Change.LOST)] == [f"p{i:04d}" for i in range(5)]
    assert found.pass_at_k[8].of_lost["total"] == pytest.approx(-1)
    assert found.pass_at_k[8].of_lost["certainty"] == pytest.approx(-1)
    assert found.pass_at_k[1].parts["total"].mean == pytest.approx(-5 / 40)
    assert found.outcomes["baseline_lost"] == {"CORRECT": 1}
    assert found.outcomes["run_lost"] == {"WRONG": 1}
    assert found.outcomes["run"]["CORRECT"] == pytest.approx(after.mean())
    assert found.candidates >= 5
    assert not any(row.named for row in found.features)
    assert all(row.named for row in name_features(found, 1.0).features)
    assert found.features
    assert np.isclose(
        found.pass_at_k[8].by_problem["total"].mean(), found.pass_at_k[8].parts["total"].mean
    )
