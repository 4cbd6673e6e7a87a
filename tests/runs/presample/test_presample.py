import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from dph._base.files.parts import TableParts
from dph.errors import PoolError
from dph.model.forward.logprobs import score_completions
from dph.records import Outcome, Verdict
from dph.runs.presample.manifest import require_fit
from dph.runs.presample.pool import load_pool
from dph.runs.presample.presample import histogram, partition, presample
from letter_task import GRADING


@pytest.fixture
def pool_of(make_model, make_draw, make_source, make_reference, rule, problems):
    """Pre-sample the letter task into a directory."""

    def run(path, on_progress=None, draw=None):
        model = make_model()
        return presample(
            problems,
            path,
            draw=draw or make_draw(model),
            reference=make_reference(model),
            source=make_source(model),
            grading=GRADING,
            rule=rule,
            on_progress=on_progress,
        )

    return run


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("dph.runs.presample.presample.CHUNK", 5)


def files_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_every_problem_is_on_exactly_one_side(pool_of, tmp_path, problems):
    manifest = pool_of(tmp_path / "pool")
    pool = load_pool(tmp_path / "pool")
    counts = manifest.counts
    assert counts.exploration + counts.rehearsal + counts.discarded == len(problems) == 24
    assert sum(counts.histogram) == 24
    assert len(pool.exploration) == counts.exploration
    assert len(pool.rehearsal) == counts.rehearsal > 0
    sides = {p.problem_id for p in pool.exploration} | {s.problem_id for s in pool.rehearsal}
    assert len(sides) == counts.exploration + counts.rehearsal


def test_a_pool_is_loaded_by_text_or_path(pool_of, tmp_path):
    pool_of(tmp_path / "pool")
    assert load_pool(str(tmp_path / "pool")) == load_pool(tmp_path / "pool")


def test_exploration_keeps_prompt_and_answer(pool_of, tmp_path, problems):
    pool_of(tmp_path / "pool")
    by_id = {p.problem_id: p for p in problems}
    for problem in load_pool(tmp_path / "pool").exploration:
        assert problem == by_id[problem.problem_id]


def test_stored_log_probs_are_those_of_the_training_forward(pool_of, tmp_path, make_model):
    pool_of(tmp_path / "pool")
    stored = load_pool(tmp_path / "pool").rehearsal
    scores = score_completions(
        make_model(),
        [s.prompt_ids for s in stored],
        [s.completion_ids for s in stored],
        temperature=1.0,
        pad_id=0,
        token_budget=10_000,
        dtype="float32",
    )
    for sample, row in zip(stored, scores, strict=True):
        assert sample.ref_logprobs == pytest.approx(row, abs=1e-5)


def test_a_kept_sample_is_the_final_one_and_correct(pool_of, tmp_path):
    pool_of(tmp_path / "pool")
    samples = pq.read_table(tmp_path / "pool" / "samples.parquet").to_pylist()
    assert len(samples) == 24 * 5
    final = {row["problem_id"]: row for row in samples if row["sample_index"] == 4}
    for kept in load_pool(tmp_path / "pool").rehearsal:
        row = final[kept.problem_id]
        assert row["outcome"] == "CORRECT"
        assert tuple(row["token_ids"]) == kept.completion_ids


def test_as_many_correct_answers_are_kept_as_the_rule_says(
    make_model, make_draw, make_source, make_reference, rule, problems, tmp_path
):
    model = make_model()

    def made(name, keep):
        return presample(
            problems,
            tmp_path / name,
            draw=make_draw(model),
            reference=make_reference(model),
            source=make_source(model),
            grading=GRADING,
            rule=rule.model_copy(update={"keep": keep}),
        )

    one, three = made("one", 1), made("three", 3)
    samples = pq.read_table(tmp_path / "three" / "samples.parquet").to_pylist()
    final = load_pool(tmp_path / "one").rehearsal
    kept = load_pool(tmp_path / "three").rehearsal
    correct = [row for row in samples if row["outcome"] == "CORRECT"]
    expected = [
        (sample.problem_id, index)
        for sample in final
        for index in sorted(
            (r["sample_index"] for r in correct if r["problem_id"] == sample.problem_id),
            key=lambda index: (index != 4, index),
        )[:3]
    ]
    assert [(s.problem_id, s.sample_index) for s in final] == [(s.problem_id, 4) for s in final]
    assert [(s.problem_id, s.sample_index) for s in kept] == expected
    assert len(kept) > len(final) == one.counts.rehearsal
    assert three.counts.rehearsal == len(kept)
    scores = score_completions(
        model,
        [s.prompt_ids for s in kept],
        [s.completion_ids for s in kept],
        temperature=1.0,
        pad_id=0,
        token_budget=10**6,
        dtype="float32",
    )
    for sample, row in zip(kept, scores, strict=True):
        assert sample.ref_logprobs == pytest.approx(row, abs=1e-5)


