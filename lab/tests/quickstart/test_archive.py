import json
import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest

from dph.quickstart.archive import DIGEST, TASKS, task_files
from lab.quickstart.archive import SQLITE, archive_bytes, shipped_model

ROOT = Path(__file__).parents[3]
ROWS = ROOT / "lab" / "studies" / "quickstart" / "rows.jsonl"


@pytest.mark.slow
def test_the_builder_writes_the_shipped_bytes_given_the_weights():
    if sqlite3.sqlite_version != SQLITE:
        pytest.skip(f"databases were written by SQLite {SQLITE}, this is {sqlite3.sqlite_version}")
    content = archive_bytes({task: shipped_model(task) for task in TASKS})
    assert sha256(content).hexdigest() == DIGEST


def test_the_studys_last_rows_are_of_the_shipped_task():
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    digest = sha256()
    for name, content in sorted(task_files("countdown").items()):
        digest.update(f"{name} {sha256(content).hexdigest()}\n".encode())
    assert rows[-1]["data"] == digest.hexdigest()
    assert {row["problems"] for row in rows} == {500}


def test_the_shipped_verifier_is_the_laboratorys():
    shipped = task_files("countdown")["verifier.py"]
    path = ROOT / "lab" / "worlds" / "countdown" / "verifier.py"
    assert shipped == path.read_bytes()
