import pytest

from dph.errors import DataError
from dph.lab.study.results import holm


def test_by_hand():
    # Sorted 0.01, 0.02, 0.04 times 3, 2, 1: 0.03, 0.04, 0.04.
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])


def test_a_larger_p_value_never_gets_a_smaller_adjusted_one():
    # 0.02 * 2 = 0.04, and 0.03 * 1 = 0.03 is lifted to it.
    assert holm([0.02, 0.03]) == pytest.approx([0.04, 0.04])


def test_the_example_of_the_encyclopedia():
    """Wikipedia, "Holm-Bonferroni method": of 0.01, 0.04, 0.03, 0.005 the first and last fall."""
    adjusted = holm([0.01, 0.04, 0.03, 0.005])
    assert adjusted == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert [p <= 0.05 for p in adjusted] == [True, False, False, True]


def test_it_stops_at_one_and_leaves_a_single_p_value_alone():
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_what_is_rejected_is_what_the_step_down_procedure_rejects():
    """Holm 1979: reject in rising order while p(j) <= level / (m - j + 1), stop at the first."""
    p_values, level = [0.012, 0.3, 0.016, 0.001, 0.026], 0.05
    rejected, m = set(), len(p_values)
    for j, place in enumerate(sorted(range(m), key=p_values.__getitem__)):
        if p_values[place] > level / (m - j):
            break
        rejected.add(place)
    assert rejected == {i for i, p in enumerate(holm(p_values)) if p <= level}
    assert rejected == {0, 2, 3}


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(p):
    with pytest.raises(DataError, match="lies in"):
        holm([p])
