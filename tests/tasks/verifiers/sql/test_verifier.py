import hashlib
import os
import threading
from dataclasses import replace

import pytest

from dph.errors import DataError, SettingsError, VerifierError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.verifiers import SQLVerifier, Verifier
from dph.tasks.verifiers.sql.executor import SQLLimits
from dph.tasks.verifiers.sql.extraction import SQLSource
from hanging_sql import HANG
from worker_fixtures import children_of

GOOD = [
    "plain: SELECT name FROM singer WHERE age > 20",
    "steps: keep age > 20 ; SELECT name FROM singer WHERE age > 20",
    "cte: WITH c AS ( SELECT * FROM singer WHERE age > 20 ) SELECT name FROM c",
    "nested: SELECT name FROM ( SELECT * FROM singer WHERE age > 20 )",
    "alias: SELECT p . name FROM singer AS p WHERE p . age > 20",
]

ATTACKS = [
    ("DROP TABLE singer; SELECT name FROM singer WHERE age > 200", Outcome.WRONG),
    ("```sql\nDELETE FROM singer\n```", Outcome.INVALID),
    ("```sql\nCREATE TEMP TABLE singer AS SELECT 1 AS name, 99 AS age\n```", Outcome.INVALID),
    ("```sql\nATTACH ':memory:' AS main2\n```", Outcome.INVALID),
    ("```sql\nPRAGMA case_sensitive_like=ON\n```", Outcome.INVALID),
    ("SELECT load_extension('/tmp/x.so')", Outcome.INVALID),
    ("SELECT zeroblob(2000000000)", Outcome.OVER_LIMIT),
    ("SELECT randomblob(999999) FROM singer a, singer b, singer c, singer d", Outcome.OVER_LIMIT),
    (
        "WITH RECURSIVE r(x) AS (SELECT zeroblob(900000) UNION ALL SELECT x FROM r) "
        "SELECT x FROM r ORDER BY x",
        Outcome.OVER_LIMIT,
    ),
    (
        "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT max(x) FROM r",
        Outcome.TIMED_OUT,
    ),
    ("SELECT count(*) FROM " + ",".join(f"singer s{i}" for i in range(30)), Outcome.TIMED_OUT),
    (HANG, Outcome.TIMED_OUT),
    ("SELECT " + "(" * 90_000 + "1" + ")" * 90_000, Outcome.INVALID),
    ("SELECT '\x00'", Outcome.INVALID),
    ("SELECT '\ud800'", Outcome.INVALID),
    ("no sql at all", Outcome.NO_ANSWER),
    ("", Outcome.NO_ANSWER),
]


@pytest.fixture(scope="module")
def _shared():
    verifiers = {}
    yield verifiers
    for verifier in verifiers.values():
        verifier.close()


@pytest.fixture
def verifier(singers, _shared):
    """One worker for the whole file, so that what a test leaves behind would reach the next."""
    if not _shared:
        _shared["sql"] = SQLVerifier(timeout=1.0)
    _shared["sql"]._databases = singers.parent
    return _shared["sql"]


def outcomes(verdicts):
    return [verdict.outcome for verdict in verdicts]


def test_it_is_a_verifier_with_a_name_and_a_version(verifier):
    assert isinstance(verifier, Verifier)
    assert (verifier.name, verifier.version) == ("sql", "3 (bird)")


def test_the_five_styles_of_the_right_answer_are_correct(verifier, singer_problem):
    verdicts = verifier.grade([singer_problem] * 5, GOOD)
    assert verdicts == [Verdict(outcome=Outcome.CORRECT, reward=1.0)] * 5


def test_only_a_correct_answer_has_a_reward_and_every_other_a_reason(verifier, singer_problem):
    responses = ["SELECT name FROM singer", "SELECT nope FROM singer", "hm", "SELECT zeroblob(1e9)"]
    verdicts = verifier.grade([singer_problem] * 4, responses)
    assert outcomes(verdicts) == [
        Outcome.WRONG,
        Outcome.INVALID,
        Outcome.NO_ANSWER,
        Outcome.OVER_LIMIT,
    ]
    assert all(verdict.reward == 0.0 and verdict.reason for verdict in verdicts)
    assert verdicts[0].reason == "6 distinct rows, the gold has 4: ('singer 1') is too much"
    assert verdicts[1].reason == "no such column: nope"


def test_nothing_to_grade_gives_nothing(verifier):
    assert verifier.grade([], []) == []


def test_no_attack_changes_a_file_or_another_verdict(verifier, singer_problem, singers):
    digest = hashlib.sha256(singers.read_bytes()).hexdigest()
    listing = sorted(singers.parent.iterdir())
    responses, allowed = [], []
    for index, (attack, outcome) in enumerate(ATTACKS):
        responses += [attack, GOOD[index % 5]]
        late = {Outcome.TIMED_OUT} if outcome is Outcome.OVER_LIMIT else set()  # a busy machine
        allowed += [{outcome} | late, {Outcome.CORRECT}]
    found = outcomes(verifier.grade([singer_problem] * len(responses), responses))
    assert [one for one, may_be in zip(found, allowed, strict=True) if one not in may_be] == []
    assert hashlib.sha256(singers.read_bytes()).hexdigest() == digest
    assert sorted(singers.parent.iterdir()) == listing


def test_a_function_that_ignores_the_clock_costs_only_its_own_answer(verifier, singer_problem):
    verdicts = verifier.grade([singer_problem] * 3, [GOOD[0], HANG, GOOD[1]])
    assert outcomes(verdicts) == [Outcome.CORRECT, Outcome.TIMED_OUT, Outcome.CORRECT]


