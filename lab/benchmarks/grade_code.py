"""Programs per second of the verifier ``code`` on 200 problems, and whether its verdicts are right.

    python lab/benchmarks/grade_code.py --workers 2

Every problem is graded twice, with its solution and with a mutant. Wall-clock time depends on what
else the machine does; the processor time of all processes, also printed, depends less on it.
"""

import argparse
import os
import time
from collections import Counter
from pathlib import Path

from dph.records import Outcome
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier
from lab.benchmarks.code_problems import examples


def main() -> None:
    """Grade all and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--workers", type=int, default=2)
    options = arguments.parse_args()
    made = examples()
    tasks = [parse_task(each.answer, each.name) for each in made]
    pairs = [
        CodePair(task, program)
        for each, task in zip(made, tasks, strict=True)
        for program in (each.right, each.wrong)
    ]
    with CodeVerifier(workers=options.workers, timeout=20.0) as verifier:
        verifier.judge(pairs[: 8 * options.workers])
        processor, started = _processor_seconds(os.getpid()), time.perf_counter()
        verdicts = [judged.verdict for judged in verifier.judge(pairs)]
        seconds = time.perf_counter() - started
        processor = _processor_seconds(os.getpid()) - processor
        print("not confined by:", ", ".join(verifier.missing) or "nothing, all parts are there")
    right = Counter(str(verdict.outcome) for verdict in verdicts[::2])
    wrong = Counter(str(verdict.outcome) for verdict in verdicts[1::2])
    print(f"solutions: {dict(right)}; mutants: {dict(wrong)}")
    print(
        f"{len(pairs)} programs, {options.workers} workers: {len(pairs) / seconds:.1f} programs/s"
    )
    print(f"{len(pairs) / processor:.1f} programs per second of processor time")
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    bad = [
        each.name
        for each, v in zip(made, verdicts[::2], strict=True)
        if v.outcome is not Outcome.CORRECT
    ]
    bad += [
        each.name
        for each, v in zip(made, verdicts[1::2], strict=True)
        if v.outcome is Outcome.CORRECT
    ]
    if bad:
        raise SystemExit(f"wrong verdicts: {bad}")


def _processor_seconds(pid: int) -> float:
    """What a process and all below it have used, those that have ended included."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [each for task in tasks for each in (task / "children").read_text().split()]
    except FileNotFoundError:  # it has just ended, and its parent counts it
        return 0.0
    own = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    return own + sum(_processor_seconds(int(child)) for child in children)


if __name__ == "__main__":
    main()
