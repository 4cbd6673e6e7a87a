from pathlib import Path

import pytest

from lab.benchmarks.speed.job import measure
from lab.benchmarks.speed.runs import Run
from lab.benchmarks.speed.suite import SUITE, selected
from lab.benchmarks.speed.tables import TABLES, refresh_readme, table

QUICK = Run(quick=True, repeats=1)
COMMON = {"bench", "case", "shape", "threads", "ours_s", "ours_range", "peer", "peer_s"}
COMMON |= {"peer_range", "ratio", "repeats", "date", "machine"}


@pytest.mark.parametrize(("bench", "case"), selected("", without_trl=True))
def test_every_bench_without_trl_runs_and_gives_whole_rows(bench, case):
    rows = measure(bench, case, QUICK)
    assert rows
    for row in rows:
        assert row.keys() >= COMMON
        assert row["ours_s"] > 0
        assert row["ratio"] == pytest.approx(row["peer_s"] / row["ours_s"], rel=1e-2)


def test_a_selection_keeps_the_order_of_the_suite_and_refuses_what_it_does_not_know():
    both = [("full_step", "long"), ("sampling", "early")]
    assert selected("sampling/early,full_step/long") == both
    assert len(selected("")) == sum(len(bench.cases) for bench in SUITE.values())
    with pytest.raises(ValueError, match="no bench 'sampling/fast'"):
        selected("sampling/fast")


README = Path(__file__).parents[3] / "lab" / "benchmarks" / "README.md"


def sampling(threads=1, **changes):
    return {
        "bench": "sampling",
        "case": "early",
        "shape": "prompt 220",
        "threads": threads,
        "device": "cpu",
        "ours_s": 1.0,
        "ours_range": [0.9, 1.1],
        "peer": "generate",
        "peer_s": 4.5,
        "peer_range": [4.0, 5.0],
        "ratio": 4.5,
        "ours_mean_length": 12.0,
        "peer_mean_length": 11.9,
        "floor_s": 0.25,
        "useful_share": 0.25,
        "matmul_gflops": 60.0,
        "machine": "a machine",
        "date": "2026-01-01",
        "repeats": 5,
    } | changes


def test_a_table_has_a_line_for_each_row_and_says_that_no_gpu_was_there():
    lines = table("sampling", [sampling(2), sampling(1)]).splitlines()
    assert len(lines) == 5
    assert (
        "| 1 | 1 (0.9 to 1.1) | 4.5 (4 to 5) | **4.50** (wanted >= 4.0) | 12.0 / 11.9" in lines[2]
    )
    assert lines[4].startswith("| on a GPU: not run |")


def test_every_table_of_the_readme_is_made_from_the_rows(tmp_path):
    copy = tmp_path / "README.md"
    copy.write_text(README.read_text())
    refresh_readme(copy, [sampling()])
    text = copy.read_text()
    assert "a machine; measured 2026-01-01; matrix products, by threads: 60 GFLOP/s on 1" in text
    assert text.count("on a GPU: not run") == len(TABLES)
    refresh_readme(copy, [sampling()])
    assert copy.read_text() == text
