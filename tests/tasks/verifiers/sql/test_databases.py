import os
import sqlite3
from contextlib import closing

import pytest

from dph.tasks.verifiers.sql import verifier as databases
from dph.tasks.verifiers.sql.verifier import databases_fingerprint


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


def test_other_files_and_times_and_loops_of_links_do_not_count(root):
    before = databases_fingerprint(root)
    (root / "a/description.csv").write_text("x")
    (root / "a/up").symlink_to(root)
    (root / "a/a.sqlite").touch()
    assert databases_fingerprint(root) == before


def test_a_linked_directory_counts_like_one_that_is_there(root, tmp_path):
    (tmp_path / "links").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "links" / name).symlink_to(root / name)
    assert databases_fingerprint(tmp_path / "links") == databases_fingerprint(root)


def test_a_file_that_has_not_changed_is_read_once(root):
    databases_fingerprint(root)
    read = databases._read.cache_info().misses
    databases_fingerprint(root)
    assert databases._read.cache_info().misses == read
    os.utime(root / "c", (1, 1))
    databases_fingerprint(root)
    assert databases._read.cache_info().misses == read + 1


def test_a_directory_that_is_not_there_holds_nothing(tmp_path):
    assert databases_fingerprint(tmp_path / "none") == databases_fingerprint(tmp_path)
