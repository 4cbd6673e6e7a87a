import numpy as np
import pytest

from dph.errors import DataError, SettingsError
from dph.runs.evaluate.comparison import changed_problems


def solved(counts, samples):
    return np.array([[i < count for i in range(samples)] for count in counts])


def test_the_largest_changes_come_first_and_what_did_not_change_is_left_out(make_scores):
    model, baseline = make_scores(solved([2, 4, 0], 4)), make_scores(solved([1, 1, 1], 2))
    found = changed_problems(model, baseline, most=5)
    assert [(one.problem_id, one.change) for one in found] == [("p1", 0.5), ("p2", -0.5)]
    assert (found[0].correct, found[0].samples) == (4, 4)
    assert (found[0].baseline_correct, found[0].baseline_samples) == (1, 2)
    assert len(changed_problems(model, baseline, most=1)) == 1


def test_other_problems_and_a_negative_number_are_refused(make_scores):
    model, baseline = make_scores(solved([2, 4], 4)), make_scores(solved([1], 2))
    with pytest.raises(DataError, match="the model and the baseline"):
        changed_problems(model, baseline, most=1)
    with pytest.raises(SettingsError, match="at least 0"):
        changed_problems(model, model, most=-1)
