import json
from dataclasses import replace
from statistics import fmean, stdev

import pyarrow.parquet as pq
import pytest

from dph.results.over_seeds import t_quantile
from lab.study.outputs import COLUMNS, make_report, report_document, write_outputs
from lab.study.planner import Planner
from lab.study.rows import Score
from lab.study.rule_lock import RuleLock, current_lock
from lab.study.settings import load_study, with_settings
from lab.study.tables import (
    POWER_SEEDS,
    all_tables,
    choices_table,
    comparisons_table,
    differences_table,
    forgetting_tables,
    power_table,
    scores_table,
    study_tables,
    tried_tables,
)
from small_study import RULE


def values(rows, method, metric, k=None, of="in_domain", strength=None):
    return [
        score.value
        for row in rows.values()
        for score in row.scores
        if (row.method, score.metric, score.k, score.set) == (method, metric, k, of)
        and row.seed < 100
        and (strength is None or row.strength == strength)
    ]


def test_the_parquet_has_every_score_and_the_rules_hash_and_nothing_of_time(report, finished):
    _, places, rows = finished
    write_outputs(report, places, rows)
    table = pq.read_table(places.parquet)
    assert table.schema.remove_metadata() == COLUMNS
    metadata = {k.decode(): v.decode() for k, v in table.schema.metadata.items()}
    assert metadata["dph.rule_sha256"] == report.lock.sha256
    assert table.num_rows == sum(len(row.scores) for row in rows.values())
    assert set(table["split"].to_pylist()) == {"development", "report"}
    keys = [(r["world"], r["split"], r["seed"], r["label"]) for r in table.to_pylist()]
    assert keys == sorted(keys)


def test_written_again_from_rows_in_another_order_all_bytes_are_the_same(report, finished):
    _, places, rows = finished
    write_outputs(report, places, rows)
    first = {path: path.read_bytes() for path in places.out.rglob("*") if path.is_file()}
    write_outputs(report, places, dict(reversed(list(rows.items()))))
    for path in (places.parquet, places.report, *places.tables.iterdir()):
        assert path.read_bytes() == first[path], path


def test_every_table_names_the_rule(report):
    tables = {table.name: table for table in all_tables(report)}
    names = {"choices", "scores-sql", "comparisons", "power", "tried-sql"}
    assert tables.keys() == names | {"differences-sql-GRPO", "differences-sql-base"}
    for table in tables.values():
        assert report.lock.sha256[:12] in table.note


def by_label(table):
    return {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}


def test_a_study_that_names_what_it_shows_has_a_short_table_of_that(report, small, finished):
    planner, _, rows = finished
    study = with_settings(small, {"shown": ("dph_f",), "beside": ("dph_f",)})
    short = make_report(study, planner.plan(rows), rows, report.lock)
    by_name = {table.name: table for table in study_tables(short)}
    assert [row[0] for row in by_name["short-sql"].rows] == ["base", "dph_f"]
    assert set(by_name["short-sql"].rows) < set(by_name["scores-sql"].rows)
    assert "differences-sql-dph_f" in by_name


TRIED = [("dph_f", "0.3"), ("dph_f", "1"), ("rkl", "0.1")]


def test_what_was_tried_is_the_mean_over_development_seeds_by_hand(report, finished):
    rows = finished[2]
    (table,) = tried_tables(report)
    found = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["method"], row["strength"], row["learning rate"]) for row in found] == [
        ("GRPO", "-", "0.0002"),
        ("GRPO", "-", "0.0005"),
        *((name, strength, found[-1]["learning rate"]) for name, strength in TRIED),
    ]
    for row, (name, strength) in zip(found[2:], TRIED, strict=True):
        own = [
            score.value
            for one in rows.values()
            for score in one.scores
            if (one.method, one.strength, one.seed >= 100) == (name, float(strength), True)
            and (score.metric, score.set) == ("greedy", "in_domain")
        ]
        assert len(own) == 2
        assert row["in domain: greedy"] == f"{100 * fmean(own):.1f}"


def test_a_score_is_the_mean_over_report_seeds_with_a_t_interval_by_hand(report, finished):
    table = scores_table(report, "sql", report.results.labels("sql"))
    found_by = by_label(table)
    found = [100 * v for v in values(finished[2], "grpo", "greedy")]
    half = t_quantile(0.975, 2) * stdev(found) / 3**0.5
    assert found_by["GRPO"]["in domain: greedy"] == f"{fmean(found):.1f} ± {half:.1f}"
    assert found_by["GRPO"]["in domain: styles"] == "-"
    assert found_by["GRPO"]["answers drawn"] == "64"
    assert found_by["base"]["seeds"] == "3"
    assert table.rows[0][0] == "base"


