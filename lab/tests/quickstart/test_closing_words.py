import importlib.util
import json
from pathlib import Path

import pytest

from dph.errors import DataError
from dph.results.over_seeds import SeedMean
from lab.quickstart.closing_words import (
    FILE,
    OverSeeds,
    closing_words,
    read_over_seeds,
)
from results.charts.synthetic import make_summary

ROOT = Path(__file__).parents[3]
COST = {"answers": 1504, "tokens": 21_446, "seconds": 280.0, "not_timed": ["store broad"]}


def summary(names):
    return {"seed": 7, "cost": dict.fromkeys(names, COST), **make_summary(names)}


def test_a_sentence_a_method_with_the_numbers_of_this_seed():
    made = summary(["grpo", "dph_f"])
    lines = closing_words(made, None)
    assert lines[0] == "Seen on seed 7, base model to trained model:"
    assert [line.split(":")[0].strip() for line in lines[1:3]] == ["GRPO", "DPH-F"]
    before = made["base"]["sets"]["in_domain"]
    after = made["methods"]["grpo"]["sets"]["in_domain"]
    assert (
        f"in domain greedy {100 * before['greedy']:.1f} to {100 * after['greedy']:.1f}" in lines[1]
    )
    k16 = (100 * before["pass_at_k"]["16"], 100 * after["pass_at_k"]["16"])
    assert "Pass@16 {:.1f} to {:.1f}".format(*k16) in lines[1]
    styles = (before["effective_styles"], after["effective_styles"])
    assert "styles {:.1f} to {:.1f}; cross domain".format(*styles) in lines[1]


def test_the_cost_of_all_stages_stands_beside_each_method():
    made = summary(["grpo"])
    at = closing_words(made, None).index(
        "Cost of all stages; shared stages count in full for each method:"
    )
    assert closing_words(made, None)[at + 1] == (
        "  GRPO: 1,504 answers, 21,446 tokens, 4 min 40 s (without the time of store broad)."
    )


def test_the_table_over_seeds_is_told_beside_it_and_what_it_lacks():
    table = OverSeeds(
        page="docs/x.md",
        seeds=4,
        methods={"grpo": {"in_domain": {"greedy": SeedMean(70.0, 5.0, 4)}}},
    )
    lines = closing_words(summary(["grpo", "dph_f"]), table)
    at = lines.index("Over 4 seeds (docs/x.md), mean ± half of the 95% interval:")
    assert lines[at + 1 :] == [
        "  GRPO: in domain greedy 70.0 ± 5.0.",
        "The table has no DPH-F.",
        "One seed is one draw of many; if it differs from the table, trust the table.",
    ]


def test_a_world_without_a_table_is_said_to_have_none():
    assert read_over_seeds("sql-99") is None
    lines = closing_words(summary(["grpo"]), None)
    assert lines[-1].startswith("There is no table over seeds of this world yet")


def test_what_is_not_known_is_left_out():
    made = summary(["grpo"])
    for sets in (made["base"]["sets"], made["methods"]["grpo"]["sets"]):
        sets["in_domain"] |= {"greedy": None, "effective_styles": None}
        del sets["cross_domain"]
    line = closing_words(made, None)[1]
    assert line.startswith("  GRPO: in domain Pass@16 ")
    assert "greedy" not in line


def script():
    spec = importlib.util.spec_from_file_location(
        "over_seeds", ROOT / "lab/benchmarks/over_seeds.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_file_has_the_worlds_of_our_study_with_its_seeds():
    worlds = json.loads(FILE.read_text())["worlds"]
    assert list(worlds) == ["countdown-1", "lookup-1", "real-1", "sql-2"]
    own = {"lookup-1": "docs/lookup-world.md", "real-1": "docs/real-world.md"}
    for world, table in worlds.items():
        found = read_over_seeds(world)
        page = own.get(world, "docs/results.md")
        assert (found.seeds, found.page) == (table["seeds"], page)
        assert str(found.methods["grpo"]["in_domain"]["greedy"]).count(" ± ") == 1


def test_a_study_gives_the_numbers_of_its_report(tmp_path):
    study = tmp_path / "STUDY.toml"
    study.write_text(
        '[rule.choose]\nmetric = "greedy"\n[study]\nname = "s"\nseeds_development = [1]\n'
        'seeds_report = [2, 3]\n[[worlds]]\ntask = "sql"\nedition = 2\n'
        '[[methods]]\nname = "grpo"\nlabel = "GRPO"\n'
    )
    score = {"world": "sql-2", "label": "GRPO", "set": "in_domain", "seeds": 2}
    scores = [
        score | {"metric": "greedy", "mean": 0.7123, "half_ci95": 0.05},
        score | {"metric": "styles", "mean": 1.25, "half_ci95": 0.1},
        score | {"metric": "greedy", "label": "other", "mean": 0.1, "half_ci95": 0.1},
    ]
    (tmp_path / "report.json").write_text(json.dumps({"scores": scores}))
    found = script().of_study(study, tmp_path, "docs/a.md")["sql-2"]
    assert found["methods"] == {
        "grpo": {"in_domain": {"greedy": [71.2, 5.0], "styles": [1.2, 0.1]}}
    }
    assert (found["seeds"], found["page"]) == (2, "docs/a.md")


def test_a_file_of_another_schema_is_refused(tmp_path):
    (tmp_path / "f.json").write_text('{"schema": 9, "worlds": {}}')
    with pytest.raises(DataError, match="schema 9, not 1"):
        read_over_seeds("sql-2", tmp_path / "f.json")
