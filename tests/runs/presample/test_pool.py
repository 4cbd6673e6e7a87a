import fcntl

import pyarrow.parquet as pq
import pytest

from dph.errors import DataError, PoolError
from dph.runs.presample.pool import load_pool, only_maker, write_problems


def test_a_held_pool_is_refused_and_its_neighbour_is_not(tmp_path):
    held, free = tmp_path / "pools" / "a", tmp_path / "pools" / "b"
    with only_maker(held), only_maker(free):
        for _ in range(2):  # whoever is refused leaves the holder's lock alone
            with (
                pytest.raises(DataError, match="another dph process is making the pool"),
                only_maker(held),
            ):
                pass
    with only_maker(held):
        assert held.with_name(".a.lock").exists()


def test_no_file_is_left_whatever_happens(tmp_path):
    with pytest.raises(ZeroDivisionError), only_maker(tmp_path / "a"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_a_killed_process_left_is_in_nobodys_way(tmp_path):
    (tmp_path / ".a.lock").touch()
    with only_maker(tmp_path / "a"):
        assert (tmp_path / ".a.lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_removed_while_it_is_taken_is_taken_anew(tmp_path, monkeypatch):
    flock, calls = fcntl.flock, []

    def removed_before(file, how):
        if not calls:
            (tmp_path / ".a.lock").unlink()
        calls.append(how)
        return flock(file, how)

    monkeypatch.setattr("fcntl.flock", removed_before)
    with only_maker(tmp_path / "a"):
        assert len(calls) == 2
        assert (tmp_path / ".a.lock").exists()


def test_a_changed_or_missing_file_is_refused_by_name(pool_of, tmp_path):
    pool_of(tmp_path / "pool")
    for name in ("exploration.parquet", "rehearsal.parquet", "samples.parquet"):
        file = tmp_path / "pool" / name
        intact = file.read_bytes()
        file.write_bytes(intact + b"x")
        with pytest.raises(PoolError, match=f"{name} is not the file that was written"):
            load_pool(tmp_path / "pool")
        file.unlink()
        with pytest.raises(PoolError, match=f"{name} is missing"):
            load_pool(tmp_path / "pool")
        file.write_bytes(intact)


def test_a_pool_is_not_written_over_anything_else(pool_of, tmp_path):
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "thesis.tex").write_text("years of work")
    with pytest.raises(PoolError, match="holds files but no pool"):
        pool_of(tmp_path / "pool")
    assert (tmp_path / "pool" / "thesis.tex").read_text() == "years of work"


def test_problems_with_different_fields_are_a_table_with_all_of_them(tmp_path):
    rows = [{"problem_id": "a"}, {"problem_id": "b", "level": 2}]
    write_problems(rows, path := tmp_path / "x.parquet")
    assert pq.read_table(path).to_pylist() == [{"problem_id": "a", "level": None}, rows[1]]
    for wrong in ([{"level": "hard"}, {"level": 2}], [{"level": {}}], [{"level": "\ud800"}]):
        with pytest.raises(DataError, match="the problems are not a table"):
            write_problems(wrong, tmp_path / "y.parquet")
