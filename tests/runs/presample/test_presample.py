import pyarrow.parquet as pq
import pytest

from dph.errors import PoolError
from dph.runs.presample.manifest import require_fit
from dph.runs.presample.pool import load_pool
from dph.runs.presample.presample import histogram, partition
from letter_task import GRADING
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
def test_an_interrupted_run_ends_with_the_identical_pool(pool_of, tmp_path, finished):
    pool_of(tmp_path / "whole" / "pool")
    with pytest.raises(Killed):
        pool_of(tmp_path / "killed" / "pool", change=lambda draw: Dying(draw, finished))
    left = [path.name for path in (tmp_path / "killed").glob("*")]
    assert left == (["pool.partial"] if finished else [])  # nothing before the first piece is done
    seen = []
    pool_of(tmp_path / "killed" / "pool", on_progress=seen.append)
    assert sum(seen) == 24 * 5
    assert files_of(tmp_path / "killed" / "pool") == files_of(tmp_path / "whole" / "pool")
    assert [p.name for p in (tmp_path / "killed").iterdir()] == ["pool"]


def test_a_changed_or_missing_file_is_refused_by_name(pool_of, tmp_path):
    pool_of(tmp_path / "pool")
    for name in ("exploration.parquet", "rehearsal.parquet", "samples.parquet"):
        file = tmp_path / "pool" / name
        intact = file.read_bytes()
        file.write_bytes(intact + b"x")
        with pytest.raises(PoolError, match=f"{name} is not the file that was written"):
            load_pool(tmp_path / "pool")
        file.unlink()
        with pytest.raises(PoolError, match=f"{name} is missing"):
            load_pool(tmp_path / "pool")
        file.write_bytes(intact)


def test_a_damaged_manifest_is_refused(tmp_path):
    for content, message in [
        ("{", "is not a pool"),
        ("{}", "pool format None is unknown"),
        ('{"format": 4}', "pool format 4 is unknown, this version reads 3"),
        ('{"format": 3}', "is damaged: kind"),
    ]:
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(PoolError, match=message):
            load_pool(tmp_path)


def test_a_pool_of_something_else_is_refused(pool_of, tmp_path, make_model, make_source, rule):
    manifest, model = pool_of(tmp_path / "pool"), make_model()

    def fits(grading=(), **source):
        graded = GRADING.model_copy(update=dict(grading))
        require_fit(tmp_path / "pool", manifest, make_source(model, **source), graded, rule)

    fits(path="elsewhere")  # a moved model directory
    for changes, named in [
        ({"model_fingerprint": "x"}, "model fingerprint was"),
        ({"tokenizer_fingerprint": "x"}, "tokenizer fingerprint was"),
        ({"prompts_fingerprint": "x"}, "prompts fingerprint was"),
        ({"temperature": 0.7}, r"temperature was 1.0, this run has 0.7"),
        ({"grading": {"graded_by": "x"}}, "verifier was 'letter', this run has 'x'"),
        ({"grading": {"graded_version": "2"}}, "verifier version was '1', this run has '2'"),
        ({"grading": {"graded_settings": {"timeout": 2.0}}}, "timeout was None, this run has 2.0"),
    ]:
        with pytest.raises(PoolError, match=named):
            fits(**changes)


def test_the_threshold_is_near_perfect_and_a_wrong_final_sample_is_discarded_or_explored():
    correct = {"a": 7, "b": 8, "c": 6}
    final = {"a": True, "b": False, "c": True}
    split = partition(correct, final, threshold=7, wrong_final="discard")
    assert (split.rehearsal, split.discarded, split.exploration) == (("a",), ("b",), ("c",))
    split = partition(correct, final, threshold=7, wrong_final="explore")
    assert (split.rehearsal, split.discarded, split.exploration) == (("a",), (), ("b", "c"))


def test_histogram_counts_every_problem_once():
    assert histogram([0, 3, 3, 1], samples=3) == (1, 1, 0, 2)


def test_a_pool_is_not_written_over_anything_else(pool_of, tmp_path):
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "thesis.tex").write_text("years of work")
    with pytest.raises(PoolError, match="holds files but no pool"):
        pool_of(tmp_path / "pool")
    assert (tmp_path / "pool" / "thesis.tex").read_text() == "years of work"
