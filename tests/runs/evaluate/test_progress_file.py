import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.errors import DataError
from dph.records import Outcome
from dph.runs.evaluate.metrics import pass_at_k
from dph.runs.evaluate.progress_file import (
    PROGRESS,
    BaseDistance,
    best_score,
    measured_steps,
    progress_row,
    read_progress_file,
    rows_up_to,
    step_metrics_of,
    step_summary,
    write_progress_file,
)
from dph.runs.evaluate.tables import digest_of
from loop_parts import graded


def compared(entropy, tokens):
    return BaseDistance(
        entropy=entropy,
        reverse_kl=2 * entropy,
        forward_kl=0.0,
        stored_reverse_kl=0.0,
        stored_forward_kl=entropy,
        compared_tokens=tokens,
        stored_tokens=1,
    )


C, W, BAD = Outcome.CORRECT, Outcome.WRONG, Outcome.BAD_GOLD


def row(problem, outcomes, greedy, *, step=0, name="dev", styles=(), known=None):
    styles = styles or [None] * len(outcomes)
    group = [
        graded(outcome, problem=problem, index=i, style=style)
        for i, (outcome, style) in enumerate(zip(outcomes, styles, strict=True))
    ]
    first = None if greedy is None else graded(greedy, problem=problem)
    return progress_row(step, name, group, first, known)


def table_of(*rows):
    return pa.Table.from_pylist(list(rows), schema=PROGRESS)


def test_what_is_written_is_read_back_with_its_digest(tmp_path):
    path = tmp_path / "progress.parquet"
    assert read_progress_file(path).num_rows == 0
    assert digest_of(path) is None
    table = table_of(
        row("a", [C, W], C, styles=["cte", "cte"], known=compared(0.5, 3)),
        row("b", [W, BAD], W, step=2),
    )
    write_progress_file(path, table, digest="made so")
    again = read_progress_file(path)
    assert again.equals(table)
    assert digest_of(path) == "made so"
    assert measured_steps(again) == [0, 2]
    assert rows_up_to(again, 1).num_rows == 1
    first, ungradable = again.to_pylist()
    assert (first["correct"], first["greedy"], first["styles"]) == (1, True, [("cte", 2)])
    assert ungradable["correct"] is ungradable["greedy"] is ungradable["reward"] is None


def test_a_damaged_file_and_one_of_another_version_are_named(tmp_path):
    path = tmp_path / "progress.parquet"
    for content in (b"", b"no parquet at all"):
        path.write_bytes(content)
        for read in (read_progress_file, digest_of):
            with pytest.raises(DataError, match=r"progress\.parquet is damaged"):
                read(path)
    pq.write_table(PROGRESS.empty_table(), path)
    with pytest.raises(DataError, match="has schema none"):
        read_progress_file(path)


def test_a_summary_is_what_the_definitions_give():
    rows = [
        row("a", [C, C, W, W], C, styles=["x", "y", "y", "y"], known=compared(1.0, 30)),
        row("b", [W, W, W, C], W, styles=["x", "x", "x", "y"], known=compared(0.5, 10)),
        row("c", [W, BAD, W, W], W),
    ]
    summary = step_summary(table_of(*rows), ks=[1, 2], seed=0)
    dev = summary["dev"]
    assert dev["problems"] == 2
    assert dev["greedy"] == 0.5
    assert dev["mean"] == dev["pass_at_k"]["1"] == pytest.approx(3 / 8)
    assert dev["pass_at_k"]["2"] == pytest.approx((pass_at_k(4, 2, 2) + pass_at_k(4, 1, 2)) / 2)
    assert dev["styles"] == {"x": 0.5, "y": 0.5}
    assert dev["effective_styles"] == pytest.approx(2)
    assert dev["entropy"] == pytest.approx((30 * 1.0 + 10 * 0.5) / 40)  # weighted by tokens
    assert dev["stored_forward_kl"] == pytest.approx(0.75)  # one token each
    metrics = step_metrics_of(summary)
    assert metrics["eval/dev/pass_at_2_lo"] <= metrics["eval/dev/pass_at_2"]
    assert metrics["eval/dev/style_x"] == 0.5
    assert not any("keep" in name or "ci95" in name for name in metrics)


def test_without_greedy_answers_styles_and_comparisons_nothing_is_made_up():
    dev = step_summary(table_of(row("a", [C, W], None)), ks=[1], seed=0)["dev"]
    assert dev["greedy"] is dev["entropy"] is dev["effective_styles"] is None
    assert dev["styles"] == {}


def test_the_score_of_keep_best_is_a_sets_or_the_mean_of_all_that_can_be_graded():
    table = table_of(row("a", [C, C], C), row("b", [C, W], W, name="other"))
    summary = step_summary(table, ks=[1, 2], seed=0)
    assert best_score(summary, (None, "mean")) == 0.75
    assert best_score(summary, ("other", "mean")) == 0.5
    assert best_score(summary, (None, "pass_at_2")) == 1.0
    assert best_score(summary, ("other", "greedy")) == 0.0
    assert best_score({}, (None, "mean")) is None
    table = table_of(row("a", [BAD, BAD], W), row("b", [C, C], C, name="other"))
    summary = step_summary(table, ks=[1], seed=0)
    assert list(summary) == ["other"]
    assert best_score(summary, ("dev", "mean")) is None
    assert best_score(summary, (None, "mean")) == 1.0
