"""How quickly ``dph view`` answers on many generated answers, and in how much memory.

    python -m lab.benchmarks.view [--problems 15000] [--samples 16] [--runs DIRECTORY]

Makes four models' answers (a little over a million), serves them, asks as a browser asks, and
prints a table: milliseconds until the whole answer is there, and of CPU time of the server, median
and worst of the repeats. No question is asked twice, so nothing comes out of a cache. Memory is the
server's and its child's together, looked at ten times a second from the start to the end.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.benchmarks.view.runs import SET, make_runs, training_line

SERVER = "import sys; from dph.cli import main; sys.exit(main())"
KEYS = "r0+r1+r2+r3"
TICKS = os.sysconf("SC_CLK_TCK")


def questions(problems: int) -> dict[str, list[str]]:
    """Addresses under api/ by what they ask, every one another."""
    listed = f"problems?set={SET}&shown={KEYS}&count=100"
    chosen = [(i * 7919) % problems for i in range(1, 9)]
    return {
        "one page of the list": [f"{listed}&first={100 * i}" for i in range(8)],
        "outcome, style and correct from, to": [
            f"{listed}&outcome=WRONG&style=cte&from={i}&to={i + 4}" for i in range(8)
        ],
        "lost by a run": [f"{listed}&change=lost&run=r3&first={i}" for i in range(8)],
        "sorted by the spread": [f"{listed}&sort=spread&down={i % 2}&from={i}" for i in range(8)],
        "sorted by id": [f"{listed}&sort=id&from={i}" for i in range(8)],
        "a word in prompts and gold": [f"{listed}&q=above+{i}" for i in chosen],
        "a rare word, in all answers": [
            f"{listed}&answers=1&q={100_003 * (i + 1)}" for i in range(8)
        ],
        "a word of every answer": [
            f"{listed}&answers=1&q={word}"
            for word in ("rooms", "hotel", "where", "select", "stars", "from", "guest", "limit")
        ],
        "a problem with its answers": [
            f"problem?set={SET}&shown={KEYS}&id=q-{i:06d}" for i in chosen
        ],
        "everything but lists (the page opens)": ["index"] * 8,
    }


class Memory(threading.Thread):
    """The largest sum of the resident sizes of a process and its children, in bytes."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.most, self.alone = pid, 0, 0

    def run(self) -> None:
        """Look until the process is gone."""
        while (mine := _resident(self.pid)) is not None:
            others = [_resident(int(child)) or 0 for child in _children(self.pid)]
            self.alone = max(self.alone, mine)
            self.most = max(self.most, mine + sum(others))
            time.sleep(0.1)


def _children(pid: int) -> set[str]:
    """What any thread of a process began."""
    found: set[str] = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found |= set(path.read_text().split())
        except OSError:  # the thread has ended
            continue
    return found


def _resident(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next((1024 * int(x.split()[1]) for x in status.splitlines() if x[:6] == "VmRSS:"), None)


def _cpu(pid: int) -> float:
    """Seconds of CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def served(runs: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process of a server, and its address."""
    command = [sys.executable, "-c", SERVER, "view", str(runs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().removeprefix("view: ").strip()
        finally:
            process.terminate()


def ask(address: str, what: str) -> Any:
    """The document at an address under api/."""
    with urllib.request.urlopen(f"{address}api/{what}") as answer:
        return json.loads(answer.read())


def until(true: Any, seconds: float = 1800) -> float:
    """Seconds until a function returns something true."""
    started = time.perf_counter()
    while not true():
        if time.perf_counter() - started > seconds:
            raise TimeoutError(f"not true after {seconds} s")
        time.sleep(0.1)
    return time.perf_counter() - started


def measure(runs: Path, problems: int, answers: int) -> None:
    """Serve, ask, print."""
    started = time.perf_counter()
    with served(runs) as (process, address):
        opened = time.perf_counter() - started
        memory = Memory(process.pid)
        memory.start()
        texts = until(lambda: len(set(ask(address, "state")["texts"])) == 1)
        analysed = until(lambda: ask(address, "state")["answers"].endswith("-analysed"))
        print(f"| {answers:,} answers | milliseconds, median (worst) | of CPU time |")
        print("| --- | --- | --- |")
        for name, asked in questions(problems).items():
            times, before = [], _cpu(process.pid)
            for what in asked:
                begun = time.perf_counter()
                ask(address, what)
                times.append(1000 * (time.perf_counter() - begun))
            cpu = 1000 * (_cpu(process.pid) - before) / len(asked)
            print(f"| {name} | {statistics.median(times):.0f} ({max(times):.0f}) | {cpu:.0f} |")
        print(f"a new step was there after {new_step(runs, address):.1f} s")
    print(
        f"the page was there after {opened:.0f} s, texts {texts:.0f} s later, the comparison "
        f"{texts + analysed:.0f} s later"
    )
    print(
        f"memory: {memory.alone / 1e6:.0f} MB, with the comparison's process "
        f"{memory.most / 1e6:.0f} MB"
    )


def new_step(runs: Path, address: str) -> float:
    """Seconds from a line in metrics.jsonl to charts that have it."""
    ask(address, "state")
    path = runs / "grpo" / "metrics.jsonl"
    step = len(path.read_text().splitlines()) + 1
    with path.open("a") as file:
        file.write(json.dumps(training_line(step)) + "\n")
    return until(lambda: any(step in chart["columns"]["x"] for chart in ask(address, "charts")), 60)


def main() -> None:
    """Make the runs, unless they are there, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", type=int, default=15_000)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument(
        "--runs", type=Path, help="keep the runs here [default: a directory that goes]"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        runs = arguments.runs or Path(directory) / "runs"
        answers = 4 * arguments.problems * (arguments.samples + 1)
        if not runs.exists():
            make_runs(runs, problems=arguments.problems, samples=arguments.samples)
        measure(runs, arguments.problems, answers)


if __name__ == "__main__":
    main()
