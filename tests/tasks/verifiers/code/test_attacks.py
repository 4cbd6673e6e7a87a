"""Every attack we know of, each between good programs: no wrong verdict, no file, no process."""

import contextlib
import hashlib
import importlib.util
import os
import threading
import time
from pathlib import Path

import pytest

from dph.errors import VerifierError
from dph.records import Outcome
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier
from worker_fixtures import children_of

_SPEC = importlib.util.spec_from_file_location("attacks", Path(__file__).with_name("attacks.py"))
attacks = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(attacks)

ADD = parse_task(
    {"tests": ["assert add(2, 3) == 5", "assert add(-1, 1) == 0"], "entry_point": "add"}, "add"
)
SUM = parse_task({"cases": [{"stdin": "2 3", "stdout": "5\n"}]}, "sum")
GOOD_ADD = CodePair(ADD, "def add(a, b):\n    return a + b\n")
GOOD_SUM = CodePair(SUM, "print(sum(map(int, input().split())))")
QUICK = ["an int that equals all", "exit 0 at once", "the judge patched", "fork", "tcp", "write"]


def pairs_of(table, task, folder):
    """The programs of a table, by name, with MARK and VICTIM as paths."""
    victim = folder / "victim" / "file"
    victim.parent.mkdir(exist_ok=True)
    victim.write_text("5")
    paths = {"MARKED": "dph-attack-mark", "MARK": str(folder / "mark"), "VICTIM": str(victim)}
    pairs = {}
    for name, (source, _) in table.items():
        for word, path in paths.items():
            source = source.replace(word, path)
        pairs[name] = CodePair(task, source)
    return pairs


