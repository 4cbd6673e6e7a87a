"""Do one side's work in this process and print its peak memory as JSON.

python -m lab.benchmarks.speed.peak SIDE CASE RUN
"""

import importlib
import json
import sys
from dataclasses import asdict

from lab.benchmarks.speed.memory import Peak, held_mib, peak_mib
from lab.benchmarks.speed.runs import Run
from lab.benchmarks.speed.threads import use_threads

SIDES = {
    "ours": "lab.benchmarks.speed.ours",
    "trl": "lab.benchmarks.speed.peer_trl",
    "trl_checkpointed": "lab.benchmarks.speed.peer_trl",
}
"""Where each side's ``prepare(side, case, run)`` is; a module is imported only for its side."""


def main(arguments: list[str]) -> None:
    """Prepare, look, work, look again."""
    side, case, settings = arguments
    run = Run(**json.loads(settings))
    use_threads(run.threads)
    work = importlib.import_module(SIDES[side]).prepare(side, case, run)
    before = held_mib(run.device)
    work()
    print(json.dumps(asdict(Peak(peak=peak_mib(run.device), before=before))))


if __name__ == "__main__":
    main(sys.argv[1:])
