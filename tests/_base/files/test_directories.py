import subprocess
import sys

import pytest

from dph._base.files import make_directory, only_writer
from dph.errors import DataError


def names(directory):
    return sorted(path.name for path in directory.iterdir())


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
        "import sys, pathlib; from dph._base.files import only_writer\n"
        "with only_writer(pathlib.Path(sys.argv[1])): pass"
    )
    second = [sys.executable, "-c", code, str(tmp_path / "run")]
    with only_writer(tmp_path / "run"):
        refused = subprocess.run(second, capture_output=True, text=True, check=False)
        assert "another dph process is writing into" in refused.stderr
    assert subprocess.run(second, check=False).returncode == 0
