"""The curve of the hostile worlds, of rows whose gains were planted."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

import dph

pytest.importorskip("lab.benchmarks.hostile", reason="a wheel has no benchmarks")

from lab.benchmarks.hostile.__main__ import main
from lab.benchmarks.hostile.curve import pairs_of, points_of, sentences
from lab.study.planner import Planner
from lab.study.results import Results
from lab.study.rows import RunRow, Score, write_row_file
from lab.study.settings import load_study
from lab.worlds.sql.kind import CORRELATIONS

ROOT = Path(dph.__file__).parents[2]
FILE = ROOT / "lab" / "benchmarks" / "hostile" / "STUDY.toml"
PLANTED = {0.0: 0.10, 0.25: 0.05, 0.5: 0.0, 0.75: -0.05, 1.0: -0.10}
"""What the vote adds, by correlation."""
NOISE = (-0.02, -0.01, 0.0, 0.01, 0.02)
"""Of the five seeds: mean 0, standard deviation 0.0158, so intervals of +-0.0196."""
HALF = 2.7764451051977934 * 0.015811388300841896 / 5**0.5


@pytest.fixture(scope="module")
def study():
    return load_study(FILE)


def planted(run):
    """The row of a run: 50% everywhere, and what the vote adds where there was one."""
    correlation = CORRELATIONS[run.variant.site.task]
    gain = 0.0
    if run.label in ("DPH-broad", "DPH-broad, tests' databases"):
        gain = PLANTED[correlation] + NOISE[run.seed - 500]
    scores = [
        Score(set=of, metric=metric, k=k, value=0.5 + gain, problems=300)
        for of in ("in_domain", "cross_domain")
        for metric, k in (("greedy", None), ("mean", None), ("pass_at_k", 16))
    ]
    if gain:
        votes = (("consensus", 0.8 - correlation / 2), ("consensus_share", 0.9))
        scores += [
            Score(set="stores.after", metric=metric, k=None, value=value, problems=1200)
            for metric, value in (*votes, ("answers_right", 0.6))
        ]
    return RunRow(
        run=run.id,
        world=run.variant.site.name,
        edition=1,
        seed=run.seed,
        method=run.variant.method,
        strength=run.variant.strength,
        learning_rate=run.variant.learning_rate,
        interpolate=None,
        steps=run.variant.steps,
        rule_sha256=None,
        samples=16,
        rollouts=0,
        stored=0,
        base_sha256=hashlib.sha256(f"{run.variant.site.name} {run.seed}".encode()).hexdigest(),
        commit="0" * 40,
        versions="python 3.11.7, torch 2.13.0",
        scores=tuple(scores),
    )


def plan_and_rows(study):
    plan = Planner(study).plan({})
    return plan, {run.id: planted(run) for run in plan.runs}


@pytest.fixture(scope="module")
def points(study):
    return points_of(study, Results(*plan_and_rows(study)))


def test_the_study_has_five_seeds_five_correlations_and_both_arms_of_every_pair(study):
    plan = Planner(study).plan({})
    assert not plan.undecided
    assert len(study.file.study.seeds_report) == 5
    assert {run.variant.site.task for run in plan.runs} == set(CORRELATIONS)
    labels = {run.label for run in plan.runs}
    assert {name for pair in pairs_of(study) for name in (pair.voted, pair.alone)} <= labels
    assert len({run.id for run in plan.runs}) == 5 * 5 * 8


def test_what_was_planted_is_found_with_its_interval(points):
    assert len(points) == 2 * 5
    for point in points:
        gain = point.gains["mean"]
        assert gain.mean == pytest.approx(PLANTED[point.correlation])
        assert gain.half == pytest.approx(HALF)
        assert gain.seeds == len(point.by_seed) == 5


def test_the_verdict_is_that_of_the_interval(points):
    expected = {0.0: "helps", 0.25: "helps", 0.5: "neither", 0.75: "harms", 1.0: "harms"}
    assert [point.verdict for point in points] == 2 * list(expected.values())
    assert next(sentences(points)).endswith("helps at 0, 0.25; neither at 0.5; harms at 0.75, 1.")


def test_the_vote_of_each_point_is_that_of_its_rows(points):
    for point in points:
        right = 0.8 - point.correlation / 2
        assert point.votes["consensus"].mean == pytest.approx(right)
        assert point.votes["consensus_share"].mean == pytest.approx(0.9)


def test_a_point_needs_a_seed_of_both_arms(study):
    plan, rows = plan_and_rows(study)
    left = {i: row for i, row in rows.items() if row.world != "sql-hostile-1"}
    alone = {run.id for run in plan.runs if run.label == "DPH-broad, anchor alone"}
    found = points_of(study, Results(plan, {i: r for i, r in left.items() if i not in alone}))
    assert [point.correlation for point in found] == [0.0, 0.25, 0.5, 0.75]


def test_one_seed_has_no_interval_and_no_verdict(study):
    plan, rows = plan_and_rows(study)
    found = points_of(study, Results(plan, {i: r for i, r in rows.items() if r.seed == 500}))
    assert {point.verdict for point in found} == {"unknown"}


def test_the_command_prints_a_table_writes_it_and_draws_a_picture(study, tmp_path, capsys):
    for row in plan_and_rows(study)[1].values():
        write_row_file(tmp_path / "rows", replace(row, rule_sha256=study.rule_sha256))
    page, picture = tmp_path / "page.md", tmp_path / "curve.png"
    main([str(FILE), str(tmp_path), "--picture", str(picture)])
    printed = capsys.readouterr().out
    own = printed.partition("**DPH-broad, minus DPH-broad, anchor alone**")[2]
    line = next(line for line in own.splitlines() if line.startswith("| 0 "))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:3] == ["0", "helps", "5"]
    assert cells[3:6] == 3 * ["+10.0 ± 2.0"]
    assert cells[6] == "80.0 ± 0.0"
    assert picture.read_bytes().startswith(b"\x89PNG")
    page.write_text("before\n<!-- hostile: begin -->\nold\n<!-- hostile: end -->\nafter\n")
    main([str(FILE), str(tmp_path), "--write", str(page)])
    assert printed in page.read_text()
    assert "old" not in page.read_text()


def test_without_rows_the_command_says_so(tmp_path):
    with pytest.raises(SystemExit, match="no seed of both arms"):
        main([str(FILE), str(tmp_path)])
