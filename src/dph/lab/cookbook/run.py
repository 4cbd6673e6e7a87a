"""Running a cookbook: every stage in order, what it made, and the report."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from dph._base.files import read_json, write_json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from dph._base.files import make_directory, only_writer, write_json
from dph.corpus.tasks import Workers
from dph.lab.cookbook.stages import Digests, Kitchen
from dph.lab.cookbook.report import write_report
from dph.lab.cookbook.settings import Cookbook
from dph.lab.cookbook.stages import STAGES
from dph.runs.progress import ProgressDisplay


# What the stages cost: seconds that passed, and seconds of processor time of all processes.

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


DIGESTS, COSTS = "digests.json", "costs.json"


def run_cookbook(
    cookbook: Cookbook,
    directory: Path,
    progress: ProgressDisplay,
    *,
    workers: int,
    shards_by: Workers | None = None,
) -> Mapping[str, Digests]:
    """Run everything that is not done yet in ``directory`` and return the digests by stage.

    Leaves a directory for each stage, ``digests.json`` (what each stage made: the same for the same
    inputs and settings), ``scores.json`` (what was measured), ``costs.json`` and ``report.md``.
    Killed at any moment and started again it goes on; with other settings, the stages that they
    touch and those after them are done again.

    Args:
        cookbook: what is run.
        directory: where everything is written.
        progress: told of every stage.
        workers: processes; they decide nothing but time.
        shards_by: who does the shards of corpora, such as a cluster [default: those processes].

    Raises:
        DphError: a stage failed.
    """
    kitchen = Kitchen(
        cookbook=cookbook,
        directory=directory.resolve(),
        progress=progress,
        workers=workers,
        shards_by=shards_by or workers,
    )
    if cookbook.rl is not None:
        from dph.lab.cookbook.model_stages import check_methods  # noqa: PLC0415  # loads torch

        check_methods(cookbook.rl)
    made: dict[str, Any] = {}
    with only_writer(make_directory(directory)):
        costs = Costs(directory / COSTS)
        for stage in STAGES:
            with costs.stage(stage.name):
                if digests := dict(stage.run(kitchen)):
                    made[stage.name] = digests
        write_json(directory / DIGESTS, made)
        if cookbook.rl is not None:
            from dph.lab.cookbook.report import write_scores  # noqa: PLC0415  # loads torch

            write_scores(kitchen)
        write_report(kitchen, made, costs.read())
    return made
