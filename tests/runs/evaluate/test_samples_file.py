import logging

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.errors import DataError
from dph.records import Problem
from dph.runs.evaluate.evaluate import evaluate_set
from dph.runs.evaluate.samples_file import (
    SAMPLES,
    comparable_scores,
    read_samples,
    read_scores,
    samples_digest,
    write_samples,
)
from dph.runs.evaluate.scores import keep_problems, read_kept_problems


@pytest.fixture
def table(make_set):
    return pa.concat_tables(
        [
            evaluate_set(make_set("digits"), samples=6, seed=0),
            evaluate_set(make_set("bare", problems=3, style=None), samples=4, seed=0, greedy=False),
        ]
    )


def test_scores_are_those_of_the_rows_and_a_set_without_greedy_answers_has_none(table):
    scores = comparable_scores({"t": table})["t"]
    rows = [row for row in table.to_pylist() if row["set"] == "digits"]
    digits = scores["digits"]
    assert digits.problem_ids == tuple(f"digits-{i}" for i in range(10))
    assert digits.samples == 6
    for i, problem_id in enumerate(digits.problem_ids):
        mine = [row for row in rows if row["problem_id"] == problem_id]
        assert [row["sample_index"] for row in mine] == [-1, 0, 1, 2, 3, 4, 5]
        right = [row["outcome"] == "CORRECT" for row in mine]
        assert [digits.greedy[i], *digits.correct[i]] == right
        assert digits.rewards[i].tolist() == [row["reward"] for row in mine[1:]]
        assert digits.correct_counts[i] == sum(right[1:])
    cut_off = [row["outcome"] == "CUT_OFF" for row in rows if row["sample_index"] >= 0]
    assert digits.cut_off == np.mean(cut_off) > 0
    odd = [row["style"] == "odd" for row in rows if row["sample_index"] >= 0]
    assert digits.shares["odd"] == pytest.approx(np.mean(odd))
    bare = comparable_scores({"t": table})["t"]["bare"]
    assert bare.greedy is None
    assert bare.shares == {}
    assert bare.correct.shape == (3, 4)


def test_a_file_comes_back_as_it_was_written_with_its_digest_if_it_has_one(table, tmp_path):
    path = tmp_path / "samples.parquet"
    write_samples(path, table, digest="abc")
    assert read_samples(path).equals(table)
    assert samples_digest(path) == "abc"
    assert (
        read_scores(path)["digits"].shares == comparable_scores({"t": table})["t"]["digits"].shares
    )
    assert pq.ParquetFile(path).metadata.row_group(0).column(3).compression == "ZSTD"
    assert [p.name for p in tmp_path.iterdir()] == ["samples.parquet"]
    pq.write_table(table, tmp_path / "plain.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    assert samples_digest(tmp_path / "plain.parquet") is None
    assert samples_digest(tmp_path / "broken.parquet") is None
    assert samples_digest(tmp_path / "absent.parquet") is None


def test_a_missing_or_damaged_file_is_named(table, tmp_path):
    path = tmp_path / "samples.parquet"
    with pytest.raises(DataError, match=r"cannot read .*samples.parquet"):
        read_samples(path)
    write_samples(path, table, digest="abc")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"samples.parquet is damaged"):
        read_samples(path)


def replaced(table, column, value):
    at = SAMPLES.get_field_index(column)
    values = [value, *table[column].to_pylist()[1:]]
    return table.set_column(at, SAMPLES.field(at), pa.array(values, SAMPLES.field(at).type))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda t: t.drop_columns("reward"),
            "is not a samples file: its columns are set, problem_id",
        ),
        (lambda t: replaced(t, "reward", None), "'reward' is missing in some rows"),
        (lambda t: replaced(t, "outcome", "PERHAPS"), "unknown outcome 'PERHAPS'"),
        (lambda t: t.slice(1), "samples.parquet: set 'digits': rows are missing"),
        (lambda t: t.take([1, 0, *range(2, t.num_rows)]), "set 'digits': rows are missing"),
        (lambda t: pa.concat_tables([t, t]), "rows of a problem are missing or not adjacent"),
        (lambda t: replaced(t, "problem_id", "x"), "rows of a problem are missing"),
        (lambda t: t.slice(0, 1), "set 'digits' has no graded samples"),
    ],
)
def test_damage_is_refused_with_what_is_wrong(table, tmp_path, damage, message):
    path = tmp_path / "samples.parquet"
    pq.write_table(damage(table), path)
    with pytest.raises(DataError, match=message):
        read_scores(path)


def test_a_problem_whose_gold_answer_is_broken_is_left_out_with_a_warning(make_set, caplog):
    table = evaluate_set(make_set(broken=(2, 5)), samples=6, seed=0)
    with caplog.at_level(logging.WARNING):
        scores = comparable_scores({"t": table})["t"]["digits"]
    assert scores.problem_ids == tuple(f"digits-{i}" for i in range(10) if i not in (2, 5))
    assert "2 problem(s) left out" in caplog.text
    assert "'digits-2'" in caplog.text


def test_samples_whose_grading_crashed_count_as_wrong_with_a_warning(make_set, caplog):
    table = evaluate_set(make_set(), samples=6, seed=0)
    crashed = replaced(table, "outcome", "CRASHED")
    with caplog.at_level(logging.WARNING):
        scores = comparable_scores({"t": crashed})["t"]["digits"]
    assert scores.samples == 6
    assert not (scores.greedy[0] if scores.greedy is not None else scores.correct[0, 0])
    assert f"t: the verifier crashed on 1 of {table.num_rows} samples" in caplog.text


def test_a_problem_that_one_model_could_not_be_graded_on_is_left_out_for_all(make_set):
    hit = evaluate_set(make_set(broken=(4,)), samples=6, seed=0)
    spared = evaluate_set(make_set(), samples=6, seed=0)
    scores = comparable_scores({"hit": hit, "spared": spared})
    left = tuple(f"digits-{i}" for i in range(10) if i != 4)
    assert scores["hit"]["digits"].problem_ids == left
    assert scores["spared"]["digits"].problem_ids == left


CHAT = ({"role": "user", "content": "how many?"},)
SETS = {
    "dev": [Problem(problem_id="1", prompt="é?", answer={"gold_sql": "SELECT 1", "rows": [[1]]})],
    "other": [Problem(problem_id="1", prompt=CHAT, answer={})],
}


def test_problems_come_back_by_set_and_id_and_are_written_again_only_when_they_changed(tmp_path):
    path = tmp_path / "problems.parquet"
    assert read_kept_problems(path) == {}
    keep_problems(path, SETS)
    assert read_kept_problems(path) == {
        ("dev", "1"): SETS["dev"][0],
        ("other", "1"): SETS["other"][0],
    }
    before = path.stat().st_mtime_ns
    keep_problems(path, SETS)
    assert path.stat().st_mtime_ns == before
    keep_problems(path, {"dev": SETS["dev"]})
    assert list(read_kept_problems(path)) == [("dev", "1")]


def test_a_damaged_file_and_another_version_are_named(tmp_path):
    path = tmp_path / "problems.parquet"
    path.write_bytes(b"x")
    with pytest.raises(DataError, match="is damaged"):
        read_kept_problems(path)
    keep_problems(tmp_path / "good.parquet", SETS)
    pq.write_table(pq.read_table(tmp_path / "good.parquet").replace_schema_metadata({}), path)
    with pytest.raises(DataError, match="has schema none"):
        read_kept_problems(path)