def test_a_gold_that_hangs_is_a_bad_gold(verifier, singer_problem):
    hanging = replace(singer_problem, answer={**singer_problem.answer, "gold_sql": HANG})
    verdicts = verifier.grade([hanging, singer_problem], [GOOD[0], GOOD[0]])
    assert outcomes(verdicts) == [Outcome.BAD_GOLD, Outcome.CORRECT]
    assert "gold" in verdicts[0].reason


def test_a_missing_database_and_a_broken_gold_are_bad_golds(verifier, singer_problem):
    none = replace(singer_problem, answer={**singer_problem.answer, "database": "none.sqlite"})
    broken = replace(singer_problem, answer={**singer_problem.answer, "gold_sql": "SELECT x"})
    verdicts = verifier.grade([none, broken], GOOD[:2])
    assert outcomes(verdicts) == [Outcome.BAD_GOLD] * 2
    assert "none.sqlite" in verdicts[0].reason
    assert "no such column: x" in verdicts[1].reason


def test_memory_that_a_statement_asks_for_is_limited(singers, singer_problem):
    bomb = (
        "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x + 1 FROM r) SELECT count(*) FROM "
        "(SELECT x, hex(zeroblob(4000)) || x AS y FROM r ORDER BY y)"
    )
    limits = SQLLimits(memory_bytes=300_000_000)
    with SQLVerifier(databases=singers.parent, timeout=30.0, limits=limits) as verifier:
        verdicts = verifier.grade([singer_problem] * 2, [bomb, GOOD[0]])
    assert outcomes(verdicts) == [Outcome.OVER_LIMIT, Outcome.CORRECT]


@pytest.mark.parametrize("answer", [{}, {"gold_sql": "SELECT 1"}, {"gold_sql": 3, "database": "x"}])
def test_a_problem_without_its_fields_is_an_error_that_names_them(verifier, answer):
    problem = Problem(problem_id="p 7", prompt="?", answer=answer)
    with pytest.raises(DataError, match=r"'(gold_sql|database)' in problem 'p 7'"):
        verifier.grade([problem], ["SELECT 1"])


def test_as_many_problems_as_responses_are_wanted(verifier, singer_problem):
    with pytest.raises(ValueError, match="zip"):
        verifier.grade([singer_problem], [])


def test_absolute_paths_are_used_as_they_are(singers, singer_problem, tmp_path):
    answer = {**singer_problem.answer, "database": str(singers)}
    with SQLVerifier(databases=tmp_path / "elsewhere") as verifier:
        verdicts = verifier.grade([replace(singer_problem, answer=answer)], GOOD[:1])
    assert outcomes(verdicts) == [Outcome.CORRECT]


def test_threads_get_their_own_verdicts(verifier, singer_problem):
    seen = {}
    responses = {0: GOOD[0], 1: "SELECT name FROM singer", 2: "SELECT nope", 3: "hm"}

    def work(number):
        verdicts = verifier.grade([singer_problem] * 20, [responses[number]] * 20)
        seen[number] = set(outcomes(verdicts))

    threads = [threading.Thread(target=work, args=(number,)) for number in responses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {
        0: {Outcome.CORRECT},
        1: {Outcome.WRONG},
        2: {Outcome.INVALID},
        3: {Outcome.NO_ANSWER},
    }


def test_after_closing_no_process_is_left_and_grading_is_an_error(singers, singer_problem):
    before = children_of(os.getpid())
    verifier = SQLVerifier(databases=singers.parent, workers=2)
    verifier.grade([singer_problem] * 50, [GOOD[0]] * 50)
    assert children_of(os.getpid()) - before
    verifier.close()
    verifier.close()
    assert children_of(os.getpid()) == before
    with pytest.raises(VerifierError, match="closed"):
        verifier.grade([singer_problem], GOOD[:1])


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf")])
def test_a_time_limit_is_a_positive_number(timeout):
    with pytest.raises(SettingsError, match="timeout must be a positive number"):
        SQLVerifier(timeout=timeout)


def test_the_rule_is_a_setting_and_part_of_the_version(singers, singer_problem):
    response = (
        "SELECT name FROM singer WHERE age > 20 UNION ALL SELECT name FROM singer WHERE age > 20"
    )
    for rule, outcome in [("bird", Outcome.CORRECT), ("strict", Outcome.WRONG)]:
        with SQLVerifier(databases=singers.parent, rule=rule) as verifier:
            assert verifier.version == f"3 ({rule})"
            assert outcomes(verifier.grade([singer_problem], [response])) == [outcome]
    with pytest.raises(SettingsError, match="no SQL rule 'none'"):
        SQLVerifier(rule="none")


def test_a_partial_reward_is_wrong(singers, singer_problem):
    with SQLVerifier(databases=singers.parent, rule="bird_soft_f1") as verifier:
        (verdict,) = verifier.grade([singer_problem], ["SELECT name, 1 FROM singer WHERE age > 20"])
    assert verdict.outcome is Outcome.WRONG
    assert verdict.reward == pytest.approx(2 / 3)
    assert verdict.reason == (
        "soft F1 0.6667: 2 columns, the gold has 1: row 1: got ('singer 3', 1), "
        "expected ('singer 3')"
    )


def test_only_the_sources_that_are_asked_for_are_read(singers, singer_problem):
    with SQLVerifier(databases=singers.parent, sources=[SQLSource.FENCED]) as verifier:
        verdicts = verifier.grade([singer_problem] * 2, [GOOD[0], f"```sql\n{GOOD[0][7:]}\n```"])
    assert outcomes(verdicts) == [Outcome.NO_ANSWER, Outcome.CORRECT]
