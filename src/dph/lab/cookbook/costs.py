"""What the stages cost: seconds that passed, and seconds of processor time of all processes."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dph._base.files import read_json, write_json


class Costs:
    """Costs by stage in ``path``, added up over the times that a stage was run.

    What a process spent that was killed is not known and not counted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, dict[str, float]]:
        """``{stage: {"seconds", "cpu_seconds"}}``."""
        return dict(read_json(self._path)) if self._path.is_file() else {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add what the block costs to ``name``."""
        wall, cpu = time.perf_counter(), _processor_time()
        try:
            yield
        finally:
            spent: dict[str, Any] = self.read()
            before = spent.get(name, {"seconds": 0.0, "cpu_seconds": 0.0})
            spent[name] = {
                "seconds": round(before["seconds"] + time.perf_counter() - wall, 2),
                "cpu_seconds": round(before["cpu_seconds"] + _processor_time() - cpu, 2),
            }
            write_json(self._path, spent)


def _processor_time() -> float:
    """Seconds of this process and of its children that have ended, and theirs."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
