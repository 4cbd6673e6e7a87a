import os
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem
from dph.tasks.verifiers.sql import verifier as databases
from dph.tasks.verifiers.sql.executor import SQLLimits
from dph.tasks.verifiers.sql.extraction import SQLSource
from dph.tasks.verifiers.sql.verifier import SQLVerifier, databases_fingerprint
from tasks.test_styles import QUICKSTART

GOOD = [f"{style}: {sql}" for style, sql in QUICKSTART.items()]


@pytest.fixture(scope="module")
def one_worker():
    """For the whole file, so that what a test leaves behind would reach the next."""
    with SQLVerifier(timeout=1.0) as made:
        yield made


@pytest.fixture
def verifier(singers, one_worker):
    one_worker._databases = singers.parent
    return one_worker


def outcomes(verdicts):
    return [verdict.outcome for verdict in verdicts]


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


def test_absolute_paths_and_sources_that_are_asked_for_are_used(singers, singer_problem, tmp_path):
    answer = {**singer_problem.answer, "database": str(singers)}
    with SQLVerifier(databases=tmp_path / "elsewhere") as verifier:
        verdicts = verifier.grade([replace(singer_problem, answer=answer)], GOOD[:1])
    assert outcomes(verdicts) == [Outcome.CORRECT]
    with SQLVerifier(databases=singers.parent, sources=[SQLSource.FENCED]) as verifier:
        verdicts = verifier.grade([singer_problem] * 2, [GOOD[0], f"```sql\n{GOOD[0][7:]}\n```"])
    assert outcomes(verdicts) == [Outcome.NO_ANSWER, Outcome.CORRECT]


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf")])
def test_a_time_limit_is_a_positive_number(timeout):
    with pytest.raises(SettingsError, match="timeout must be a positive number"):
        SQLVerifier(timeout=timeout)


def test_a_partial_reward_is_wrong(singers, singer_problem):
    with SQLVerifier(databases=singers.parent, rule="bird_soft_f1") as verifier:
        (verdict,) = verifier.grade([singer_problem], ["SELECT name, 1 FROM singer WHERE age > 20"])
    assert verdict.outcome is Outcome.WRONG
    assert verdict.reward == pytest.approx(2 / 3)
    assert verdict.reason == (
        "soft F1 0.6667: 2 columns, the gold has 1: row 1: got ('singer 3', 1), "
        "expected ('singer 3')"
    )


def write(path, value, table="t"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {table} (x)")
        connection.execute(f"INSERT INTO {table} VALUES (?)", (value,))
        connection.commit()


@pytest.fixture
def root(tmp_path):
    for name in ("a/a.sqlite", "b/b.db", "c"):
        write(tmp_path / "root" / name, 1)
    return tmp_path / "root"


def test_a_database_made_anew_with_the_same_size_and_count_of_changes_is_told(root):
    before, size = databases_fingerprint(root), (root / "a/a.sqlite").stat().st_size
    write(root / "a/a.sqlite", 2)
    assert (root / "a/a.sqlite").stat().st_size == size
    assert databases_fingerprint(root) != before
    write(root / "a/a.sqlite", 1)
    assert databases_fingerprint(root) == before


@pytest.mark.parametrize("change", ["rename", "remove", "log"])
def test_what_is_there_and_under_which_name_counts(root, change):
    before = databases_fingerprint(root)
    if change == "rename":
        (root / "c").rename(root / "d")
    elif change == "remove":
        (root / "c").unlink()
    else:
        (root / "c-wal").write_bytes(b"a log")
    assert databases_fingerprint(root) != before


def test_other_files_and_times_and_loops_of_links_do_not_count_nor_links_to_a_directory(
    root, tmp_path
):
    before = databases_fingerprint(root)
    (root / "a/description.csv").write_text("x")
    (root / "a/up").symlink_to(root)
    (root / "a/a.sqlite").touch()
    assert databases_fingerprint(root) == before
    (root / "a/up").unlink()
    (tmp_path / "links").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "links" / name).symlink_to(root / name)
    assert databases_fingerprint(tmp_path / "links") == databases_fingerprint(root)
    (tmp_path / "empty").mkdir()
    assert databases_fingerprint(tmp_path / "none") == databases_fingerprint(tmp_path / "empty")


def test_a_file_that_has_not_changed_is_read_once(root):
    databases_fingerprint(root)
    read = databases._read.cache_info().misses
    databases_fingerprint(root)
    assert databases._read.cache_info().misses == read
    os.utime(root / "c", (1, 1))
    databases_fingerprint(root)
    assert databases._read.cache_info().misses == read + 1
