import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.runs.evaluate.answers.read import answer_files, by_sets, read_answers
from dph.runs.evaluate.answers.tools import columns_named
from dph.runs.evaluate.samples_file import comparable_scores, read_samples

ROWS = [
    {"problem_id": "q2", "response": "vier", "correct": True},
    {"problem_id": "q10", "response": "drei", "correct": False},
    {"problem_id": "q2", "response": "fünf", "correct": False},
    {"problem_id": "q10", "response": "🙂", "correct": True},
]


@pytest.fixture
def write(tmp_path):
    def to_file(*rows, name="a.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return to_file


def by_problem(path, value):
    answers = read_answers(path).by_problem
    return {problem: [value(one) for one in of] for (_, problem), of in answers.items()}


def outcomes(path):
    return by_problem(path, lambda answer: answer.outcome is Outcome.CORRECT)


def texts(path):
    return by_problem(path, lambda answer: answer.text)


def write_rows(path):
    lines = "\n\n".join(map(json.dumps, ROWS))
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif path.suffix == ".csv":
        cells = [",".join(map(str, row.values())) for row in ROWS]
        path.write_text("\n".join([",".join(ROWS[0]), *cells]))
    else:
        path.write_text(json.dumps(ROWS) if path.name == "a.json" else lines)


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.jsonl.gz", "a.parquet", "a.csv", "a.json", "lines.json"]
)
def test_every_kind_of_file_reads_the_same(tmp_path, name):
    write_rows(tmp_path / name)
    assert outcomes(tmp_path / name) == {"q2": [True, False], "q10": [False, True]}
    assert texts(tmp_path / name)["q10"] == ["drei", "🙂"]
    table = read_samples(tmp_path / name)
    assert table["problem_id"].to_pylist() == ["q2", "q2", "q10", "q10"]  # numbers by value
    assert table["sample_index"].to_pylist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("verdict", "right"),
    [
        *(({"correct": right}, True) for right in (True, "true", "1")),
        *(({"correct": wrong}, False) for wrong in (0, "False", 0.5, "0.5")),
        *(({"score": " 1e0"}, True), ({"is_correct": 1.0}, True), ({"passed": False}, False)),
        *(({"reward": 1}, True), ({"score": 1}, True), ({"outcome": "CORRECT"}, True)),
        ({"outcome": "TIMED_OUT", "reward": 0, "correct": True}, False),
        ({"outcome": None, "reward": 1}, True),
    ],
)
def test_verdicts_in_many_spellings(write, verdict, right):
    assert outcomes(write({"id": 7, "completion": "x", **verdict})) == {"7": [right]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"correct": "maybe"}, "correct must be true, false or a number in .0, 1., got 'maybe'"),
        ({"correct": float("nan")}, "got nan"),
        ({"correct": None}, "got None"),
        ({"score": -1.0}, r"score must be .* got -1.0; --column correct=NAME names another"),
        ({"outcome": "passed"}, "outcome must be one of CORRECT"),
        (
            {"correct": True, "response": True},
            "an answer is a text or a list of messages, got True",
        ),
        ({"response": ["a", "b"], "correct": [True]}, "a list of another length"),
        ({"problem_id": None, "correct": True}, "problem_id must be text or a whole number"),
    ],
)
def test_what_is_no_verdict_is_refused_with_its_place(write, row, message):
    path = write({"problem_id": "a", "response": "x", **row})
    with pytest.raises(DataError, match=f"line 1: .*{message}"):
        read_answers(path)


def test_a_missing_response_is_an_empty_answer_and_a_row_may_hold_all_answers(write):
    path = write(
        {"problem_id": "a", "response": None, "correct": False}, {"problem_id": "a", "correct": 1}
    )
    assert (texts(path), outcomes(path)) == ({"a": ["", ""]}, {"a": [False, True]})
    path = write({"id": 1, "output": ["a", "b", "c"], "score": [True, False, 1]})
    assert (texts(path), outcomes(path)) == ({"1": ["a", "b", "c"]}, {"1": [True, False, True]})


