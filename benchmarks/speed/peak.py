"""Do one side's work in this process and print its peak memory as JSON.

python -m benchmarks.speed.peak SIDE CASE RUN
"""

import importlib
import json
import sys
from dataclasses import asdict

from benchmarks.speed.memory import Peak, held_mib, peak_mib
from benchmarks.speed.runs import Run
from benchmarks.speed.threads import use_threads

SIDES = {
    "ours": "benchmarks.speed.ours",
    "trl": "benchmarks.speed.peer_trl",
    "trl_checkpointed": "benchmarks.speed.peer_trl",
    "head": "benchmarks.speed.head",
    "plain_head": "benchmarks.speed.head",
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