def test_the_samples_file_never_holds_more_than_a_chunk_in_one_list(pool_of, tmp_path):
    pool_of(tmp_path / "pool")
    groups = pq.ParquetFile(tmp_path / "pool" / "samples.parquet").metadata
    rows = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
    assert rows == [25, 25, 25, 25, 20]  # chunks of 5 problems, 4 + 1 samples each


@pytest.mark.parametrize("finished", [0, 2, 4])
def test_an_interrupted_run_ends_with_the_identical_pool(
    pool_of, tmp_path, make_model, make_draw, finished
):
    pool_of(tmp_path / "whole" / "pool")

    calls = iter(range(100))
    inner = make_draw(make_model())

    class Killed(BaseException):
        pass

    class Dying:
        encode, parameters = inner.encode, inner.parameters

        def __call__(self, *args, **kwargs):
            if next(calls) == finished:
                raise Killed
            return inner(*args, **kwargs)

    with pytest.raises(Killed):
        pool_of(tmp_path / "killed" / "pool", draw=Dying())
    assert not (tmp_path / "killed" / "pool").exists()
    seen = []
    pool_of(tmp_path / "killed" / "pool", on_progress=seen.append)
    assert sum(seen) == 24 * 5
    assert files_of(tmp_path / "killed" / "pool") == files_of(tmp_path / "whole" / "pool")
    assert [p.name for p in (tmp_path / "killed").iterdir()] == ["pool"]


def test_parts_of_another_job_are_not_used(pool_of, tmp_path):
    partial = tmp_path / "pool.partial"
    partial.mkdir()
    (partial / "job.json").write_text(json.dumps({"digest": "another"}))
    (partial / "000000.parquet").write_text("not a table")
    pool_of(tmp_path / "pool")
    assert load_pool(tmp_path / "pool").manifest.counts.prompts == 24


@pytest.mark.parametrize("name", ["exploration.parquet", "rehearsal.parquet", "samples.parquet"])
def test_a_changed_or_missing_file_is_refused_by_name(pool_of, tmp_path, name):
    pool_of(tmp_path / "pool")
    file = tmp_path / "pool" / name
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(PoolError, match=f"{name} is not the file that was written"):
        load_pool(tmp_path / "pool")
    file.unlink()
    with pytest.raises(PoolError, match=f"{name} is missing"):
        load_pool(tmp_path / "pool")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a pool"),
        ("{}", "pool format None is unknown"),
        ('{"format": 4}', "pool format 4 is unknown, this version reads 3"),
        ('{"format": 2}', "pool format 2 is unknown, this version reads 3"),
        ('{"format": 3}', "is damaged: kind"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path, content, message):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(PoolError, match=message):
        load_pool(tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_fingerprint": "x"}, "model fingerprint was"),
        ({"tokenizer_fingerprint": "x"}, "tokenizer fingerprint was"),
        ({"prompts_fingerprint": "x"}, "prompts fingerprint was"),
        ({"temperature": 0.7}, r"temperature was 1.0, this run has 0.7"),
    ],
)
def test_a_pool_of_something_else_is_refused(
    pool_of, tmp_path, make_model, make_source, rule, change, named
):
    manifest = pool_of(tmp_path / "pool")
    with pytest.raises(PoolError, match=named):
        require_fit(tmp_path / "pool", manifest, make_source(make_model(), **change), GRADING, rule)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"graded_by": "x"}, "verifier was 'letter', this run has 'x'"),
        ({"graded_version": "2"}, "verifier version was '1', this run has '2'"),
        ({"graded_settings": {"timeout": 2.0}}, "verifier timeout was None, this run has 2.0"),
    ],
)
def test_a_pool_that_was_graded_in_another_way_is_refused(
    pool_of, tmp_path, make_model, make_source, rule, change, named
):
    manifest, other = pool_of(tmp_path / "pool"), GRADING.model_copy(update=change)
    with pytest.raises(PoolError, match=named):
        require_fit(tmp_path / "pool", manifest, make_source(make_model()), other, rule)


