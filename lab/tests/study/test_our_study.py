"""The studies that the project shows are valid."""

import re
from pathlib import Path

import pytest

from dph._base.files import read_json
from dph.recipe import merged
from lab.quickstart.recipes import Size, unlabelled_tables
from lab.study.candidates import Candidate
from lab.study.planner import Planner
from lab.study.rows import read_rows
from lab.study.rule_lock import current_lock, default_places, locked_choices
from lab.study.settings import load_study
from lab.study.sites import world_recipe

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "study.md"
HOWTO = ROOT / "docs" / "howto" / "study.md"
OURS = ROOT / "lab" / "benchmarks" / "study" / "STUDY.toml"
RIVALS = ROOT / "lab" / "benchmarks" / "rivals" / "STUDY.toml"


def blocks(page=PAGE):
    return re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_our_own_study_is_valid():
    plan = Planner(load_study(OURS)).plan({})
    assert plan.total > 100
    assert any(run.label == "GRPO" for run in plan.runs)


RESULTS = sorted(path.parent for path in ROOT.glob("lab/benchmarks/*/results/rule.lock.json"))
NO_LONGER_ASKED_FOR = {"real-1.s710.grpo.lr2e-05.n40.3e933ca80126206e"}
"""The rate at which GRPO forgot, before the grid of the real study went down."""


@pytest.mark.parametrize("results", RESULTS, ids=lambda path: path.parent.name)
def test_the_rows_of_our_studies_obey_their_rules_and_are_runs_that_they_ask_for(results):
    # A run's name holds a hash of its method's settings: a method that changes loses its rows, and
    # so does a function that a setting names, when it moves.
    study = load_study(results.parent / "STUDY.toml")
    places = default_places(study, results)
    rows, chosen = read_rows(places), locked_choices(places)
    assert rows
    assert chosen
    assert read_json(places.lock)["rule_sha256"] == study.rule_sha256
    assert current_lock(study, places, rows).replaces == ()
    plan = Planner(study, chosen).plan(rows)
    assert set(rows) - {run.id for run in plan.runs} <= NO_LONGER_ASKED_FOR
    assert chosen.items() <= plan.choices.items()


@pytest.mark.parametrize("results", RESULTS, ids=lambda path: path.parent.name)
def test_every_row_that_the_project_keeps_names_what_made_it(results):
    places = default_places(load_study(results.parent / "STUDY.toml"), results)
    rows = read_rows(places)
    assert rows
    assert all(row.base_sha256 and row.commit and row.versions for row in rows.values())
    assert not list(places.rows.glob("*"))  # one parquet a study


def test_the_study_of_the_rivals_runs_what_ours_shares_under_the_same_names():
    ours, rivals = (Planner(load_study(path)).plan({}) for path in (OURS, RIVALS))

    def names(plan, label):
        return {run.id for run in plan.runs if run.label == label}

    assert names(rivals, "base") == names(ours, "base")
    assert names(rivals, "GRPO") == names(ours, "GRPO")
    assert len(names(rivals, "GRPO")) == 2 * 3 * 4  # worlds, development seeds, learning rates


def test_the_study_of_the_rivals_tries_their_strengths_on_development_seeds_alone():
    file = load_study(RIVALS).file
    grids = {method.label: method.strengths for method in file.methods}
    assert grids["Alpha-DPG"] == (0.0, 0.5, 0.9, 0.999)
    assert grids["FlowRL"] == (0.03, 0.15, 1.0, 15.0)
    ours = load_study(OURS).file.study
    assert file.study.seeds_development == ours.seeds_development
    assert file.study.seeds_report == ours.seeds_report
    # Rivals wait for GRPO's learning rate: 2 worlds, 4 strengths on 3 seeds and 10 report seeds.
    plan = Planner(load_study(RIVALS)).plan({})
    waiting = {(left.site.name, left.method.label): left.seeds for left in plan.undecided}
    for world in ("sql-2", "countdown-1"):
        for label in ("Alpha-DPG", "FlowRL"):
            seeds = waiting[world, label]
            assert sorted(seeds) == sorted([*[300, 301, 302] * 4, *range(400, 410)])


