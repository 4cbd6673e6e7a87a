"""Faults that people reported in other projects: a snippet reads ``input`` and leaves ``got``.

``-k math-full-width`` runs one class of them.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared_data import SHARED

FOLDER = SHARED / "public_faults"
CASES = [
    json.loads(line)
    for path in sorted(FOLDER.glob("*.jsonl"))
    for line in path.read_text(encoding="utf-8").splitlines()
]
RUN = """
import json, sys
case = json.load(sys.stdin)
namespace = {"input": case["input"]}
exec(case["snippet"], namespace)
print("\\n" + json.dumps(namespace["got"]))
"""
_FORMS = "2026-11-27-code-tests-subclass-and-mock"
REFUSED_BY_NAME: dict[str, str] = dict.fromkeys(
    # Tests that one process can run and two cannot: refused by the form's name, never WRONG, for
    # right programs and for wrong ones (g02).
    [f"{_FORMS}-{number}" for number in ("01", "03", "05", "07", "09", "11", "g02")],
    "BAD_GOLD",
)
"""Cases that end otherwise than the file says, and how; the reason stands with each."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CASES, reason="needs the shared data")]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_a_public_fault_has_the_right_value(case: dict[str, Any], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(case),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout.splitlines()[-1])
    assert got == REFUSED_BY_NAME.get(case["id"], case["expected"]), case["why"]
