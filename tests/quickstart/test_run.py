import json

import numpy as np
import pytest

from dph.errors import SettingsError
from dph.quickstart.run import first_sentence, quickstart, solved_changes
from dph.runs.evaluate.scores import SetScores
from dph.runs.progress import Silent

CHILD = """
import sys
from contextlib import contextmanager
from pathlib import Path

from dph.quickstart.run import quickstart

class Lines:
    @contextmanager
    def task(self, title, total, unit):
        done = 0
        def advance(amount, note):
            nonlocal done
            done += amount
            print(f"{title}|{done}", flush=True)
        yield advance

    def say(self, text):
        pass

quickstart(Path(sys.argv[1]), methods=["grpo", "dph_f"], seed=7, tiny=True, progress=Lines())
"""
KILLS = (("pre-sampling", 50), ("evaluating base", 50), ("training grpo", 1), ("training dph_f", 1))


def kill_at(program, stage, amount):
    """Send SIGKILL as soon as ``stage`` has come to ``amount``."""
    with program:
        for line in program.lines():
            title, done = line.split("|")
            if title == stage and int(done) >= amount:
                program.kill()
                return
    raise AssertionError(f"{stage} never came to {amount}")


def without_times(summary):
    return {name: value for name, value in summary.items() if name != "cost"}


@pytest.mark.slow
def test_killed_in_each_stage_it_ends_as_one_that_ran_side_by_side(fork_program, tmp_path):
    whole = quickstart(
        tmp_path / "whole", methods=["grpo", "dph_f"], seed=7, tiny=True, jobs=2, progress=Silent()
    )
    killed = tmp_path / "killed"
    for stage, amount in KILLS:
        kill_at(fork_program(CHILD, killed), stage, amount)
        assert not (killed / "summary.json").exists()
    with fork_program(CHILD, killed) as program:
        code, _, said = program.finish()
    assert code == 0, said
    found = json.loads((killed / "summary.json").read_text())
    assert without_times(found) == without_times(json.loads(json.dumps(whole)))
    assert found["words"].startswith("Of the problems that the base model solves within 16")
    for method in ("grpo", "dph_f"):
        weights = f"{method}/checkpoints/step_000002/model.safetensors"
        assert (killed / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()
    assert not list((tmp_path / "whole").glob("*.log"))


@pytest.mark.parametrize("methods", [[], ["grpo", "grpo"], ["grpo", "nothing"]])
def test_methods_that_make_no_sense_leave_nothing(tmp_path, methods):
    with pytest.raises(SettingsError):
        quickstart(tmp_path / "out", methods=methods, progress=Silent())
    assert not (tmp_path / "out").exists()


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
