"""What the files of runs are like now: another name as soon as one of them changed."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from dph.runs.evaluate.document import PROBLEMS_FILE
from dph.runs.evaluate.progress_file import PROGRESS_FILE
from dph.runs.evaluate.samples_file import TOKENS_FILE
from dph.runs.layout import CONSOLIDATION, EVALUATION, METRICS, RECIPE, SAMPLES

LOGS = (METRICS, PROGRESS_FILE, f"{CONSOLIDATION}/{METRICS}")
"""What grows while a run trains."""
ANSWERS = (SAMPLES, EVALUATION, PROBLEMS_FILE, TOKENS_FILE, RECIPE)
"""What an evaluation leaves, whole."""


def state_of(directories: Iterable[Path], names: Iterable[str]) -> str:
    """A name for the files of these names in the directories, by their sizes and times."""
    looked = hashlib.sha256()
    names = tuple(names)
    for directory in directories:
        for name in names:
            looked.update(f"{directory}\0{name}\0{_stamp(directory / name)}\0".encode())
    return looked.hexdigest()[:16]


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except FileNotFoundError:
        return "-"
    return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"
