"""The initial policy's right answers, of all problems of a pool."""

from collections import Counter

import pyarrow.parquet as pq
import pytest

from dph.errors import PoolError
from dph.runs.presample.pool import BaseCounts, load_pool, read_base_counts
from dph.runs.presample.presample import presample
from letter_task import GRADING


def test_counts_are_those_of_the_samples_without_the_final_one_whatever_side_a_problem_is_on(
    tmp_path, make_model, make_draw, make_source, make_reference, rule, problems
):
    model = make_model()
    presample(
        problems,
        tmp_path,
        draw=make_draw(model),
        reference=make_reference(model),
        source=make_source(model),
        grading=GRADING,
        rule=rule,
    )
    pool = load_pool(tmp_path)
    counts = read_base_counts(tmp_path, pool.manifest)
    assert counts.samples == pool.manifest.source.answers == 4
    rows = pq.read_table(tmp_path / "samples.parquet").to_pylist()
    right = Counter(
        row["problem_id"] for row in rows if row["outcome"] == "CORRECT" and row["sample_index"] < 4
    )
    assert counts.correct == {problem.problem_id: right[problem.problem_id] for problem in problems}
    assert len(set(counts.correct.values())) > 2
    histogram = Counter(counts.correct.values())
    assert pool.manifest.counts.histogram == tuple(histogram[c] for c in range(5))


def test_a_problem_that_was_not_drawn_for_is_named():
    counts = BaseCounts(correct={"a": 3}, samples=4)
    assert counts.of("a") == 3
    with pytest.raises(PoolError, match="no samples of problem 'b', but"):
        counts.of("b")
