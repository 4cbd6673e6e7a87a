"""The arms of fine-tuning: every arm takes its better rate, and differences are paired by seed."""

import pytest

from lab.benchmarks.finetuning.outcome import chosen_rate, tables

RULE = {
    "metric": "greedy",
    "also": "pass@8",
    "rates": [2e-3, 1e-3],
    "development": [100, 101],
    "report": [10, 11, 12],
    "arms": [{"name": "in order"}, {"name": "mixed"}],
    "compare": [{"a": "in order", "b": "mixed"}],
}


def row(arm, rate, seed, greedy):
    return {"arm": arm, "rate": rate, "seed": seed, "greedy": greedy, "pass@8": 90.0}


DEVELOPMENT = [
    *(row("in order", 1e-3, seed, value) for seed, value in ((100, 70.0), (101, 72.0))),
    *(row("in order", 2e-3, seed, value) for seed, value in ((100, 71.0), (101, 70.0))),
    *(row("mixed", 1e-3, seed, 60.0) for seed in (100, 101)),
    *(row("mixed", 2e-3, seed, 60.0) for seed in (100, 101)),
]
REPORT = [
    *(row("in order", 1e-3, seed, value) for seed, value in ((10, 70.0), (11, 74.0), (12, 78.0))),
    *(row("mixed", 1e-3, seed, value) for seed, value in ((10, 60.0), (11, 66.0), (12, 69.0))),
]


def test_an_arm_takes_the_better_rate_of_its_development_seeds_and_of_equals_the_smaller():
    assert chosen_rate(RULE, "in order", DEVELOPMENT + REPORT) == 1e-3
    assert chosen_rate(RULE, "mixed", DEVELOPMENT) == 1e-3
    with pytest.raises(SystemExit, match=r"mixed has no row of development seed 101 at 0\.002"):
        chosen_rate(RULE, "mixed", DEVELOPMENT[:-1])


def test_the_comparison_is_paired_by_seed_and_its_power_follows_from_the_spread():
    # differences 10, 8, 9: mean 9, standard deviation 1, t(0.975, 2) = 4.3027
    line = tables(RULE, DEVELOPMENT + REPORT).splitlines()[-1]
    assert line.startswith("| in order minus mixed | +9.0 ± 2.5 | +0.0 ± 0.0 | 0.004 |")
    # t(0.8, 2) = 1.0607; development differences 10 and 12 have a standard deviation of 1.4142
    assert line.endswith("| from 4.4 (3.1) |")
