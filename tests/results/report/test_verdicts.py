"""A run in one sentence: only what differs by more than chance is claimed."""

from dph.results.report.verdicts import RunVerdict, of_seeds, verdict_against
from dph.runs.evaluate.intervals import Band
from results.charts.synthetic import comparison_row


def row(metric, mean, lo, hi, set_name="dev"):
    return comparison_row(metric, "grpo", mean, lo, hi, set_name=set_name)


def verdict(*rows, **more):
    return RunVerdict(run="GRPO", baseline="base", rows=rows, **more).sentence()


def test_the_sentence_of_a_run_that_gained_and_lost():
    said = verdict(
        row("greedy", 0.227, 0.17, 0.287),
        row("pass_at_8", -0.01, -0.03, 0.01),
        row("pass_at_16", -0.047, -0.07, -0.023),
        ways={"dev": (1.2, 5.0)},
        lost={"dev": 10},
    )
    assert said == (
        "GRPO: first try +22.7 (+17.0 to +28.7); Pass@16 -4.7 (-7.0 to -2.3); "
        "1.2 of 5.0 ways of answering left; 10 problems lost."
    )


def test_what_chance_would_show_is_not_claimed_and_one_lost_problem_is_enough():
    said = verdict(row("greedy", 0.02, -0.01, 0.05), row("pass_at_16", 0.0, -0.02, 0.02))
    assert said == (
        "GRPO: cannot be distinguished from base on dev; every difference is within 5.0 points."
    )
    said = verdict(row("greedy", 0.02, -0.01, 0.05), row("pass_at_16", -0.04, -0.06, -0.02))
    assert said == "GRPO: first try unchanged within chance; Pass@16 -4.0 (-6.0 to -2.0)."
    said = verdict(row("greedy", 0.0, -0.1, 0.1), lost={"dev": 1})
    assert said == "GRPO: first try unchanged within chance; 1 problem lost."


def test_the_k_at_which_the_run_is_above_and_below_are_told_and_what_could_not_be_named():
    band = Band(bounds={1: (0.1, 0.2), 2: (-0.1, 0.1), 4: (-0.3, -0.1), 8: (-0.3, -0.2)})
    said = verdict(row("greedy", 0.02, -0.01, 0.05), bands={"dev": band}, unnamed=["8 are too few"])
    assert said == (
        "GRPO: first try unchanged within chance; Pass@k above base up to k=1, below it from k=4 "
        "on (95%, all k together); 8 are too few."
    )
    flat = Band(bounds={1: (-0.1, 0.2), 2: (-0.1, 0.1)})
    said = verdict(row("greedy", 0.02, -0.01, 0.05), bands={"dev": flat})
    assert said.startswith("GRPO: cannot be distinguished from base")


def test_sets_are_named_where_there_are_several_the_clearest_first_and_of_many_three():
    said = verdict(
        row("greedy", 0.02, 0.01, 0.03, "in_domain"),
        row("greedy", 0.30, 0.29, 0.31, "cross_domain"),
        row("greedy", 0.01, -0.03, 0.05, "other"),
    )
    assert said == (
        "GRPO: first try +30.0 (+29.0 to +31.0) cross domain, +2.0 (+1.0 to +3.0) in domain."
    )
    rows = [row("greedy", 0.1 * n, 0.09 * n, 0.11 * n, f"s{n}") for n in range(1, 6)]
    assert verdict(*rows).endswith("and on 2 more sets.")


def test_without_greedy_answers_the_mean_is_the_first_try_and_no_width_does_no_harm():
    assert "mean@1 +5.0" in verdict(row("mean", 0.05, 0.04, 0.06))
    assert verdict(comparison_row("greedy", "base")) == "GRPO: nothing to compare with base."
    assert "+10.0" in verdict(row("greedy", 0.1, 0.1, 0.1))


def test_one_loss_in_three_seeds_is_a_third_and_fewer_alone_than_by_chance_is_none(monkeypatch):
    def seed(_, of):
        lost, alone, expected = of
        total = {"named": True, "observed": alone, "expected": expected}
        totals, counts = {"solved_before_alone": total}, {"lost": lost}
        found = {"totals": totals, "counts": counts, "sentences": []}
        rows = [row("greedy", 0.0, -0.1, 0.1)]
        return verdict_against(("GRPO", "base"), rows, {}, (None, None), {"dev": found})

    monkeypatch.setattr("dph.results.report.verdicts.run_verdict", seed)
    found = of_seeds(None, "GRPO", [(1, 1, 0.5), (0, 2, 9.5), (0, 0, 0.5)], planned=3)
    texts = [part.text for part in found.parts()]
    assert texts[1:] == ["0.3 problems lost a seed", "0.3 solved only by base"]
