"""The files whose verdicts by the released filter are known: ``make corpus-data`` obtains them."""

import json
import os
from pathlib import Path

import pytest


def opencoder_files():
    """The records (id, text, path, bytes, lang, ...); the test is skipped where they are not."""
    home = os.environ.get("DPH_CORPUS_DATA")
    path = Path(home or Path(__file__).parents[2] / ".corpus-data") / "files.jsonl"
    if not path.exists():
        pytest.skip("needs make corpus-data")
    with path.open(encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]
