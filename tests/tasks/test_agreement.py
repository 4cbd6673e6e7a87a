import sqlite3
from itertools import permutations

import pytest

from dph.errors import DataError, SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.tasks import agreement as module
from dph.tasks.agreement import (
    KeyComparer,
    VerifierComparer,
    compares,
    contradictions,
    largest_class,
    plain_key,
    warn_of_contradictions,
)
from dph.tasks.verifiers import make_verifier

PROBLEM = Problem(problem_id="p", prompt="?")
SQL = Problem(problem_id="q", prompt="?", answer={"database": "pets.sqlite"})


@pytest.fixture
def database(tmp_path):
    with sqlite3.connect(tmp_path / "pets.sqlite") as connection:
        connection.execute("CREATE TABLE pet (name TEXT, age INT)")
        connection.executemany("INSERT INTO pet VALUES (?, ?)", [("ada", 3), ("bo", 5)])
    connection.close()
    return tmp_path


@pytest.fixture
def sql(database):
    with make_verifier("sql", databases=database, timeout=2.0) as verifier:
        yield VerifierComparer(verifier)


def test_statements_agree_when_they_return_the_same_rows(sql):
    answers = [
        "SELECT name FROM pet WHERE age > 4",
        "SELECT name FROM pet ORDER BY age DESC LIMIT 1",
        "SELECT name FROM pet WHERE age < 4",
        "SELECT 'bo'",
    ]
    assert sql.classes([SQL], [answers]) == [(0, 0, 1, 0)]
    answers = [
        "SELECT nothing FROM nowhere",
        "I do not know.",
        "SELECT name FROM pet WHERE age > 9",
        "SELECT max(age) FROM pet WHERE age > 9",
        "DROP TABLE pet",
        None,
        "SELECT 0",
        "SELECT 0",
    ]
    assert sql.classes([SQL], [answers]) == [(None,) * 6 + (0, 0)]
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
    assert sql.classes([SQL], [["SELECT 1", endless, "SELECT 1"]]) == [(0, None, 0)]
    one, two = ["SELECT 1", "SELECT 2", "SELECT 1"], ["SELECT 2", "SELECT 2"]
    alone = [sql.classes([SQL], [group])[0] for group in (one, two)]
    assert sql.classes([SQL, SQL], [one, two]) == alone == [(0, 1, 0), (0, 0)]


@pytest.mark.parametrize(
    ("name", "answers", "classes"),
    [
        ("exact", ["a", " a ", "b", "", "a"], (0, 0, 1, None, 0)),
        ("number", ["so 0.5", "it is 1/2", "x", "3", "1/0", "-3"], (0, 0, None, 1, None, 2)),
        (
            "math",
            [r"\boxed{\frac12}", "The answer is 0.5.", r"\boxed{2}", "no idea", r"\boxed{}"],
            (0, 0, 1, None, None),
        ),
        ("math_qwen", [r"\boxed{1,200}", "so 1200", "A: 7", "none"], (0, 0, 1, None)),
    ],
)
def test_every_verifier_compares_answers_as_it_grades_them(name, answers, classes):
    with make_verifier(name) as verifier:
        assert VerifierComparer(verifier).classes([PROBLEM], [answers]) == [classes]


class NearVerifier:
    """Right within 1 of the gold: not transitive, so the order has to decide."""

    name, version = "number", "1"

    def __init__(self):
        self.graded = 0

    def gold_of(self, response):
        return {"answer": response}

    def grade(self, problems, responses):
        self.graded += len(problems)
        return [
            Verdict(outcome=Outcome.CORRECT if right else Outcome.WRONG, reward=float(right))
            for p, r in zip(problems, responses, strict=True)
            for right in [abs(int(r) - int(p.answer["answer"])) <= 1]
        ]


def test_an_answer_is_of_the_class_of_the_first_that_it_equals():
    near = NearVerifier()
    for answers in permutations(["1", "2", "3", "9"]):
        found = VerifierComparer(near).classes([PROBLEM], [answers])[0]
        representatives = []  # in the order of the answers, each that equals none before it
        for answer in answers:
            if not any(abs(int(answer) - int(r)) <= 1 for r in representatives):
                representatives.append(answer)
        for answer, number in zip(answers, found, strict=True):
            assert abs(int(answer) - int(representatives[number])) <= 1


