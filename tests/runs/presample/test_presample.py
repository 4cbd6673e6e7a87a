import pyarrow.parquet as pq
import pytest

from dph.errors import DataError
from dph.records import Outcome
from dph.runs.presample.pool import load_pool
from dph.runs.presample.presample import partition, read_grades, ungradable_outcome
from dph.runs.presample.tables import Ungradable, graded_table
from loop_parts import FORWARD, Killed
from scored_completions import score_completions


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("dph.runs.presample.presample.CHUNK", 5)


def files_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_every_problem_is_on_exactly_one_side(pool_of, tmp_path, problems):
    counts = pool_of(tmp_path / "pool").counts
    pool = load_pool(str(tmp_path / "pool"))
    assert counts.exploration + counts.rehearsal + counts.discarded == len(problems) == 24
    assert sum(counts.histogram) == 24
    assert len(pool.exploration) == counts.exploration
    assert len(pool.rehearsal) == counts.rehearsal > 0
    sides = {p.problem_id for p in pool.exploration} | {s.problem_id for s in pool.rehearsal}
    assert len(sides) == counts.exploration + counts.rehearsal
    assert all(problem in problems for problem in pool.exploration)  # with prompt and answer


def test_as_many_correct_answers_are_kept_as_the_rule_says(pool_of, tmp_path, make_model):
    one, three = (pool_of(tmp_path / f"keep{keep}", keep=keep) for keep in (1, 3))
    samples = pq.read_table(tmp_path / "keep3" / "samples.parquet").to_pylist()
    assert len(samples) == 24 * 5
    final = load_pool(tmp_path / "keep1").rehearsal
    kept = load_pool(tmp_path / "keep3").rehearsal
    correct = {
        (row["problem_id"], row["sample_index"]): tuple(row["token_ids"])
        for row in samples
        if row["outcome"] == "CORRECT"
    }
    expected = [
        (sample.problem_id, index)
        for sample in final
        for index in [i for i in (4, 0, 1, 2, 3) if (sample.problem_id, i) in correct][:3]
    ]
    assert all(s.completion_ids == correct[s.problem_id, s.sample_index] for s in (*final, *kept))
    assert {s.sample_index for s in final} == {4}
    assert [(s.problem_id, s.sample_index) for s in kept] == expected
    assert three.counts.rehearsal == len(kept) > len(final) == one.counts.rehearsal
    prompts, answers = [s.prompt_ids for s in kept], [s.completion_ids for s in kept]
    scores = score_completions(make_model(), prompts, answers, **FORWARD)
    for sample, row in zip(kept, scores, strict=True):
        assert sample.ref_logprobs == pytest.approx(row, abs=1e-5)


def test_the_samples_file_never_holds_more_than_a_chunk_in_one_list(pool_of, tmp_path):
    pool_of(tmp_path / "pool")
    groups = pq.ParquetFile(tmp_path / "pool" / "samples.parquet").metadata
    rows = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
    assert rows == [25, 25, 25, 25, 20]  # chunks of 5 problems, 4 + 1 samples each


class Dying:
    """Dies at one of its calls."""

    def __init__(self, inner, calls):
        self.inner, self.left = inner, calls
        self.encode, self.parameters = inner.encode, inner.parameters

    def __call__(self, *args, **kwargs):
        self.left -= 1
        if self.left < 0:
            raise Killed
        return self.inner(*args, **kwargs)


@pytest.mark.parametrize("finished", [0, 2, 4])
def test_an_interrupted_run_ends_with_the_identical_pool(pool_of, tmp_path, monkeypatch, finished):
    pool_of(tmp_path / "whole" / "pool")
    with pytest.raises(Killed):
        pool_of(tmp_path / "killed" / "pool", change=lambda draw: Dying(draw, finished))
    left = [path.name for path in (tmp_path / "killed").glob("*")]
    assert left == (["pool.partial"] if finished else [])  # nothing before the first piece is done
    if finished:
        with monkeypatch.context() as patch:
            patch.setattr("dph.runs.presample.presample.CHUNK", 6)
            with pytest.raises(DataError, match=r"pool.partial belongs to another job"):
                pool_of(tmp_path / "killed" / "pool")
    seen = []
    pool_of(tmp_path / "killed" / "pool", on_progress=seen.append)
    assert sum(seen) == 24 * 5
    assert files_of(tmp_path / "killed" / "pool") == files_of(tmp_path / "whole" / "pool")
    assert [p.name for p in (tmp_path / "killed").iterdir()] == ["pool"]


