import pyarrow as pa
import pytest

from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict
from dph.runs.evaluate.samples_file import samples_table
from dph.runs.train.kept_samples import COLUMNS, LONGEST, graded_table, stored_table

PROBLEMS = [Problem(problem_id=f"p{i}", prompt=f"{i} + 1 =") for i in range(10)]


def answer(problem, index, text="2", style=None):
    right = text == "2"
    return GradedCompletion(
        completion=Completion(
            problem_id=problem.problem_id,
            sample_index=index,
            token_ids=(1,),
            logprobs=(0.0,),
            finished=True,
            text=text,
        ),
        verdict=Verdict(
            outcome=Outcome.CORRECT if right else Outcome.WRONG,
            reward=float(right),
            reason="" if right else "it is 2",
        ),
        style=style,
    )


def table_of(most, *, step=3, samples=4, seed=0, text="2"):
    sampled = [[answer(p, i, text, "plain") for i in range(samples)] for p in PROBLEMS]
    greedy = [[answer(p, 0, "3")] for p in PROBLEMS]
    return graded_table(PROBLEMS, sampled, greedy, name="dev", step=step, most=most, seed=seed)


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
    sampled = [[answer(p, i, style="plain") for i in range(4)] for p in PROBLEMS]
    greedy = [[answer(p, 0, "3")] for p in PROBLEMS]
    parts = [samples_table("other", sampled), samples_table("dev", greedy, greedy=True)]
    stored = pa.concat_tables([*parts, samples_table("dev", sampled)])
    found = stored_table(stored, PROBLEMS, name="dev", step=3, most=12, seed=0)
    assert found == table_of(12)


def test_a_long_text_is_cut_and_says_so():
    table = table_of(2, text="7" * (LONGEST + 1))
    text = column(table, "answer")[1]
    assert text.startswith("7" * LONGEST)
    assert text.endswith("(10,000 of 10,001 characters)")