def test_differences_are_paired_by_seed_by_hand(report, finished):
    table = differences_table(report, "sql", "base")
    found_by = by_label(table)
    grpo, base = (values(finished[2], name, "greedy") for name in ("grpo", "base"))
    mean = fmean(100 * (a - b) for a, b in zip(grpo, base, strict=True))
    assert found_by["GRPO"]["in domain: greedy"].startswith(f"{mean:+.1f} ± ")
    assert "base" not in found_by


def test_power_is_the_spread_over_the_root_of_the_seeds_by_hand(report, finished):
    row = power_table(report).rows[0]
    grpo, base = (values(finished[2], name, "greedy") for name in ("grpo", "base"))
    spread = 100 * stdev(a - b for a, b in zip(grpo, base, strict=True))
    assert POWER_SEEDS == (4, 10)
    assert row[:4] == ("sql", "GRPO", "in domain", "greedy")
    assert row[5:8] == (f"{spread:.1f}", f"{spread / 2:.2f}", f"{spread / 10**0.5:.2f}")


def test_the_rules_tests_are_corrected_together(report, finished):
    document = report_document(report, finished[2])
    json.dumps(document, allow_nan=False)
    p_values = [c["p"] for c in document["comparisons"]]
    adjusted = [c["p_adjusted"] for c in document["comparisons"]]
    assert len(p_values) == 2
    low, high = sorted(p_values)
    first, second = min(1, 2 * low), min(1, max(2 * low, high))
    assert sorted(adjusted) == pytest.approx([first, second])
    tested = comparisons_table(report, [])
    assert "over all 0" in tested.note


def test_a_study_that_has_not_begun_has_a_table_of_nothing(small, finished):
    planner, places, _ = finished
    report = make_report(small, planner.plan({}), {}, current_lock(small, places, {}))
    (table,) = study_tables(report)
    assert [row[5] for row in table.rows] == []
    assert report_document(report, {})["runs"] == {"finished": 0, "total": 24}


def test_a_tie_is_reported_wherever_it_decides(write, finished):
    rows = finished[2]
    wide = load_study(write(rule=RULE.replace("[choose]", "[choose]\ntie = 2.0")))
    report = make_report(wide, Planner(wide).plan(rows), rows, RuleLock(sha256="0" * 64))
    table = choices_table(report)
    assert table.columns[-1] == "tie"
    ties = {row[1]: row[-1].strip("*") for row in table.rows}
    assert ties == {"GRPO": "tie", "dph_f": "tie", "rkl": ""}
    note = scores_table(report, "sql", report.results.labels("sql")).note
    assert "Chosen by the tie-break: GRPO (rate 0.0002 or rate 0.0005), dph_f (strength" in note
    tried = {
        c["label"]: [t["tie"] for t in c["tried"]] for c in report_document(report, rows)["choices"]
    }
    assert tried == {"GRPO": [True, True], "dph_f": [True, True], "rkl": [False]}


def test_candidates_come_from_weak_to_strong_with_a_run_of_each_development_seed(report):
    found = report.results.tried("sql", "dph_f")
    assert [place.strength for place in found] == [0.3, 1.0]
    for place, of_place in found.items():
        assert sorted(row.seed for row in of_place) == [100, 101]
        assert {row.strength for row in of_place} == {place.strength}


@pytest.fixture
def report_of(small, finished):
    planner, places, rows = finished

    def made(*more):
        scored = {name: replace(row, scores=(*row.scores, *more)) for name, row in rows.items()}
        lock = current_lock(small, places, scored)
        return make_report(small, planner.plan(scored), scored, lock)

    return made


def score(of, metric, value, k=None):
    return Score(set=of, metric=metric, k=k, value=value, problems=10)


def test_kept_and_gained_are_means_over_the_report_seeds(report_of):
    assert list(forgetting_tables(report_of())) == []
    kept, gained = score("in_domain", "keep", 0.9), score("in_domain", "explore", 0.25)
    (table,) = forgetting_tables(report_of(kept, gained))
    assert table.name == "retention-sql"
    found_by = by_label(table)
    assert set(found_by) == {"base", "GRPO", "dph_f", "rkl"}
    assert found_by["GRPO"]["in domain: keep"] == "90.0 ± 0.0"
    assert found_by["dph_f"]["in domain: explore"] == "25.0 ± 0.0"
    assert found_by["dph_f"]["cross domain: keep"] == "-"


def test_sets_that_the_rule_does_not_choose_by_have_a_table_of_their_own(report_of):
    right, mean = score("sums", "greedy", 0.5), score("sums", "mean", 0.4)
    (table,) = forgetting_tables(report_of(right, mean))
    assert table.name == "elsewhere-sql"
    assert table.columns == ("method", "sums: greedy", "sums: mean@1", "sums: pass@16")
    assert {row[1:] for row in table.rows} == {("50.0 ± 0.0", "40.0 ± 0.0", "-")}
