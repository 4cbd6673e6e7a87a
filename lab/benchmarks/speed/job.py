"""One case of one bench in this process; its rows go to a file.

python -m lab.benchmarks.speed.job BENCH CASE RUN OUT
"""

import importlib
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from transformers.utils import logging as transformers_logging

from lab.benchmarks.speed.rows import write_rows
from lab.benchmarks.speed.runs import Row, Run
from lab.benchmarks.speed.suite import SUITE
from lab.benchmarks.speed.threads import use_threads


def measure(bench: str, case: str, run: Run) -> list[Row]:
    """The rows of one case; the module of the bench is imported only now, as it may need a peer."""
    rows: list[Row] = importlib.import_module(SUITE[bench].module).measure(case, run)
    return rows


def main(arguments: Sequence[str]) -> None:
    """Read the arguments, measure, write."""
    bench, case, settings, out = arguments
    run = Run(**json.loads(settings))
    use_threads(run.threads)
    warnings.simplefilter("ignore")  # of the peer's packages; the test suite shows ours
    transformers_logging.set_verbosity_error()
    write_rows(Path(out), measure(bench, case, run))


if __name__ == "__main__":
    main(sys.argv[1:])
