import pytest

from lab.benchmarks.speed.__main__ import main
from lab.benchmarks.speed.job import measure
from lab.benchmarks.speed.rows import read_rows
from lab.benchmarks.speed.runs import Run
from lab.benchmarks.speed.suite import SUITE, selected

QUICK = Run(quick=True, repeats=1)
COMMON = {"bench", "case", "shape", "threads", "ours_s", "ours_range", "peer", "peer_s"} | {
    "peer_range",
    "ratio",
    "repeats",
    "date",
    "machine",
}


@pytest.mark.parametrize(("bench", "case"), selected("", without_trl=True))
def test_every_bench_without_trl_runs_and_gives_whole_rows(bench, case):
    rows = measure(bench, case, QUICK)
    assert rows
    for row in rows:
        assert row.keys() >= COMMON
        assert row["ours_s"] > 0
        assert row["ratio"] == pytest.approx(row["peer_s"] / row["ours_s"], rel=1e-2)


def test_rehearsal_takes_one_stored_row_for_every_eight_policy_rows():
    rows = measure("overheads", "short", QUICK)
    stored = {row["method"]: row["stored_rows"] for row in rows}
    assert stored == {"dph_f": 1, "dph_js": 1, "rkl": 0}


def test_a_selection_keeps_the_order_of_the_suite_and_refuses_what_it_does_not_know():
    both = [("full_step", "long"), ("sampling", "early")]
    assert selected("sampling/early,full_step/long") == both
    assert len(selected("")) == sum(len(bench.cases) for bench in SUITE.values())
    with pytest.raises(ValueError, match="no bench 'sampling/fast'"):
        selected("sampling/fast")


@pytest.mark.slow
def test_a_smoke_run_of_the_command_leaves_its_rows_and_says_what_failed(tmp_path, capsys):
    command = ["--quick", "--threads", "1", "--out", str(tmp_path), "--only"]
    assert main([*command, "sampling"]) == 0
    assert {row["bench"] for row in read_rows(tmp_path / "results.jsonl")} == {"sampling"}
    assert "sampling/early, 1 thread" in capsys.readouterr().out
