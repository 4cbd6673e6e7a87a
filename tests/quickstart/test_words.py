import numpy as np
import pytest

from dph.quickstart.run import first_sentence, solved_changes
from dph.runs.evaluate.scores import SetScores

PROBLEMS, SAMPLES = 200, 4


def set_scores(solved):
    """One right answer to each of the first ``solved`` problems."""
    correct = np.zeros((PROBLEMS, SAMPLES), dtype=bool)
    correct[:solved, 0] = True
    return SetScores(
        problem_ids=tuple(map(str, range(PROBLEMS))),
        correct=correct,
        rewards=correct.astype(np.float64),
        greedy=None,
        shares={},
    )


def told(**solved):
    """The sentence for models that solve the first so many problems."""
    made = {model: {"in_domain": set_scores(number)} for model, number in solved.items()}
    return first_sentence(solved_changes(made), tries=SAMPLES)


def test_losses_ties_and_gains_are_told_with_their_numbers_and_chance_is_not_called_a_loss():
    assert told(base=150, grpo=120, dph_f=150) == (
        "Of the problems that the base model solves within 4 tries, GRPO lost 30 of 150 in domain; "
        "DPH-F kept them (+0 in domain: no loss beyond chance)."
    )
    kept = "kept them ({} in domain: no loss beyond chance)."
    assert told(base=100, dph_f=140).endswith("DPH-F " + kept.format("+40"))
    assert told(base=100, grpo=99).endswith("GRPO " + kept.format("-1"))


def test_several_sets_are_told_apart():
    made = {
        "base": {"in_domain": set_scores(150), "cross_domain": set_scores(100)},
        "grpo": {"in_domain": set_scores(100), "cross_domain": set_scores(101)},
    }
    sentence = first_sentence(solved_changes(made), tries=SAMPLES)
    assert sentence.endswith("GRPO lost 50 of 150 in domain and kept the others (+1 cross domain).")


def test_the_interval_covers_what_chance_explains():
    """Of n problems d differ, so the number lost has the variance d (1 - d / n)."""
    made = {"base": {"a": set_scores(100)}, "grpo": {"a": set_scores(80)}}
    (change,) = solved_changes(made)["grpo"]
    half = 1.96 * (20 * (1 - 20 / PROBLEMS)) ** 0.5
    assert (change.base, change.change) == (100, -20)
    assert change.lo == pytest.approx(-20 - half, abs=1.5)
    assert change.hi == pytest.approx(-20 + half, abs=1.5)
