"""Programs per second of the verifier ``code`` on 200 problems, and whether its verdicts are right.

    python benchmarks/grade_code.py --workers 2

Every problem is graded twice, with its solution and with a mutant. Wall-clock time depends on what
else the machine does; the processor time of all processes, also printed, depends less on it.
"""

import argparse
import os
import resource
import time
from collections import Counter

from benchmarks.code_problems import examples
from dph.records import Outcome
from dph.verifiers.code.task import parse_task
from dph.verifiers.code.verifier import CodePair, CodeVerifier


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
    processor = _processor_seconds()
    with CodeVerifier(workers=options.workers, timeout=20.0) as verifier:
        verifier.judge(pairs[: 8 * options.workers])
        started = time.perf_counter()
        verdicts = [judged.verdict for judged in verifier.judge(pairs)]
        seconds = time.perf_counter() - started
        print("not confined by:", ", ".join(verifier.missing) or "nothing, all parts are there")
    processor = _processor_seconds() - processor
    right = Counter(str(verdict.outcome) for verdict in verdicts[::2])
    wrong = Counter(str(verdict.outcome) for verdict in verdicts[1::2])
    print(f"solutions: {dict(right)}; mutants: {dict(wrong)}")
    programs = len(pairs) + 8 * options.workers
    print(
        f"{len(pairs)} programs, {options.workers} workers: {len(pairs) / seconds:.1f} programs/s"
    )
    print(f"{programs / processor:.1f} programs per second of processor time, starting included")
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


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
