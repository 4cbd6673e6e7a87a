"""How long the stages of something took, kept in a file beside it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dph._base.files import held, read_json, write_json

TOTAL = "total"


class StageClock:
    """Seconds a stage took, added up over the times that it was started.

    Several processes may add to one file. The stage ``total`` is the time that passed, whatever
    ran side by side in it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def seconds(self) -> dict[str, float]:
        """Seconds by stage, and ``total`` as the last: its own, or else their sum."""
        spent = self._spent()
        total = spent.pop(TOTAL, None)
        return {**spent, TOTAL: round(sum(spent.values()), 2) if total is None else total}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to the stage ``name``."""
        started = time.perf_counter()
        earlier = self.seconds()[TOTAL] if name == TOTAL else 0.0  # of files without a total
        try:
            yield
        finally:
            passed = time.perf_counter() - started
            with held(self._path.with_name(f".{self._path.name}.lock")):
                spent = self._spent()
                seconds = round(spent.get(name, earlier) + passed, 2)
                write_json(self._path, {**spent, name: seconds})

    def _spent(self) -> dict[str, float]:
        return dict(read_json(self._path)) if self._path.exists() else {}
