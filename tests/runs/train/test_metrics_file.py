import subprocess
import sys

import pytest

from dph.errors import DataError
from dph.runs.directory import read_metrics


def test_lines_are_read_back_and_one_that_a_kill_cut_off_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "rew')
    assert read_metrics(path) == [{"step": 1, "reward": 0.5}]
    assert read_metrics(tmp_path / "none.jsonl") == []


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\nnonsense\n{"step": 3}\n')
    with pytest.raises(DataError, match="line 2 is damaged: 'nonsense'"):
        read_metrics(path)


def test_reading_a_log_loads_no_torch():
    code = "import sys, dph.runs.directory; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