def state(folder):
    """Every file, its mode and its hash."""
    return {
        path: (path.lstat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.rglob("*")
        if path.is_file()
    }


def descendants(pid):
    """All processes below one."""
    found = set(children_of(pid))
    for child in list(found):
        try:
            found |= descendants(child)
        except FileNotFoundError:
            found.discard(child)
    return found


def judge_between_good_ones(verifier, pairs, good):
    """The verdicts by name, and the outcomes of the good programs around them."""
    mixed = [each for pair in pairs.values() for each in (pair, good)]
    verdicts = [judged.verdict for judged in verifier.judge([good, *mixed])]
    return dict(zip(pairs, verdicts[1::2], strict=True)), {v.outcome for v in verdicts[::2]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All of the tables at once by two workers, and what they left behind."""
    folder = tmp_path_factory.mktemp("attacked")
    others = children_of(os.getpid())
    with CodeVerifier(workers=2, timeout=3.0, memory_mb=500) as verifier:
        if verifier.missing:
            pytest.skip(f"this machine lacks {', '.join(verifier.missing)}")
        pairs = pairs_of(attacks.FUNCTIONS, ADD, folder)
        before = state(folder)
        functions, good = judge_between_good_ones(verifier, pairs, GOOD_ADD)
        scripts = pairs_of({**attacks.SCRIPTS, **attacks.HARMLESS}, SUM, folder)
        printed, good_scripts = judge_between_good_ones(verifier, scripts, GOOD_SUM)
        workers = children_of(os.getpid()) - others
        running = [len(descendants(worker)) for worker in workers]
    places = [Path(each) for each in ("/dev/shm", "/tmp", "/var/tmp", Path.home())]
    marks = [each for place in places for each in place.glob("dph-attack-mark*")]
    return {
        "verdicts": functions | printed,
        "good": good | good_scripts,
        "files": (before, state(folder)),
        "marks": marks,
        "running": running,
        "left": children_of(os.getpid()) - others,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", [*attacks.FUNCTIONS, *attacks.SCRIPTS, *attacks.HARMLESS])
def test_an_attack_has_the_verdict_that_it_deserves(name, whole):
    _, outcomes = {**attacks.FUNCTIONS, **attacks.SCRIPTS, **attacks.HARMLESS}[name]
    verdict = whole["verdicts"][name]
    assert verdict.outcome in outcomes, verdict
    assert (verdict.reward == 1.0) == (verdict.outcome is Outcome.CORRECT)
    assert verdict.reason or verdict.outcome is Outcome.CORRECT


@pytest.mark.slow
def test_the_programs_between_the_attacks_stay_right(whole):
    assert whole["good"] == {Outcome.CORRECT}


@pytest.mark.slow
def test_the_attacks_change_no_file_and_leave_none(whole):
    before, after = whole["files"]
    assert before == after
    assert whole["marks"] == []


@pytest.mark.slow
def test_the_attacks_leave_no_process(whole):
    # Of each sandbox: the process that waits for the first of its namespace, and that one. A worker
    # has one sandbox, and a second if a program named what is slow to load.
    assert all(running in (2, 4) for running in whole["running"])
    assert whole["left"] == set()


def test_a_few_attacks_in_short(tmp_path):
    table = {name: attacks.FUNCTIONS[name] for name in QUICK}
    pairs = pairs_of(table, ADD, tmp_path)
    before = state(tmp_path)
    with CodeVerifier(timeout=10.0) as verifier:
        if verifier.missing:
            pytest.skip(f"this machine lacks {', '.join(verifier.missing)}")
        verdicts, good = judge_between_good_ones(verifier, pairs, GOOD_ADD)
    assert {
        name: verdict.outcome in table[name][1] for name, verdict in verdicts.items()
    } == dict.fromkeys(table, True)
    assert good == {Outcome.CORRECT}
    assert state(tmp_path) == before


# What stands between a program and a right verdict does not depend on the machine: without the
# confinement's parts a program may do harm, but what it returns is compared elsewhere all the same.
@pytest.mark.parametrize("part", ["system calls", "files", "namespaces"])
def test_forged_verdicts_fail_without_a_part_of_the_confinement(part, tmp_path):
    pairs = pairs_of(attacks.FORGED, ADD, tmp_path)
    with CodeVerifier(workers=2, timeout=5.0, without=(part,)) as verifier:
        assert any(each.startswith(part) for each in verifier.missing)
        verdicts, good = judge_between_good_ones(verifier, pairs, GOOD_ADD)
    wrong = {n: v for n, v in verdicts.items() if v.outcome not in attacks.FORGED[n][1]}
    assert wrong == {}
    assert good == {Outcome.CORRECT}


@pytest.mark.parametrize("part", ["system calls", "files", "namespaces"])
def test_no_file_and_no_network_is_reached_without_one_part(part, tmp_path):
    reading = ("read", "list", "a disk") if part == "files" else ()
    table = {**attacks.FILES, **attacks.NETWORK, **attacks.PROCESSES}
    if part == "system calls":  # root's processes are bounded by the filter alone
        table = attacks.FILES
    table = (
        {name: each for name, each in table.items() if not name.startswith(reading)}
        if reading
        else table
    )
    if part == "system calls":
        harmless = ("mode", "owner", "time", "attribute")  # another user cannot, root's could
        table = {name: each for name, each in table.items() if name not in harmless}
    pairs = pairs_of(table, ADD, tmp_path)
    before = state(tmp_path)
    with CodeVerifier(workers=2, timeout=5.0, without=(part,)) as verifier:
        verdicts, good = judge_between_good_ones(verifier, pairs, GOOD_ADD)
    assert {n: v for n, v in verdicts.items() if v.outcome not in table[n][1]} == {}
    assert good == {Outcome.CORRECT}
    assert state(tmp_path) == before


def test_all_ends_when_the_verifier_is_closed_in_the_middle():
    others = children_of(os.getpid())
    verifier = CodeVerifier(timeout=100.0)

    def judge():
        with contextlib.suppress(VerifierError):  # the pool is closed meanwhile
            verifier.judge([CodePair(ADD, "while True: pass")])

    thread = threading.Thread(target=judge, daemon=True)
    thread.start()
    (worker,) = children_of(os.getpid()) - others
    deadline = time.monotonic() + 30
    while len(running := descendants(worker)) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(running) == 4  # two for the zygote, the program, its judge
    verifier.close()
    thread.join(30)
    deadline = time.monotonic() + 30
    while (
        alive := [p for p in running if Path(f"/proc/{p}").exists()]
    ) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive == []
