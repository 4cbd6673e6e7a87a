"""What is run, and when it is decided."""

import pytest

from dph.errors import SettingsError
from dph.runs.progress import Silent
from lab.study.planner import Planner
from lab.study.rule_lock import default_places
from lab.study.runner import Runner
from lab.study.settings import load_study
from small_study import RULE, STUDY


def words(runs):
    return [(run.split, run.seed, run.label) for run in runs]


def test_before_anything_ran_only_what_waits_for_nobody_is_decided(small):
    plan = Planner(small).plan({})
    development = [run for run in plan.runs if run.split == "development"]
    assert words(development) == [
        ("development", seed, label) for seed in (100, 101) for label in ("base", "GRPO", "GRPO")
    ]
    assert {run.label for run in plan.runs if run.split == "report"} == {"base"}


def test_the_total_is_known_before_anything_ran(small, finished):
    _, _, rows = finished
    # Development, 2 seeds: base, 2 GRPO, 2 dph_f, 1 rkl; report, 3 seeds: base and three methods.
    assert Planner(small).plan({}).total == 2 * 6 + 3 * 4 == len(rows)


def test_a_learning_rate_is_taken_from_the_method_that_was_tuned(finished):
    planner, _, rows = finished
    plan = planner.plan(rows)
    chosen = plan.choices["sql", "GRPO"].chosen.learning_rate
    for run in plan.runs:
        if run.label in ("dph_f", "rkl"):
            assert run.variant.learning_rate == chosen


def test_the_choice_is_the_best_mean_over_development_seeds_by_hand(finished):
    planner, _, rows = finished
    choice = planner.plan(rows).choices["sql", "dph_f"]
    by_hand = []
    for candidate in choice.tried:
        found = [
            row
            for row in rows.values()
            if row.seed >= 100 and row.method == "dph_f" and row.strength == candidate.strength
        ]
        assert len(found) == 2
        values = [
            score.value
            for row in found
            for score in row.scores
            if score.metric == "greedy" or score.k == 16
        ]
        by_hand.append(sum(values) / 4)  # two seeds and two sets; greedy and Pass@16 add up
    assert choice.scores == pytest.approx(by_hand)
    assert choice.score == max(choice.scores)


def test_a_plan_is_the_same_whatever_else_lies_among_the_rows(finished):
    planner, _, rows = finished
    other = dict(reversed(list(rows.items())))
    assert planner.plan(other) == planner.plan(rows)


def test_two_labels_that_ask_for_the_same_run_share_it(write):
    text = STUDY + '[[methods]]\nname = "grpo"\nlabel = "again"\nlearning_rates = [2e-4, 5e-4]\n'
    plan = Planner(load_study(write(text))).plan({})
    runs = [run for run in plan.runs if run.seed == 100]
    assert [run.label for run in runs].count("again") == 2
    assert len({run.id for run in runs}) == 3
    assert len(plan.missing({})) == len({run.id for run in plan.runs})


def test_methods_that_wait_for_each_other_are_refused(write):
    text = STUDY.replace("learning_rates = [2e-4, 5e-4]", 'learning_rate_of = "dph_f"')
    with pytest.raises(SettingsError, match="depends on its own choice"):
        Planner(load_study(write(text)))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('task = "sql"', 'task = "chess"', "there is no task 'chess'"),
        ('task = "sql"', 'task = "chess"', "there is no task 'chess'; choose one of sql"),
        (
            'task = "sql"',
            'task = "sql"\nsettings = { "train.stepz" = 1 }',
            "did you mean train.steps",
        ),
        ('task = "sql"', 'task = "sql"\nsettings = { "train.steps" = 1 }', "the study's own"),
        ('task = "sql"', 'task = "sql"\nsettings = { train.eps = -1 }', "train.eps: .* got -1"),
        ("strengths = [0.1]", 'settings = { "objective.etaa" = 1 }', "'rkl' on sql: unknown"),
    ],
)
def test_a_setting_that_no_run_could_have_is_refused_before_anything_runs(
    write, before, after, message
):
    with pytest.raises(SettingsError, match=message):
        Planner(load_study(write(STUDY.replace(before, after))))


def test_a_comparison_on_a_world_that_is_not_there_is_refused(write):
    rule = RULE + '[[compare]]\na = "rkl"\nb = "GRPO"\nmetric = "mean"\nset = "x"\nworld = "y"\n'
    with pytest.raises(SettingsError, match="on the world 'y'; there are sql"):
        Planner(load_study(write(rule=rule)))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('sets = ["in_domain", ', 'sets = ["indomain", ', r"\[choose\] .*'indomain'; sql has"),
        ('set = "in_domain"', 'set = "out"', "compares on the set 'out'; sql has in_domain, c"),
        ('metric = "pass@16"', 'metric = "pass@64"', "pass@64; .* of 1, 2, 4, 8, 16, 32$"),
        ("[choose]", '[choose]\nmetric = "pass@3"', "pass@3; .* of 1, 2, 4, 8, 16, 32$"),
    ],
)
def test_a_set_or_a_number_of_tries_that_no_run_has_is_refused_before_anything_runs(
    write, before, after, message
):
    assert before in RULE
    with pytest.raises(SettingsError, match=message):
        Planner(load_study(write(rule=RULE.replace(before, after))))


def test_a_comparison_may_be_on_a_set_that_one_of_the_worlds_has(write):
    two = STUDY.replace("[[worlds]]", '[[worlds]]\ntask = "countdown"\n[[worlds]]', 1)
    rule = RULE + '[[compare]]\na = "rkl"\nb = "GRPO"\nmetric = "mean"\nset = "arithmetic"\n'
    Planner(load_study(write(two, rule)))
    with pytest.raises(SettingsError, match="on the set 'arithmetic'; countdown has in_domain"):
        Planner(load_study(write(two, rule + 'world = "countdown"\n')))


def test_one_choice_for_all_worlds_is_that_of_their_mean(write, instant):
    two = STUDY.replace('task = "sql"\n', 'task = "sql"\nname = "a"\n').replace(
        "[[worlds]]", '[[worlds]]\ntask = "sql"\nname = "b"\n[[worlds]]', 1
    )
    study = load_study(write(two, RULE.replace("[choose]", '[choose]\nworlds = "all"\ntie = 0.0')))
    planner = Planner(study)
    rows = Runner(planner, default_places(study, None), instant()).run(Silent())
    choices = planner.plan(rows).choices
    a, b = choices["a", "dph_f"], choices["b", "dph_f"]
    means = [(x + y) / 2 for x, y in zip(a.scores, b.scores, strict=True)]
    assert a.chosen == b.chosen == a.tried[means.index(max(means))]
