import sqlite3

import pytest

from corpus.tests.synth.answers import ANSWERS, BY_LENGTH, HONEST, HOSTILE, with_program
from dph.tasks.verifiers.code.verifier import CodeVerifier
from dph.tasks.verifiers.sql.verifier import SQLVerifier
from dph_corpus.synth.draft import read_draft
from dph_corpus.synth.drafts import FunctionJudge, QueryJudge, query_mutants
from dph_corpus.synth.writing import disagreements, second_prompt


@pytest.fixture(scope="module")
def judge():
    with CodeVerifier(workers=2, timeout=1.0) as verifier:
        yield FunctionJudge(verifier)


def test_an_honest_answer_is_kept_and_most_of_its_mutants_die(judge):
    (judged,) = judge([HONEST], [""])
    assert (judged.reason, judged.note) == ("", "")
    assert judged.mutants >= 5
    assert judged.killed * 2 >= judged.mutants


@pytest.mark.parametrize("name", HOSTILE)
def test_no_other_answer_is_kept(judge, name):
    answer, reason = HOSTILE[name]
    (judged,) = judge([answer], [""])
    assert judged.reason == reason, judged


def test_answers_are_judged_alike_alone_and_together(judge):
    answers = [HONEST, *(answer for answer, _ in HOSTILE.values() if "while" not in answer)]
    together = judge(answers, [""] * len(answers))
    assert [one.reason for one in together] == [
        judge([answer], [""])[0].reason for answer in answers
    ]


def test_a_program_must_call_what_it_is_about(judge):
    (judged,) = judge([HONEST], ["math.gcd"])
    assert (judged.reason, judged.note) == ("unused", "does not call math.gcd")


@pytest.fixture(scope="module")
def verifier():
    with CodeVerifier(workers=2, timeout=1.0) as verifier:
        yield verifier


def test_the_second_author_sees_neither_program_nor_tests():
    prompt = second_prompt(read_draft(HONEST))
    assert "sum of the squares of the even numbers" in prompt
    assert "def sum_even_squares(numbers):" in prompt
    assert "total" not in prompt
    assert "assert" not in prompt


def test_two_right_programs_agree(verifier):
    assert disagreements(verifier, [read_draft(HONEST)], [ANSWERS["second"]]) == [""]


def test_a_program_that_knows_its_tests_by_their_lengths_is_found_out(verifier):
    (found,) = disagreements(verifier, [read_draft(BY_LENGTH)], [ANSWERS["second"]])
    assert found.startswith("the second program differs on other inputs")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("I do not know.", "the second answer has no program"),
        ("```python\nimport os\ndef sum_even_squares(n):\n    return 0\n```", "imports os"),
        ("```python\ndef sum_even_squares(n):\n    return 0\n```", "fails the tests"),
    ],
)
def test_a_second_answer_that_is_none_or_wrong_speaks_against_the_first(verifier, answer, found):
    assert found in disagreements(verifier, [read_draft(HONEST)], [answer])[0]


def test_wrong_tests_with_a_program_that_fits_them_are_found_out(verifier):
    tests = "\n".join(
        [
            "```python",
            *(f"assert sum_even_squares([{n}, {n + 1}]) == {2 * n + 1}" for n in (1, 2, 5)),
            "```",
        ]
    )
    wrong = with_program("def sum_even_squares(numbers):\n    return sum(numbers)", tests)
    (found,) = disagreements(verifier, [read_draft(wrong)], [ANSWERS["second"]])
    assert found.startswith("the second program fails the tests")


ROWS = "('Rex', 3, 'dog'), ('Tom', 5, 'cat'), ('Ann', 4, 'cat'), ('Bo', 9, 'dog'), ('Cy', 1, 'cat')"


@pytest.fixture(scope="module")
def query_judge(tmp_path_factory):
    directory = tmp_path_factory.mktemp("databases")
    with sqlite3.connect(directory / "pets.sqlite") as connection:
        connection.executescript(
            f"CREATE TABLE pet (name TEXT, age INT, kind TEXT); INSERT INTO pet VALUES {ROWS};"
        )
    connection.close()
    with SQLVerifier(databases=directory, rule="strict", timeout=2.0) as verifier:
        yield QueryJudge(verifier)


def answer(query, question="Which cats are older than three?"):
    return f"Question: {question}\n\n```sql\n{query}\n```\n"


GOOD = "SELECT name FROM pet WHERE kind = 'cat' AND age > 3"


def test_a_query_that_its_mutants_do_not_equal_is_kept(query_judge):
    (judged,) = query_judge([answer(GOOD)], ["pets.sqlite"])
    assert judged.reason == ""
    assert judged.draft.question == "Which cats are older than three?"
    assert judged.draft.query == GOOD
    assert 2 * judged.killed >= judged.mutants >= 4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (answer("SELECT nme FROM pet"), "fails"),
        (answer("DROP TABLE pet"), "fails"),
        (answer("SELECT name FROM pet WHERE age > 99"), "empty"),
        (answer("SELECT name FROM pet"), "weak"),
        (answer("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT max(i) FROM n"),
         "fails"),
        ("SELECT 1", "query"),
        (answer(GOOD, ""), "question"),
    ],
)  # fmt: skip
def test_what_does_not_run_or_does_not_tell_is_dropped(query_judge, text, reason):
    (judged,) = query_judge([text], ["pets.sqlite"])
    assert judged.reason == reason, judged


@pytest.mark.parametrize(
    "query",
    [
        GOOD,
        "SELECT kind, COUNT(*) FROM pet GROUP BY 1 HAVING COUNT(*) > 1 ORDER BY 1 DESC LIMIT 3",
        "SELECT MAX(age) FROM pet INTERSECT SELECT age FROM pet WHERE name LIKE 'B%'",
        "SELECT DISTINCT kind FROM pet WHERE age BETWEEN 1.5 AND 4 OR NOT name = 'x'",
    ],
)
def test_mutants_differ_in_text_and_are_never_the_query(query):
    found = query_mutants(query, most=99)
    assert len(found) >= 4
    assert len(set(found)) == len(found)
    assert query not in found


def test_what_does_not_parse_has_no_mutants():
    assert query_mutants("SELECT FROM WHERE (") == []


def test_a_query_too_deep_to_change_has_no_mutants():
    assert query_mutants("SELECT " + "(" * 5000 + "1" + ")" * 5000) == []
