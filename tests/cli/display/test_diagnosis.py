from collections import Counter

import numpy as np
import pytest

from dph.cli.display.comparison import diagnosis_text
from dph.results.diagnosis.run_diagnosis import diagnose
from results.diagnosis.models import a_model, samples_of, save_evaluation


@pytest.fixture
def found(tmp_path):
    """Forty problems of which the first two were lost, the third gained."""
    style, right = a_model(40).drawn(16, 0)
    before, after = right.copy(), right.copy()
    before[:2], after[:2] = True, False
    before[2], after[2] = False, True
    return diagnose(
        save_evaluation(tmp_path / "run", samples_of(style, after)),
        save_evaluation(tmp_path / "base", samples_of(style, before)),
    )


def rows(text, start):
    return [line.split() for line in text.splitlines() if line.startswith(start)]


def test_problems_stand_with_their_counts_and_the_difference_in_points(found):
    text = diagnosis_text(found, most=10)
    assert [row[:3] for row in rows(text, "p0")] == [
        ["p0000", "16/16", "0/16"],
        ["p0001", "16/16", "0/16"],
        ["p0002", "0/16", "16/16"],
        ["p0000", "16/16", "0/16"],  # the baseline alone solved these
        ["p0001", "16/16", "0/16"],
    ]
    assert "-100.0 [-100.0, -72.6]" in text
    assert "lost: 2 of 2" in text
    assert "gained: 1 of 1" in text
    assert "Levels of the lists: 0.01 (lost)" in text.split("\n\n")[-1]
    one = found.sets["dev"].pass_at_k[8]
    (row,) = rows(text, "pass@8")
    assert float(row[3]) == pytest.approx(100 * one.parts["total"].mean, abs=0.05)
    assert np.isclose(float(row[1]), 100 * one.baseline, atol=0.05)


@pytest.mark.parametrize("width", [50, 110])
def test_no_line_is_longer_than_the_terminal_and_nothing_is_left_out(found, width):
    whole, narrow = (diagnosis_text(found, most=10, width=w) for w in (None, width))
    # Where something lies is one word and is not broken.
    start = f"{found.run} against {found.baseline}"
    lines = [line for line in narrow.removeprefix(start).splitlines() if "/" not in line]
    assert max(map(len, lines)) <= width
    assert max(map(len, whole.removeprefix(start).splitlines())) > width
    words = [Counter(text.replace("─", "").split()) for text in (whole, narrow)]
    assert not words[0] - words[1]  # titles stand once for each row where a table is lists
