import fcntl
import subprocess
import sys

import pytest

from dph.runs.presample.making import only_maker

TRY = """
import sys
from pathlib import Path
from dph.runs.presample.making import only_maker
with only_maker(Path(sys.argv[1])):
    pass
"""


def tried_elsewhere(path):
    """Exit code and messages of another process that wants the pool."""
    done = subprocess.run(
        [sys.executable, "-c", TRY, path], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


def test_a_held_pool_is_refused_and_its_neighbour_is_not(tmp_path):
    with only_maker(tmp_path / "pools" / "a"):
        code, said = tried_elsewhere(tmp_path / "pools" / "a")
        assert code == 1
        assert "another dph process is making the pool" in said
        assert tried_elsewhere(tmp_path / "pools" / "b") == (0, "")


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
