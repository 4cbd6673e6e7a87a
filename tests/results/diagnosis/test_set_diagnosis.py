import numpy as np
import pytest

from dph.results.diagnosis.changes import Change, Levels
from dph.results.diagnosis.set_diagnosis import SetQuestions, diagnose_set, name_features
from results.diagnosis.models import a_model, samples_of, scores_of

LEVELS = Levels(lost=0.01, gained=0.01, styles=0.01, totals=0.01, features=0.01)


def test_what_is_told_of_the_lost_is_of_the_lost_alone():
    style, right = a_model(40).drawn(16, 0)
    before, after = right.copy(), right.copy()
    before[:5], after[:5] = True, False
    found = diagnose_set(
        "dev",
        (samples_of(style, after), scores_of(after)),
        (samples_of(style, before), scores_of(before)),
        None,
        SetQuestions(ks=[1, 8], levels=LEVELS, resamples=20),
    )
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
        found.pass_at_k[8].by_problem.total.mean(), found.pass_at_k[8].parts["total"].mean
    )
