import json
import logging

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.records import Outcome, Problem
from dph.runs.evaluate.samples_file import samples_table
from dph.runs.train.kept_samples import COLUMNS, LONGEST, KeptSamples, graded_table, stored_table
from loop_parts import graded, group_of

PROBLEMS = [Problem(problem_id=f"q{i}", prompt=f"ask {i}", answer={"answer": i}) for i in range(6)]


def answers_to(problem, *, labelled=True):
    name = problem.problem_id
    answers = [
        graded(
            ids=(1, 2),
            reward=0.25,
            reason="no",
            style="plain" if index else None,
            problem=name,
            index=index,
            logprobs=(-0.5, -1.0),
            finished=index > 0,
            text=f"{name} {index}",
        )
        for index in range(3)
    ]
    return group_of(*answers, prompt=(1,), labelled=labelled)


GROUPS = [answers_to(problem) for problem in PROBLEMS]


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


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
    make_kept("all").write([GROUPS[0], answers_to(PROBLEMS[0], labelled=False)], 7)
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
    names = names_in(tmp_path / "training_samples")
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
    names = names_in(tmp_path / "training_samples")
    assert names == ["step_000005.parquet", "step_000006.parquet"]
    assert [record.message.split(" are removed")[0] for record in caplog.records] == [
        "answers of step 1 and later ones"
    ]


SUMS = [Problem(problem_id=f"p{i}", prompt=f"{i} + 1 =") for i in range(10)]


def answer(problem, index, text="2", style=None):
    outcome, reason = (Outcome.CORRECT, "") if text == "2" else (Outcome.WRONG, "it is 2")
    of_answer = {"problem": problem.problem_id, "index": index, "text": text, "logprobs": (0.0,)}
    return graded(outcome, reason=reason, style=style, **of_answer)


def table_of(most, *, step=3, samples=4, seed=0, text="2"):
    sampled = [[answer(p, i, text, "plain") for i in range(samples)] for p in SUMS]
    greedy = [[answer(p, 0, "3")] for p in SUMS]
    return graded_table(SUMS, sampled, greedy, name="dev", step=step, most=most, seed=seed)


def column(table, name):
    return [row[COLUMNS.index(name)] for row in table.rows]


def test_a_row_has_the_problem_the_answer_its_outcome_and_style():
    table = table_of(10)
    assert table.name == "samples/dev"
    first, second = (dict(zip(COLUMNS, row, strict=True)) for row in table.rows[:2])
    number = first["problem"].removeprefix("p")
    assert first == {
        "step": 3,
        "problem": f"p{number}",
        "prompt": f"{number} + 1 =",
        "sample": "greedy",
        "answer": "3",
        "outcome": "WRONG",
        "reward": 0.0,
        "style": "",
        "reason": "it is 2",
    }
    assert (second["sample"], second["outcome"], second["style"]) == ("0", "CORRECT", "plain")


@pytest.mark.parametrize(("most", "problems"), [(1, 1), (5, 1), (6, 2), (12, 3), (50, 10)])
def test_whole_problems_are_shown_up_to_a_number_of_answers_and_the_last_line_tells_it(
    most, problems
):
    table = table_of(most)
    assert len(table.rows) == most
    assert len(set(column(table, "problem"))) == problems
    assert table.answers == 50
    if most == 50:
        assert len(table.lines) == 50
    else:
        said = dict(zip(COLUMNS, table.lines[-1], strict=True))
        assert said["problem"] == f"{most} of 50 answers are in this table"
        kinds = [[type(cell) for cell in line] for line in table.lines]
        assert kinds[-1] == kinds[0]  # a column of a tracker has one type


def test_steps_show_the_same_problems_and_seeds_others():
    shown = column(table_of(15), "problem")
    assert column(table_of(15, step=9, text="1"), "problem") == shown
    assert column(table_of(15, seed=1), "problem") != shown


def test_stored_samples_give_the_table_of_the_graded_ones():
    sampled = [[answer(p, i, style="plain") for i in range(4)] for p in SUMS]
    greedy = [[answer(p, 0, "3")] for p in SUMS]
    parts = [samples_table("other", sampled), samples_table("dev", greedy, greedy=True)]
    stored = pa.concat_tables([*parts, samples_table("dev", sampled)])
    found = stored_table(stored, SUMS, name="dev", step=3, most=12, seed=0)
    assert found == table_of(12)


def test_a_long_text_is_cut_and_says_so():
    table = table_of(2, text="7" * (LONGEST + 1))
    text = column(table, "answer")[1]
    assert text.startswith("7" * LONGEST)
    assert text.endswith("(10,000 of 10,001 characters)")