def test_a_moved_model_directory_still_fits(pool_of, tmp_path, make_model, make_source, rule):
    manifest = pool_of(tmp_path / "pool")
    moved = make_source(make_model(), path="elsewhere")
    require_fit(tmp_path / "pool", manifest, moved, GRADING, rule)


def test_a_wrong_final_sample_is_discarded_or_explored():
    correct, final = {"a": 8, "b": 8, "c": 0}, {"a": True, "b": False, "c": False}
    split = partition(correct, final, threshold=7, wrong_final="discard")
    assert (split.rehearsal, split.discarded, split.exploration) == (("a",), ("b",), ("c",))
    split = partition(correct, final, threshold=7, wrong_final="explore")
    assert (split.rehearsal, split.discarded, split.exploration) == (("a",), (), ("b", "c"))


def test_the_threshold_itself_is_near_perfect():
    split = partition({"a": 7, "b": 6}, {"a": True, "b": True}, threshold=7, wrong_final="discard")
    assert (split.rehearsal, split.exploration) == (("a",), ("b",))


def test_histogram_counts_every_problem_once():
    assert histogram([0, 3, 3, 1], samples=3) == (1, 1, 0, 2)


def test_nothing_appears_before_the_first_piece_is_finished(
    pool_of, tmp_path, make_model, make_draw
):
    inner = make_draw(make_model())

    class Broken:
        encode, parameters = inner.encode, inner.parameters

        def __call__(self, *_args, **_kwargs):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pool_of(tmp_path / "pool", draw=Broken())
    assert list(tmp_path.iterdir()) == []


def test_a_pool_is_not_written_over_anything_else(pool_of, tmp_path):
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "thesis.tex").write_text("years of work")
    with pytest.raises(PoolError, match="holds files but no pool"):
        pool_of(tmp_path / "pool")
    assert (tmp_path / "pool" / "thesis.tex").read_text() == "years of work"


def test_problems_that_could_not_be_graded_are_told(
    pool_of, tmp_path, make_model, make_draw, caplog
):
    inner = make_draw(make_model())

    class Ungradable:
        name, version = "letter", "1"

        def grade(self, problems, responses):
            verdicts = inner.verifier.grade(problems, responses)
            bad = Verdict(outcome=Outcome.BAD_GOLD, reward=0.0, reason="no such table")
            return [
                bad if problem.problem_id == "3" else verdict
                for problem, verdict in zip(problems, verdicts, strict=True)
            ]

    pool_of(tmp_path / "pool", draw=replace(inner, verifier=Ungradable()))
    assert caplog.messages == [
        "1 problem(s) left out: the gold answer cannot be graded, for example '3': no such table"
    ]


def test_the_path_of_a_pool_may_be_a_text(pool_of, tmp_path):
    pool_of(tmp_path / "pool")
    assert load_pool(str(tmp_path / "pool")) == load_pool(tmp_path / "pool")


def test_a_damaged_piece_is_made_again(pool_of, tmp_path, caplog):
    pool_of(tmp_path / "whole" / "pool")
    parts = TableParts(tmp_path / "pool.partial", digest="d")
    parts.write(0, pq.read_table(tmp_path / "whole" / "pool" / "samples.parquet"))
    (tmp_path / "pool.partial" / "000000.parquet").write_text("cut")
    assert parts.read(0) is None
    assert "is damaged: it will be made again" in caplog.text