def test_problems_without_an_id_go_by_their_text_and_an_id_has_one_prompt(write):
    chat = [{"role": "user", "content": "2+2?"}]
    path = write({"prompt": "1+1?", "response": "2", "correct": 1}, {"prompt": chat, "correct": 0})
    other = write({"prompt": chat, "correct": 1}, {"prompt": "1+1?", "correct": 0}, name="b.jsonl")
    assert set(outcomes(path)) == set(outcomes(other))
    prompts = [problem.prompt for problem in read_answers(other).problems.values()]
    assert prompts == [tuple(chat), "1+1?"]
    rows = [{"problem_id": 1, "prompt": prompt, "correct": 1} for prompt in ("a", "b")]
    with pytest.raises(DataError, match=r"line 2: problem '1' has another prompt than at .*line 1"):
        read_answers(write(*rows))


def test_a_style_may_be_a_number_and_what_pandas_has_for_nothing_is_none(tmp_path):
    styles = pa.array([3.0, float("nan"), None])
    rows = pa.table({"problem_id": list("abc"), "correct": [1, 1, 1], "style": styles})
    pq.write_table(rows, tmp_path / "a.parquet")
    found = by_problem(tmp_path / "a.parquet", lambda answer: answer.style)
    assert found == {"a": ["3.0"], "b": [None], "c": [None]}


def test_half_a_surrogate_pair_is_written_as_its_code(write):
    path = write({"problem_id": "a", "response": "\ud83d!", "correct": True})
    assert read_samples(path)["text"].to_pylist() == ["\\ud83d!"]


def test_columns_are_named_by_the_user(write):
    path = write({"qid": "a", "answer": "4", "ok": "true", "truth": "4"})
    with pytest.raises(DataError, match="no 'problem_id' and no 'reward', only qid, answer, ok"):
        read_answers(path)
    named = {"problem_id": "qid", "response": "answer", "correct": "ok", "gold": "truth"}
    with columns_named(named):
        assert texts(path) == {"a": ["4"]}
        assert read_answers(path).problems["answers", "a"].answer == {"answer": "4"}
    with columns_named({"response": "x"}), pytest.raises(DataError, match="there is no column 'x'"):
        read_answers(write({"problem_id": "a", "correct": 1}, name="b.jsonl"))
    with pytest.raises(SettingsError, match="no column 'x' to name"), columns_named({"x": "y"}):
        pass


def test_the_number_of_answers_is_the_one_that_keeps_most(write, caplog):
    rows = [{"problem_id": p, "correct": 1} for p in "aaaabbbbbc"]
    sets = by_sets(read_answers(write(*rows)))
    assert {problem: len(of) for problem, of in sets["answers"].items()} == {"a": 4, "b": 4}
    assert "the first 4 answers of each problem count; 1 of 3 problems have fewer" in caplog.text
    rows = [{"problem_id": p, "correct": 1} for p in "a" * 64 + "bcde" * 10]
    sets = by_sets(read_answers(write(*rows)))  # most for at least half of the problems
    assert [len(of) for of in sets["answers"].values()] == [10] * 5


def test_greedy_answers_stay_where_every_problem_has_one(write):
    rows = [
        {"problem_id": p, "sample_index": i, "outcome": "CORRECT", "reward": 1}
        for p, indices in (("a", (0, -1)), ("b", (-1, 0)))
        for i in indices
    ]
    assert read_samples(write(*rows))["sample_index"].to_pylist() == [-1, 0, -1, 0]
    assert read_samples(write(*rows[:3], {**rows[3], "problem_id": "c"}))[
        "sample_index"
    ].to_pylist() == [0, 0]


