import pytest

from dph.errors import SettingsError
from dph.runs.progress import Silent
from lab.study.candidates import Candidate
from lab.study.plan import Choice, best_candidate, wanted_runs
from lab.study.planner import Planner
from lab.study.rule_lock import default_places
from lab.study.runner import Runner
from lab.study.settings import ChoiceSettings, load_study
from small_study import RULE, STUDY, InstantJobs


def words(runs):
    return [(run.split, run.seed, run.label) for run in runs]


def test_before_anything_ran_only_what_waits_for_nobody_is_decided(small):
    plan = Planner(small).plan({})
    development = [run for run in plan.runs if run.split == "development"]
    assert words(development) == [
        ("development", seed, label) for seed in (100, 101) for label in ("base", "GRPO", "GRPO")
    ]
    assert {run.label for run in plan.runs if run.split == "report"} == {"base"}


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


def test_two_labels_that_ask_for_the_same_run_share_it(write):
    text = STUDY + '[[methods]]\nname = "grpo"\nlabel = "again"\nlearning_rates = [2e-4, 5e-4]\n'
    plan = Planner(load_study(write(text))).plan({})
    runs = [run for run in plan.runs if run.seed == 100]
    assert [run.label for run in runs].count("again") == 2
    assert len({run.id for run in runs}) == 3
    assert len(plan.missing({})) == len({run.id for run in plan.runs})


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('task = "sql"', 'task = "chess"', "there is no task 'chess'; choose one of sql"),
        (
            'task = "sql"',
            'task = "sql"\nsettings = { "train.stepz" = 1 }',
            "did you mean train.steps",
        ),
        ('task = "sql"', 'task = "sql"\nsettings = { "train.steps" = 1 }', "the study's own"),
        ('task = "sql"', 'task = "sql"\nsettings = { train.eps = -1 }', "train.eps: .* got -1"),
        ("strengths = [0.1]", 'settings = { "objective.etaa" = 1 }', "'rkl' on sql: unknown"),
        (
            "learning_rates = [2e-4, 5e-4]",
            'learning_rate_of = "dph_f"',
            "depends on its own choice",
        ),
    ],
)
def test_a_setting_that_no_run_could_have_is_refused_before_anything_runs(
    write, before, after, message
):
    with pytest.raises(SettingsError, match=message):
        Planner(load_study(write(STUDY.replace(before, after))))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('sets = ["in_domain", ', 'sets = ["indomain", ', r"\[choose\] .*'indomain'; sql has"),
        ('set = "in_domain"', 'set = "out"', "compares on the set 'out'; sql has in_domain, c"),
        ('metric = "pass@16"', 'metric = "pass@64"', "pass@64; .* of 1, 2, 4, 8, 16, 32$"),
        ("[choose]", '[choose]\nmetric = "pass@3"', "pass@3; .* of 1, 2, 4, 8, 16, 32$"),
        ('b = "base"', 'b = "base"\nworld = "y"', "on the world 'y'; there are sql"),
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


def test_one_choice_for_all_worlds_is_that_of_their_mean(write):
    two = STUDY.replace('task = "sql"\n', 'task = "sql"\nname = "a"\n').replace(
        "[[worlds]]", '[[worlds]]\ntask = "sql"\nname = "b"\n[[worlds]]', 1
    )
    study = load_study(write(two, RULE.replace("[choose]", '[choose]\nworlds = "all"\ntie = 0.0')))
    planner = Planner(study)
    rows = Runner(planner, default_places(study, None), InstantJobs()).run(Silent())
    choices = planner.plan(rows).choices
    a, b = choices["a", "dph_f"], choices["b", "dph_f"]
    means = [(x + y) / 2 for x, y in zip(a.scores, b.scores, strict=True)]
    assert a.chosen == b.chosen == a.tried[means.index(max(means))]


def asked(study, *only):
    planner = Planner(study)
    return wanted_runs(only, study.file, planner.sites)


def test_several_of_a_kind_add_up_and_the_kinds_narrow_each_other(small, finished):
    planner, _, rows = finished
    plan = planner.plan(rows)
    by_hand = [run for run in plan.runs if run.label in ("GRPO", "base") and run.seed == 100]
    assert by_hand
    assert list(asked(small, "GRPO", "base", "100", "sql").of(plan).runs) == by_hand
    assert asked(small).of(plan) == plan


def test_what_is_undecided_is_counted_for_what_was_asked_alone(small):
    plan = Planner(small).plan({})
    # Two strengths of dph_f on two development seeds and one run on each of three report seeds.
    assert asked(small, "dph_f").of(plan).total == 2 * 2 + 3
    assert asked(small, "dph_f", "100").of(plan).total == 2
    assert asked(small, "base", "100").of(plan).total == 1


def test_the_parts_add_up_to_the_whole(small, finished):
    planner, _, rows = finished
    for plan in (planner.plan({}), planner.plan(rows)):
        labels = ["base", *(method.label for method in small.file.methods)]
        assert sum(asked(small, label).of(plan).total for label in labels) == plan.total


def test_what_is_not_in_the_study_is_refused(small):
    for name in ("sqlite", "7"):
        with pytest.raises(SettingsError, match=f"--only {name}: there is no such world, method"):
            asked(small, name)


def of(*strengths):
    return [Candidate(strength=strength) for strength in strengths]


@pytest.mark.parametrize(
    ("scores", "tie", "stronger", "weaker"),
    [
        ([1.600, 1.598, 1.590], 0.005, 1, 0),  # 1.598 is less than half a point below
        ([1.600, 1.595, 1.590], 0.0, 0, 0),
        ([1.590, 1.600, 1.597], 0.005, 2, 1),
        ([1.500, 1.500, 1.500], 0.0, 2, 0),  # exactly equal is always a tie
        ([1.590, 1.600, 1.500], 0.005, 1, 1),
    ],
)
def test_of_a_tie_the_strength_that_the_rule_names_wins(scores, tie, stronger, weaker):
    tried = of(0.1, 1.0, 10.0)
    for goes_to, wanted in (("stronger", stronger), ("weaker", weaker)):
        rule = ChoiceSettings(tie=tie, tie_goes_to=goes_to)
        assert best_candidate(tried, scores, rule) == wanted


def test_exactly_the_tie_below_is_no_tie():
    assert best_candidate(of(1.0, 2.0), [0.5, 0.25], ChoiceSettings(tie=0.25)) == 0


def test_stronger_is_also_the_smaller_step_and_the_smaller_weight():
    tried = [Candidate(learning_rate=rate) for rate in (5e-4, 2e-4)]
    assert best_candidate(tried, [1.0, 1.0], ChoiceSettings()) == 1
    tried = [Candidate(interpolate=weight) for weight in (0.7, 0.3)]
    assert best_candidate(tried, [1.0, 1.0], ChoiceSettings()) == 1


@pytest.mark.parametrize(
    ("scores", "tied"),
    [
        ((1.63222, 1.63222, 1.5), (0.1, 1.0)),
        ((1.600, 1.598, 1.590), (0.1, 1.0)),
        ((1.600, 1.595, 1.590), ()),
        ((1.600, None, 1.590), ()),  # nothing was decided by scores
        ((1.600, 1.598, 1.597), (0.1, 1.0, 10.0)),
    ],
)
def test_a_choice_tells_between_which_candidates_the_tie_break_chose(scores, tied):
    tried = tuple(of(0.1, 1.0, 10.0))
    choice = Choice(tried=tried, scores=scores, chosen=tried[0])
    assert [candidate.strength for candidate in choice.tied(0.005)] == list(tied)
