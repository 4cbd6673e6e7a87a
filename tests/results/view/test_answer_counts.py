import numpy as np
import pyarrow as pa
import pytest

from dph.errors import DataError
from dph.results.view.set_index import count_answers
from dph.runs.evaluate.samples_file import read_samples, write_samples
from report_runs import make_runs


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    runs = make_runs(tmp_path_factory.mktemp("counted"), sets={"a": 7, "b": 3}, samples=4)
    return runs / "base" / "samples.parquet"


def test_every_problem_is_counted_as_its_rows_say(samples):
    rows = read_samples(samples).to_pylist()
    for name, counts in count_answers(samples).items():
        for i, problem_id in enumerate(counts.ids):
            mine = [r for r in rows if (r["set"], r["problem_id"]) == (name, problem_id)]
            drawn = [r for r in mine if r["sample_index"] >= 0]
            greedy = next(r for r in mine if r["sample_index"] < 0)
            place = int(counts.first[i])
            assert rows[place : place + int(counts.rows[i])] == mine
            assert counts.samples[i] == len(drawn) == 4
            assert counts.correct[i] == sum(r["outcome"] == "CORRECT" for r in drawn)
            assert counts.greedy[i] == (greedy["outcome"] == "CORRECT")
            for column, of in (("outcome", counts.outcomes), ("style", counts.styles)):
                there = {value for value, having in of.items() if having[i]}
                assert there == {r[column] for r in mine}


def test_without_greedy_answers_and_styles_nothing_is_made_up(samples, tmp_path):
    table = read_samples(samples)
    table = table.filter(pa.compute.greater_equal(table["sample_index"], 0))
    none = pa.nulls(len(table), pa.string())
    table = table.set_column(table.column_names.index("style"), "style", none)
    write_samples(tmp_path / "samples.parquet", table, digest="made")
    counts = count_answers(tmp_path / "samples.parquet")["a"]
    assert counts.greedy.tolist() == [-1] * 7
    assert counts.styles == {}


def test_rows_of_a_problem_that_lie_apart_are_refused(samples, tmp_path):
    table = read_samples(samples)
    order = np.roll(np.arange(len(table)), 2)
    write_samples(tmp_path / "samples.parquet", table.take(order), digest="made")
    with pytest.raises(DataError, match="not adjacent"):
        count_answers(tmp_path / "samples.parquet")


def test_no_rows_are_no_sets(samples, tmp_path):
    write_samples(tmp_path / "samples.parquet", read_samples(samples).slice(0, 0), digest="made")
    assert count_answers(tmp_path / "samples.parquet") == {}
