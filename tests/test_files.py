import hashlib
import subprocess
import sys

import pytest

from dph.errors import DataError
from dph.files import (
    atomic_path,
    make_directory,
    only_writer,
    read_json,
    sha256,
    write_json,
    write_text,
)


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_written_file_is_there_and_nothing_else(tmp_path):
    write_text(tmp_path / "a.txt", "grüße")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "grüße"
    assert names(tmp_path) == ["a.txt"]


def fail_half_way(path):
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        raise RuntimeError("half way")


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="half"):
        fail_half_way(path)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_directory_replaces_a_directory_as_a_whole(tmp_path):
    path = tmp_path / "d"
    for content in ("old", "new"):
        with atomic_path(path) as temporary:
            (temporary / "sub").mkdir(parents=True)
            write_text(temporary / "sub" / content, content)
    assert names(path / "sub") == ["new"]
    assert names(tmp_path) == ["d"]


def test_what_a_killed_process_left_is_overwritten(tmp_path):
    (tmp_path / ".a.txt.tmp").mkdir()
    (tmp_path / ".a.txt.tmp" / "rest").write_text("half")
    write_text(tmp_path / "a.txt", "whole")
    assert names(tmp_path) == ["a.txt"]


def test_json_survives_and_nan_is_refused(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"é": [1, None, 0.1]})
    assert read_json(path) == {"é": [1, None, 0.1]}
    with pytest.raises(ValueError, match="Out of range"):
        write_json(path, float("nan"))
    assert read_json(path) == {"é": [1, None, 0.1]}


def test_json_that_is_missing_or_broken_is_a_data_error(tmp_path):
    with pytest.raises(DataError, match=r"cannot read .*a\.json"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match=r"a\.json is not valid JSON"):
        read_json(tmp_path / "a.json")


def test_the_hash_is_sha256_of_the_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()


def test_a_directory_is_made_with_its_parents_and_left_empty(tmp_path):
    path = make_directory(tmp_path / "a" / "b")
    assert path.is_dir()
    assert names(path) == []


def test_a_directory_under_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write into the directory"):
        make_directory(tmp_path / "file" / "run")


def test_only_one_process_writes_into_a_directory(tmp_path):
    code = (
        "import sys, pathlib; from dph.files import only_writer\n"
        "with only_writer(pathlib.Path(sys.argv[1])): pass"
    )
    second = [sys.executable, "-c", code, str(tmp_path / "run")]
    with only_writer(tmp_path / "run"):
        refused = subprocess.run(second, capture_output=True, text=True, check=False)
        assert "another dph process is writing into" in refused.stderr
    assert subprocess.run(second, check=False).returncode == 0
