"""The studies that the project shows are valid."""

import re
from pathlib import Path

from dph.quickstart.recipes import Size
from dph.quickstart.unlabelled import unlabelled_tables
from dph.settings import merged
from dph.study.candidates import Candidate
from dph.study.planner import Planner
from dph.study.recipes import world_recipe
from dph.study.study_file import load_study

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "study.md"


def blocks():
    return re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_our_own_study_is_valid():
    plan = Planner(load_study(ROOT / "benchmarks" / "study" / "STUDY.toml")).plan({})
    assert plan.total > 100
    assert any(run.label == "GRPO" for run in plan.runs)


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
}
"""Of the labels of our attribution what their consolidation learns, by which values and tilt."""


def test_our_attribution_differs_in_targets_alone(tmp_path):
    study = load_study(ROOT / "benchmarks" / "attribution" / "STUDY.toml")
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
        if label in TARGETS
    }
    assert same == {(200, 256, 5.0, 16)}
    for label, (targets, values, tilt) in TARGETS.items():
        stores = recipes[label].stores
        for store in stores.values():
            assert (store.targets, store.values, store.tilt) == (targets, values, tilt)
        assert ("broad" in stores) == (recipes[label].method == "dph_broad")
        assert recipes[label].train.steps == (1 if "without" in label else 40)


def test_no_seed_of_ours_is_in_two_studies():
    found = {}
    for path in sorted((ROOT / "benchmarks").glob("*/STUDY.toml")):
        settings = load_study(path).file.study
        found[path.parent.name] = {*settings.seeds_development, *settings.seeds_report}
    # What a cheaper consolidation loses is told of the very seeds that the study chose on.
    del found["consolidation"]
    for name, seeds in found.items():
        for other, others in found.items():
            assert name == other or not seeds & others


def test_the_study_of_the_page_is_valid(tmp_path):
    study, rule = blocks()
    (tmp_path / "rule.toml").write_text(rule)
    study = re.sub(r"\[\[recipes\]\].*?\n\n", "", study, flags=re.DOTALL)  # a file of the reader's
    (tmp_path / "STUDY.toml").write_text(study)
    loaded = load_study(tmp_path / "STUDY.toml")
    assert Planner(loaded).plan({}).total > 10
    assert loaded.rule.compare[0].world == "sql-1"