def test_only_problems_of_all_files_are_compared(write, caplog):
    one = write(*({"problem_id": p, "correct": 1} for p in "abc"))
    other = write(*({"problem_id": p, "correct": 1} for p in "cbd"), name="b.jsonl")
    scores = comparable_scores({"one": read_samples(one), "other": read_samples(other)})
    assert [of["answers"].problem_ids for of in scores.values()] == [("b", "c"), ("b", "c")]
    assert (
        "2 of 4 problems are left out, since not all files have them, for example 'a'"
        in caplog.text
    )
    run = read_samples(one).take([1, 0, 2]).replace_schema_metadata(None)  # in its file's order
    scores = comparable_scores({"run": run, "other": read_samples(other)})
    assert [of["answers"].problem_ids for of in scores.values()] == [("b", "c"), ("b", "c")]
    scores = comparable_scores({"run": run, "one": read_samples(one)})
    assert [of["answers"].problem_ids for of in scores.values()] == [tuple("bac")] * 2
    third = write({"problem_id": "x", "correct": 1}, name="c.jsonl")
    with pytest.raises(DataError, match="no problem is in all files: one has 'a', third has 'x'"):
        comparable_scores({"one": read_samples(one), "third": read_samples(third)})


def test_a_directory_is_its_files_unless_runs_lie_there(tmp_path, write, caplog):
    write({"problem_id": "a", "correct": 1}, name="part-0.jsonl")
    write({"problem_id": "a", "correct": 0}, name="part-1.jsonl")
    assert outcomes(tmp_path) == {"a": [True, False]}
    assert "2 answers each, added up over 2 files, right by correct, without texts" in caplog.text
    write({"problem_id": "a", "correct": 1}, name="trained.jsonl")
    with pytest.raises(DataError, match=r"part-0.jsonl and part-1.jsonl: name the file of one mod"):
        read_answers(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/metrics.jsonl").write_text("")
    assert answer_files(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "", "no graded samples: it is empty"),
        ("a.json", "{}", "neither a log of Inspect nor evalplus's results; it has nothing in it"),
        ("a.json", '{"results": {}, "n": 1}', "it has results, n"),
        ("a.json", "[1", "line 1: not valid JSON"),
        ("a.json", "[3]", "item 1: there is no 'problem_id'"),
        ("a.eval", "no zip", "as a log of Inspect"),
        ("a.txt", "", r"must end in one of .parquet, .*\.eval"),
        ("a.parquet", "no", "not a parquet file"),
        ("a.jsonl", "{", "line 1: not valid JSON"),
        ("a.csv", "problem_id,reward,sample_index\na,much,0\n", "line 2: reward must be a number"),
        ("a.csv", "problem_id,reward,sample_index\na,1,x\n", "sample_index must be"),
    ],
)
def test_a_wrong_file_is_told_what_was_expected(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        read_answers(tmp_path / name)


def graded(problem_id="a", reward=1.0, **more):
    return {"problem_id": problem_id, "reward": reward, **more}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"reward": 1}], r"line 1: there is no 'problem_id', only reward"),
        ([{"x": 1}], "no 'problem_id' and no 'reward', only x"),
        ([graded(), graded(reward=None)], r"line 2: reward must be a number in \[0, 1\], got None"),
        ([graded(reward=1.5)], "got 1.5"),
        ([graded(reward="1")], "got '1'"),
        ([graded(True)], "got True"),
        ([graded(style=["x"])], r"style must be text, a number or nothing, got \['x'\]"),
        ([graded(sample_index="0")], "sample_index must be a whole number, got '0'"),
        ([graded(sample_index=0.5)], "got 0.5"),
        (
            [graded(sample_index=0), graded()],
            "line 2: some rows have a sample_index and some have none",
        ),
        ([graded(sample_index=2), graded(sample_index=2)], "sample 2 of problem 'a' occurs twice"),
    ],
)
def test_rows_that_cannot_be_read_are_named(write, rows, message):
    with pytest.raises(DataError, match=message):
        read_answers(write(*rows))


def test_numbers_of_a_csv_file_are_read_and_empty_cells_are_none(tmp_path):
    lines = ["problem_id,reward,outcome,sample_index", "a,0.5,WRONG,1", "a,1,CORRECT,0", "b,0,,0"]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    path = tmp_path / "x.csv"
    assert by_problem(path, lambda answer: answer.reward) == {"a": [1.0, 0.5], "b": [0.0]}
    assert outcomes(path)["a"] == [True, False]
