from pathlib import Path

import pytest

from dph.errors import DataError
from lab.benchmarks.speed.tables import TABLES, refresh_readme, row_line, table

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
    once = text
    refresh_readme(copy, [sampling()])
    assert copy.read_text() == once


def test_a_readme_without_a_marker_is_refused(tmp_path):
    copy = tmp_path / "README.md"
    copy.write_text(README.read_text().replace("<!-- update: end -->", ""))
    with pytest.raises(DataError, match="<!-- update: begin -->"):
        refresh_readme(copy, [])


def test_a_row_on_the_terminal_names_both_sides():
    assert row_line(sampling()) == "sampling/early: ours 1 s, generate 4.5 s, ratio 4.50"