TARGETS = {
    "DPH-broad": ("distributions", "distinct", 4.0),
    "every answer a vote": ("distributions", "agreement", 4.0),
    "hard majority vote": ("distributions", "majority", 4.0),
    "tilt 0": ("distributions", "distinct", 0.0),
    "shuffled agreement": ("distributions", "shuffled_distinct", 4.0),
    "right answers": ("distributions", "correct", 4.0),
    "expert iteration": ("distributions", "correct", 4.0),
    "RFT": ("answers", "correct", 0.0),
    "LMSI": ("answers", "majority", 0.0),
    "LMSI without RL": ("answers", "majority", 0.0),
    "RFT without RL": ("answers", "correct", 0.0),
    "RKL, then consolidation": ("distributions", "distinct", 4.0),
    "DPH-F, then consolidation": ("distributions", "distinct", 4.0),
    "Exact FKL, then consolidation": ("distributions", "distinct", 4.0),
    "Differential smoothing, then consolidation": ("distributions", "distinct", 4.0),
    "anchor with self-consistency": ("distributions", "distinct", 4.0),
}
"""Of the labels of our attribution what their stores hold, by which values and tilt."""

NEAR_THE_BASE = {
    "RKL, then consolidation": {"kl"},
    "DPH-F, then consolidation": {"rehearsal"},
    "Exact FKL, then consolidation": {"exact_forward_kl"},
    "Differential smoothing, then consolidation": set(),
    "anchor with self-consistency": {"broad"},
    "DPH-broad": {"broad"},
}
"""Of some labels the terms of the objective that hold the policy, with a weight above 0."""


def test_our_attribution_differs_in_targets_alone(tmp_path):
    study = load_study(ROOT / "lab" / "benchmarks" / "attribution" / "STUDY.toml")
    planner = Planner(study)
    assert planner.plan({}).total > 100
    (site,) = planner.sites
    recipes, sets = {}, {name: f"{name}.jsonl" for name in site.sets}
    for method in study.file.methods:
        strength = method.strengths[-1] if method.strengths else None
        asked = planner.variants.of(site, method, Candidate(strength=strength)).asked
        files = unlabelled_tables(asked.method, tmp_path / "unlabelled.jsonl", tmp_path)
        recipes[method.label] = world_recipe(
            asked,
            merged({"data": {"train": "t.jsonl", "sets": sets}}, files),
            Size(),
            name="run",
            directory=tmp_path,
            pool=tmp_path / "pool",
            seed=3,
        )
    best = {"GRPO, best greedy": "greedy", "GRPO, best pass@8": "pass_at_8"}
    assert set(recipes) == {"GRPO", *best, *TARGETS}
    for label, score in best.items():
        evaluate = recipes[label].evaluate
        assert (evaluate.keep_best, evaluate.result) == (score, "best")
    same = {
        (
            r.consolidation.updates,
            r.consolidation.rows,
            r.consolidation.rate,
            r.stores["after"].answers,
        )
        for label, r in recipes.items()
        if label in TARGETS and label != "anchor with self-consistency"
    }
    assert same == {(200, 256, 5.0, 16)}
    for label, (targets, values, tilt) in TARGETS.items():
        stores = recipes[label].stores
        for store in stores.values():
            assert (store.targets, store.values, store.tilt) == (targets, values, tilt)
        assert ("broad" in stores) == (recipes[label].method == "dph_broad")
        assert recipes[label].train.steps == (1 if "without" in label else 40)
    for label, terms in NEAR_THE_BASE.items():
        objective = recipes[label].objective
        weights = {**objective.penalties, **objective.anchors}
        assert {name for name, term in weights.items() if term.weight > 0} == terms
    agreed = recipes["anchor with self-consistency"]
    assert agreed.consolidation.updates == 0
    assert (agreed.self_consistency.reward, agreed.self_consistency.store) == ("consensus", "broad")


def test_no_seed_of_ours_is_in_two_studies():
    found = {}
    for path in sorted((ROOT / "lab" / "benchmarks").glob("*/STUDY.toml")):
        settings = load_study(path).file.study
        found[path.parent.name] = {*settings.seeds_development, *settings.seeds_report}
    # A cheaper consolidation's loss is told of the very seeds that the study chose on, and the
    # study of rivals goes on from the base models of ours.
    for name in ("consolidation", "rivals"):
        del found[name]
    for name, seeds in found.items():
        for other, others in found.items():
            assert name == other or not seeds & others


def test_the_study_of_the_howto_is_valid(tmp_path):
    (tmp_path / "STUDY.toml").write_text(blocks(HOWTO)[0])
    (tmp_path / "rule.toml").write_text(blocks(HOWTO)[1])
    assert Planner(load_study(tmp_path / "STUDY.toml")).plan({}).total > 10


def test_the_study_of_the_page_is_valid(tmp_path):
    study, rule = blocks()
    (tmp_path / "rule.toml").write_text(rule)
    study = re.sub(r"\[\[recipes\]\].*?\n\n", "", study, flags=re.DOTALL)  # a file of the reader's
    (tmp_path / "STUDY.toml").write_text(study)
    loaded = load_study(tmp_path / "STUDY.toml")
    assert Planner(loaded).plan({}).total > 10
    assert loaded.rule.compare[0].world == "sql-2"