def test_equal_answers_are_graded_once_and_the_largest_class_is_the_first_of_equals():
    near = NearVerifier()
    VerifierComparer(near).classes([PROBLEM], [["1", "1", "5", "1", "5"]])
    assert near.graded == 3  # 1 and 5 against 1, then 5 against itself
    assert largest_class((2, 0, 0, 1, 1, None)) == 0
    assert largest_class((None, None)) is None


def test_a_verifier_without_golds_and_a_missing_database_are_refused_by_name(sql):
    class Own:
        name, version = "mine:grade", "1"

    assert not compares(Own())
    with pytest.raises(SettingsError, match="'mine:grade' cannot compare two answers"):
        VerifierComparer(Own())
    lost = Problem(problem_id="lost", prompt="?", answer={"database": "lost.sqlite"})
    with pytest.raises(DataError, match=r"answers to 'lost' cannot be compared: .*no database"):
        sql.classes([lost], [["SELECT 1"]])


def test_programs_agree_when_they_print_or_return_the_same_for_the_same_inputs():
    unlabelled = {"inputs": [[1, 2], [2, 2], [0, 5]], "entry_point": "f"}
    functions = Problem(problem_id="f", prompt="?", answer=unlabelled)
    scripts = Problem(problem_id="s", prompt="?", answer={"inputs": ["1", "2"]})
    returning = [
        "def f(a, b): return a + b",
        "```python\nf = lambda a, b: sum((b, a))\n```",
        "def f(a, b): return a * b",
        "def f(a, b): return a / b - a / b if b < 5 else 1 // 0",
        "I do not know.",
        None,
    ]
    printing = ["print(int(input()) + 1)", "print(float(input()) + 1.0)", "print(input())", "1 / 0"]
    with make_verifier("code", timeout=20.0) as verifier:
        found = VerifierComparer(verifier).classes([functions, scripts], [returning, printing])
    assert found == [(0, 0, 1, None, None, None), (0, 0, 1, None)]


def test_answers_with_equal_keys_agree_and_keys_are_texts_numbers_and_lists_of_them():
    with KeyComparer("own_agreement:first_letter") as comparer:
        answers = [["apple", "bear", "ant", "", None], ["b"]]
        assert comparer.classes([PROBLEM, PROBLEM], answers) == [(0, 1, 0, None, None), (0,)]
        assert comparer.identity["name"] == "own_agreement:first_letter"
        assert len(comparer.identity["version"]) == 12
    with pytest.raises(SettingsError, match="cannot be used"):
        KeyComparer("own_agreement:missing")
    assert plain_key(("a", 1, [0.5, True])) == ["a", 1, [0.5, True]]
    for wrong in (object(), float("nan"), {"a": 1}, [None]):
        with pytest.raises(TypeError):
            plain_key(wrong)


@pytest.mark.parametrize(
    ("function", "message"),
    [("broken", "failed on 2 of 2 answers"), ("no_key", "a key is text, a finite number")],
)
def test_a_function_that_cannot_do_it_is_an_error(function, message):
    with (
        KeyComparer(f"own_agreement:{function}") as comparer,
        pytest.raises(VerifierError, match=message),
    ):
        comparer.classes([PROBLEM], [["a", "b"]])


RIGHT, WRONG, LATE = Outcome.CORRECT, Outcome.WRONG, Outcome.TIMED_OUT


@pytest.mark.parametrize(
    ("graded", "said"),
    [
        ([], ""),
        ([("p", "4", RIGHT), ("p", "4", RIGHT), ("p", "5", WRONG)], ""),
        ([("p", "4", RIGHT), ("q", "4", WRONG)], ""),  # another problem
        ([("p", "4", RIGHT), ("p", "4", LATE)], ""),  # a busy machine
        ([("p", "4", RIGHT), ("p", "4", WRONG), ("q", "5", WRONG), ("q", "5", WRONG)], "2 of 4"),
    ],
)
def test_only_the_same_answer_to_the_same_problem_counts(graded, said):
    assert contradictions(graded).startswith(said)
    assert bool(contradictions(graded)) is bool(said)


def test_it_is_told_once_for_each_verifier(caplog, monkeypatch):
    monkeypatch.setattr(module, "_TOLD", set())
    for name in ("mine:grade", "mine:grade", "other:grade"):
        warn_of_contradictions(name, [("p", "4", RIGHT), ("p", "4", WRONG)])
    assert [record.args[0] for record in caplog.records] == ["mine:grade", "other:grade"]