def test_the_threshold_is_near_perfect_and_a_wrong_final_sample_is_discarded_or_explored():
    correct = {"a": 7, "b": 8, "c": 6}
    final = {"a": True, "b": False, "c": True}
    split = partition(correct, final, threshold=7, wrong_final="discard")
    assert (split.rehearsal, split.discarded, split.exploration) == (("a",), ("b",), ("c",))
    split = partition(correct, final, threshold=7, wrong_final="explore")
    assert (split.rehearsal, split.discarded, split.exploration) == (("a",), (), ("b", "c"))
    split = partition(correct, final, threshold=7, wrong_final="explore", ungradable={"a", "b"})
    assert (split.ungradable, split.exploration, split.rehearsal) == (("a", "b"), ("c",), ())


BAD, CRASHED = Outcome.BAD_GOLD, Outcome.CRASHED


@pytest.fixture
def pool_with(pool_of, tmp_path):
    """Pre-sample the letter task with other outcomes for some problems."""

    def run(outcomes):
        pool_of(tmp_path / "pool", outcomes=outcomes)
        return load_pool(tmp_path / "pool")

    return run


def test_problems_that_cannot_be_graded_are_listed_and_neither_explored_nor_rehearsed(
    pool_with, caplog
):
    pool = pool_with({"3": BAD, "5": CRASHED})
    counts = pool.manifest.counts
    assert counts.ungradable == 2
    assert counts.exploration + counts.rehearsal + counts.discarded == 22
    assert sum(counts.histogram) == 22
    assert sum(counts.outcomes.values()) == 24 * 5
    assert 1 <= counts.outcomes["BAD_GOLD"] <= 5
    left = {p.problem_id for p in pool.exploration} | {s.problem_id for s in pool.rehearsal}
    assert not left & {"3", "5"}
    assert pool.ungradable == (
        Ungradable(problem_id="3", outcome=BAD, reason="no such table"),
        Ungradable(problem_id="5", outcome=CRASHED, reason="no such table"),
    )
    assert "problem(s) left out: the gold answer cannot be graded, for example '3'" in caplog.text


@pytest.mark.parametrize(
    ("outcomes", "why"),
    [
        ({"BAD_GOLD": 9}, BAD),
        ({"CORRECT": 8, "BAD_GOLD": 1}, BAD),  # about the problem, whichever answer found out
        ({"CRASHED": 9}, CRASHED),
        ({"CRASHED": 2, "CUT_OFF": 7}, CRASHED),  # none of those that were graded has a verdict
        ({"CRASHED": 8, "WRONG": 1}, None),
        ({"CRASHED": 8, "NO_ANSWER": 1}, None),
        ({"TIMED_OUT": 9}, None),  # the answer's fault, which the verifier says by this outcome
        ({"CUT_OFF": 9}, None),
    ],
)
def test_one_bad_gold_is_enough_but_a_crash_has_to_be_every_graded_answers(outcomes, why):
    assert ungradable_outcome(outcomes) is why


def test_grades_count_the_deciding_samples_apart_from_the_final_one(
    make_model, make_draw, problems
):
    rollout = make_draw(make_model())(problems, samples=5, seed=0)
    grades = read_grades(problems, [graded_table(rollout.groups)], 4)
    for problem, group in zip(problems, rollout.groups, strict=True):
        right = [graded.verdict.outcome == Outcome.CORRECT for graded in group]
        assert grades.correct[problem.problem_id] == sum(right[:4])
        assert grades.final_correct[problem.problem_id] == right[4]
