import json
import logging

import pyarrow.parquet as pq
import pytest

from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.runs.train.collect import Group
from dph.runs.train.kept_samples import KeptSamples

PROBLEMS = [Problem(problem_id=f"q{i}", prompt=f"ask {i}", answer={"answer": i}) for i in range(6)]


def group_of(problem, *, labelled=True, samples=3):
    return Group(
        prompt_ids=(1,),
        labelled=labelled,
        completions=tuple(
            GradedCompletion(
                completion=Completion(
                    problem_id=problem.problem_id,
                    sample_index=index,
                    token_ids=(1, 2),
                    logprobs=(-0.5, -1.0),
                    finished=index > 0,
                    text=f"{problem.problem_id} {index}",
                ),
                verdict=Verdict(outcome=Outcome.WRONG, reward=0.25, reason="no"),
                style="plain" if index else None,
            )
            for index in range(samples)
        ),
    )


GROUPS = [group_of(problem) for problem in PROBLEMS]


@pytest.fixture
def make_kept(tmp_path):
    def make(keep, *, megabytes=1, seed=0, step=0):
        kept = KeptSamples(
            tmp_path,
            keep=keep,
            megabytes=megabytes,
            seed=seed,
            labelled=PROBLEMS,
            unlabelled=[Problem(problem_id="q0", prompt="without a label")],
        )
        kept.go_on(step)
        return kept

    return make


def rows_of(tmp_path, step):
    return pq.read_table(tmp_path / "training_samples" / f"step_{step:06d}.parquet").to_pylist()


def test_a_row_holds_the_problem_the_answer_and_its_verdict(make_kept, tmp_path):
    make_kept("all").write([GROUPS[0], group_of(PROBLEMS[0], labelled=False)], 7)
    rows = rows_of(tmp_path, 7)
    assert len(rows) == 6
    first, unlabelled = rows[0], rows[3]
    assert first == {
        "step": 7,
        "problem_id": "q0",
        "prompt": '"ask 0"',
        "answer": '{"answer": 0}',
        "labelled": True,
        "sample_index": 0,
        "text": "q0 0",
        "tokens": 2,
        "logprob": -1.5,
        "finished": False,
        "outcome": "WRONG",
        "reward": 0.25,
        "reason": "no",
        "style": None,
    }
    assert json.loads(unlabelled["prompt"]) == "without a label"


def test_some_are_whole_groups_chosen_by_seed_and_step_alone(make_kept, tmp_path):
    def chosen(step, seed=0):
        make_kept(2, seed=seed).write(GROUPS, step)
        rows = rows_of(tmp_path, step)
        assert len(rows) == 6
        return tuple(dict.fromkeys(row["problem_id"] for row in rows))

    first = [chosen(step) for step in range(1, 9)]
    assert [chosen(step) for step in range(1, 9)] == first
    assert len(set(first)) > 2
    assert [chosen(step, seed=1) for step in range(1, 9)] != first
    assert all(list(ids) == sorted(ids) for ids in first)


def test_none_leaves_no_directory_and_so_does_a_step_that_draws_nothing(make_kept, tmp_path):
    make_kept("none").write(GROUPS, 1)
    make_kept("all").write([], 1)
    assert list(tmp_path.iterdir()) == []


def test_going_on_removes_the_steps_of_a_run_that_was_killed(make_kept, tmp_path):
    kept = make_kept("all")
    for step in (1, 2, 3):
        kept.write(GROUPS, step)
    (tmp_path / "training_samples" / "mine.parquet").write_bytes(b"x")
    again = make_kept("all", step=2)
    names = sorted(path.name for path in (tmp_path / "training_samples").iterdir())
    assert names == ["mine.parquet", "step_000001.parquet", "step_000002.parquet"]
    before = (tmp_path / "training_samples" / "step_000002.parquet").read_bytes()
    again.write(GROUPS, 2)
    assert (tmp_path / "training_samples" / "step_000002.parquet").read_bytes() == before


def test_the_oldest_steps_go_when_the_room_is_used_up_and_it_is_said_once(
    make_kept, tmp_path, caplog
):
    kept = make_kept("all")
    kept.write(GROUPS, 1)
    size = (tmp_path / "training_samples" / "step_000001.parquet").stat().st_size
    kept._limit = int(2.5 * size)
    with caplog.at_level(logging.WARNING):
        for step in range(2, 7):
            kept.write(GROUPS, step)
    names = sorted(path.name for path in (tmp_path / "training_samples").iterdir())
    assert names == ["step_000005.parquet", "step_000006.parquet"]
    assert [record.message.split(" are removed")[0] for record in caplog.records] == [
        "answers of step 1 and later ones"
    ]
