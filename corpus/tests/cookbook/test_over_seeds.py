"""The tables of docs/cookbook.md: made of the committed rows, and what they say of one run."""

import importlib.util
import sys
from pathlib import Path
from statistics import fmean

import pytest

from dph._base.files import write_json
from dph.results.over_seeds import t_interval

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(
    not (ROOT / "lab/benchmarks/cookbook").is_dir(), reason="a wheel has no benchmarks"
)


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "lab" / "benchmarks"))
    spec = importlib.util.spec_from_file_location(
        "cookbook_table", ROOT / "lab/benchmarks/cookbook_table.py"
    )
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


@pytest.fixture(scope="module")
def rows(script):
    return script.read_rows()


def run(number, greedy, **more):
    """A run whose models all have one score, but those that are named."""
    scores = dict.fromkeys(("base", "broad", "executed", "grpo", "dph_f"), greedy) | more
    return [
        {"run": f"{number} AVX2", "problems": 100, "samples": 8, "model": name, "greedy": value}
        for name, value in scores.items()
    ]


def test_the_page_has_the_tables_of_the_committed_rows(script, rows):
    page = (ROOT / "docs/cookbook.md").read_text(encoding="utf-8")
    block = page.split("<!-- models: begin -->\n")[1].split("<!-- models: end -->")[0]
    assert block == script.tables(rows)


def test_all_rows_are_of_the_recipe_as_it_is(script, rows):
    assert {row["recipe"] for row in rows} == {script.recipe_digest()}


def test_several_seeds_and_two_kinds_of_kernels_are_in_it(script, rows):
    runs = {row["run"] for row in rows}
    assert len({run.split()[0] for run in runs}) >= 5
    assert len(script.kernels(sorted(runs))) >= 2


def test_grpo_gains_more_than_its_interval(script, rows):
    before, after = (script.column(rows, name, "pass@1") for name in ("executed", "grpo"))
    gains = [b - a for a, b in zip(before, after, strict=True)]
    assert t_interval(gains)[0] > 0, fmean(gains)


def test_the_span_of_one_run_is_no_narrower_than_a_question(script):
    same = run(0, 40.0) + run(1, 40.0)
    assert script.span(same, "grpo", "greedy") == (39.0, 41.0)
    assert script.span(run(0, 0.0) + run(1, 0.0), "base", "greedy") == (0.0, 1.0)


def test_a_score_outside_its_span_is_named(script):
    known = run(0, 40.0) + run(1, 40.0)
    assert list(script.outside(known, run(2, 40.5))) == []
    assert list(script.outside(known, run(2, 40.0, grpo=43.0))) == [
        "grpo, greedy: 43.0 is not in 39.0 to 41.0"
    ]


def test_a_run_is_read_from_its_scores(script, tmp_path):
    of = {"problems": 100, "greedy": 0.25, "pass_at_k": {"1": 0.125, "8": 0.5}}
    document = {"computed_by": "torch 3, x86_64 AVX2", "samples": 8}
    write_json(tmp_path / "scores.json", document | {"models": {"grpo": {"in_domain": of}}})
    (row,) = script.measured(tmp_path, "4 AVX2")
    expected = {"run": "4 AVX2", "model": "grpo", "problems": 100, "samples": 8, "greedy": 25.0}
    expected |= {"pass@1": 12.5, "pass@8": 50.0}
    assert expected.items() <= row.items()


def test_differences_are_paired_by_run_and_counted(script):
    text = script.tables(run(0, 40.0, grpo=50.0) + run(1, 60.0, grpo=62.0))
    # GRPO minus stage 2: 10 and 2; mean 6, half 12.706 * 5.657 / 1.414 = 50.8.
    assert "| GRPO minus fine-tuned, stage 2 | +6.0 ± 50.8 (2 of 2) |" in text


def test_costs_are_those_of_all_stages_and_name_the_long_ones(script):
    spent = {
        "base": {"seconds": 30.4, "cpu_seconds": 20.0},
        "recall": {"seconds": 0.2, "cpu_seconds": 0.1},
    }
    text = script.costs(spent)
    assert "| base | 30 | 20 |" in text
    assert "recall" not in text
    assert "| all | 31 | 20 |" in text
