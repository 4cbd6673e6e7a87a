"""The verifier of code, and every attack we know of, each between good programs."""

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest

from dph.errors import SettingsError, VerifierError
from dph.records import Outcome, Problem
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier
from shared_data import SOME_AND_ALL
from tasks.verifiers.code import attacks
from worker_fixtures import children_of, state_of

ADD = Problem(
    problem_id="add",
    prompt="Write add.",
    answer={"tests": ["assert add(2, 3) == 5"], "entry_point": "add"},
)
SUM = Problem(
    problem_id="sum",
    prompt="Print the sum.",
    answer={"cases": [{"stdin": "2 3", "stdout": "5"}, {"stdin": "1 1", "stdout": "2"}]},
)


@pytest.fixture(scope="module")
def verifier():
    with make_verifier("code", workers=2, timeout=20.0) as made:
        yield made


def outcomes(verdicts):
    return [verdict.outcome.value for verdict in verdicts]


def test_responses_are_graded_in_order_whatever_their_problem(verifier):
    right = "```python\ndef add(a, b):\n    return a + b\n```"
    script = "```python\nprint(sum(map(int, input().split())))\n```"
    problems = [ADD, SUM, ADD, SUM, ADD]
    found = verifier.grade(problems, [right, script, "no idea", "```python\nprint(5)\n```", script])
    assert outcomes(found) == ["CORRECT", "CORRECT", "NO_ANSWER", "WRONG", "INVALID"]
    assert found[3].reason == "test 2 of 2: line 1 is '5', '2' was expected"
    assert [verdict.reward for verdict in found] == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_a_verdict_does_not_depend_on_what_else_is_graded_nor_on_a_mark_of_the_order_of_bytes(
    verifier,
):
    pairs = [
        CodePair(parse_task(ADD.answer, "add"), f"def add(a, b): return {body}")
        for body in ("a + b", "a - b", "None", "1 / 0", "[a] + b")
    ]
    alone = [verifier.judge([pair])[0].verdict for pair in pairs]
    together = [judged.verdict for judged in verifier.judge(pairs[::-1])][::-1]
    assert alone == together
    tasks = [parse_task(each.answer, "p") for each in (ADD, SUM)]
    programs = [f"\ufeff{DOUBLE}", "\ufeffprint(sum(map(int, input().split())))"]
    found = verifier.judge([CodePair(*pair) for pair in zip(tasks, programs, strict=True)])
    assert outcomes(judged.verdict for judged in found) == ["CORRECT", "CORRECT"]
    cases = [{"stdin": str(n), "stdout": "7" if n == 3 else str(n)} for n in range(50)]
    task = parse_task({"cases": cases}, "p")
    (judged,) = verifier.judge([CodePair(task, "print(input())")])
    assert judged.verdict.reason == "test 4 of 50: line 1 is '3', '7' was expected"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timeout": 0.0}, "timeout must lie in"),
        ({"timeout": float("nan")}, "timeout must lie in"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"without": ("namespaces", "system calls")}, "programs cannot be isolated from other"),
        ({"memory_mb": 1}, "at least 64000000 bytes of memory, got 1000000"),
    ],
)
def test_settings_out_of_range_are_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        CodeVerifier(**settings)


def test_programs_are_compared_with_another_one_on_inputs(verifier):
    calls = {"inputs": [[1, 2], [3, 4]], "entry_point": "add"}
    right, wrong = "def add(a, b): return b + a", "def add(a, b): return a * b"
    same = {**calls, "same_as": "so:\n```python\ndef add(a, b): return a + b\n```"}
    fails = {**calls, "same_as": "def add(a, b): return a / 0"}
    printed = {"inputs": ["1 2", "3 4"], "same_as": "print(sum(map(int, input().split())))"}
    floats = "print(float(sum(map(int, input().split()))))"
    found = verifier.judge(
        [
            CodePair(parse_task(same, "p"), right),
            CodePair(parse_task(same, "p"), wrong),
            CodePair(parse_task(same, "p"), "def add(a, b): return float(a + b)"),
            CodePair(parse_task(fails, "p"), right),
            CodePair(parse_task(printed, "p"), floats),
            CodePair(parse_task(printed, "p"), "print(3)"),
            CodePair(parse_task({**printed, "same_as": "1 / 0"}, "p"), floats),
        ]
    )
    assert outcomes(judged.verdict for judged in found) == [
        *("CORRECT", "WRONG", "WRONG", "BAD_GOLD"),
        *("CORRECT", "WRONG", "BAD_GOLD"),
    ]
    assert "the other program: ZeroDivisionError" in found[3].verdict.reason
    assert "the other program: exit code 1: ZeroDivisionError" in found[6].verdict.reason


DOUBLE = "def add(a, b): return a + b\n"


@pytest.mark.parametrize(
    ("lines", "outcome", "reason"),
    [
        ("try:\n    n = input('n? ')\nexcept EOFError:\n    n = ''\n", "CORRECT", ""),
        ("from contextlib import suppress\nwith suppress(EOFError):\n    input()", "CORRECT", ""),
        ("import sys\nassert sys.stdin.read() == sys.stdin.readline() == ''\n", "CORRECT", ""),
        ("import sys\nassert list(sys.stdin) == [] == sys.stdin.readlines()\n", "CORRECT", ""),
        ("import sys\nassert sys.stdin.buffer.read() == open(0).read().encode()", "CORRECT", ""),
        ("print('ready')\nimport sys\nprint('so', file=sys.stderr)\n", "CORRECT", ""),
        ("read = input\nif __name__ == '__main__':\n    print(read())\n", "CORRECT", ""),
        ("n = int(input())\n", "INVALID", "EOFError"),
        ("import sys\nn = int(sys.stdin.readline())\n", "INVALID", "ValueError"),
        ("while True:\n    try:\n        input()\n    except ValueError:\n        break\n",
         "INVALID", "EOFError"),
        ("import os\nos.write(4, b'12345678[1]')\nos.write(5, b'1')\n", "INVALID", ""),
    ],
)  # fmt: skip
def test_while_a_program_is_loaded_its_input_is_at_its_end(verifier, lines, outcome, reason):
    for program in (f"{DOUBLE}{lines}", f"{lines}\n{DOUBLE}"):
        (judged,) = verifier.judge([CodePair(parse_task(ADD.answer, "add"), program)])
        assert judged.verdict.outcome.value == outcome, judged.verdict
        assert reason in judged.verdict.reason
        assert "malformed" not in judged.verdict.reason


@SOME_AND_ALL
def test_the_200_problems_solutions_are_right_and_their_mutants_are_not(verifier, every):
    from lab.benchmarks.code_problems import examples  # noqa: PLC0415

    made = examples()
    assert len(made) == 200
    assert {each.shape for each in made} == {"humaneval", "mbpp", "livecodebench"}
    made = made[::every]
    tasks = [parse_task(each.answer, each.name) for each in made]
    for program, expected in (("right", {Outcome.CORRECT}), ("wrong", {Outcome.WRONG})):
        pairs = [CodePair(t, getattr(e, program)) for t, e in zip(tasks, made, strict=True)]
        assert {judged.verdict.outcome for judged in verifier.judge(pairs)} == expected


ADD_TASK = parse_task(
    {"tests": ["assert add(2, 3) == 5", "assert add(-1, 1) == 0"], "entry_point": "add"}, "add"
)
SUM_TASK = parse_task({"cases": [{"stdin": "2 3", "stdout": "5\n"}]}, "sum")
GOOD_ADD = CodePair(ADD_TASK, "def add(a, b):\n    return a + b\n")
GOOD_SUM = CodePair(SUM_TASK, "print(sum(map(int, input().split())))")
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


def descendants(pid):
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
def all_attacks(tmp_path_factory):
    """All of the tables at once by two workers, and what they left behind."""
    folder = tmp_path_factory.mktemp("attacked")
    others = children_of(os.getpid())
    with CodeVerifier(workers=2, timeout=3.0, memory_mb=500) as verifier:
        if verifier.missing:
            pytest.skip(f"this machine lacks {', '.join(verifier.missing)}")
        pairs = pairs_of(attacks.FUNCTIONS, ADD_TASK, folder)
        before = state_of(folder)
        functions, good = judge_between_good_ones(verifier, pairs, GOOD_ADD)
        scripts = pairs_of({**attacks.SCRIPTS, **attacks.HARMLESS}, SUM_TASK, folder)
        printed, good_scripts = judge_between_good_ones(verifier, scripts, GOOD_SUM)
        workers = children_of(os.getpid()) - others
        running = [len(descendants(worker)) for worker in workers]
    places = [Path(each) for each in ("/dev/shm", "/tmp", "/var/tmp", Path.home())]
    marks = [each for place in places for each in place.glob("dph-attack-mark*")]
    return {
        "verdicts": functions | printed,
        "good": good | good_scripts,
        "files": (before, state_of(folder)),
        "marks": marks,
        "running": running,
        "left": children_of(os.getpid()) - others,
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", [*attacks.FUNCTIONS, *attacks.SCRIPTS, *attacks.HARMLESS])
def test_an_attack_has_the_verdict_that_it_deserves(name, all_attacks):
    _, outcomes = {**attacks.FUNCTIONS, **attacks.SCRIPTS, **attacks.HARMLESS}[name]
    verdict = all_attacks["verdicts"][name]
    assert verdict.outcome in outcomes, verdict
    assert (verdict.reward == 1.0) == (verdict.outcome is Outcome.CORRECT)
    assert verdict.reason or verdict.outcome is Outcome.CORRECT


@pytest.mark.slow
def test_the_attacks_change_no_other_verdict_and_leave_no_file_and_no_process(all_attacks):
    assert all_attacks["good"] == {Outcome.CORRECT}
    before, after = all_attacks["files"]
    assert before == after
    assert all_attacks["marks"] == []
    # Of each sandbox: the process that waits for the first of its namespace, and that one. A worker
    # has one sandbox, and a second if a program named what is slow to load.
    assert all(running in (2, 4) for running in all_attacks["running"])
    assert all_attacks["left"] == set()


def test_a_few_attacks_in_short(tmp_path):
    table = {name: attacks.FUNCTIONS[name] for name in QUICK}
    pairs = pairs_of(table, ADD_TASK, tmp_path)
    before = state_of(tmp_path)
    with CodeVerifier(timeout=10.0) as verifier:
        if verifier.missing:
            pytest.skip(f"this machine lacks {', '.join(verifier.missing)}")
        verdicts, good = judge_between_good_ones(verifier, pairs, GOOD_ADD)
    assert {
        name: verdict.outcome in table[name][1] for name, verdict in verdicts.items()
    } == dict.fromkeys(table, True)
    assert good == {Outcome.CORRECT}
    assert state_of(tmp_path) == before


without_a_part = pytest.mark.parametrize(
    "part",
    ["files", *(pytest.param(p, marks=pytest.mark.slow) for p in ("system calls", "namespaces"))],
)


# What stands between a program and a right verdict does not depend on the machine: without the
# confinement's parts a program may do harm, but what it returns is compared elsewhere all the same.
@without_a_part
def test_forged_verdicts_fail_without_a_part_of_the_confinement(part, tmp_path):
    pairs = pairs_of(attacks.FORGED, ADD_TASK, tmp_path)
    with CodeVerifier(workers=2, timeout=5.0, without=(part,)) as verifier:
        assert any(each.startswith(part) for each in verifier.missing)
        verdicts, good = judge_between_good_ones(verifier, pairs, GOOD_ADD)
    wrong = {n: v for n, v in verdicts.items() if v.outcome not in attacks.FORGED[n][1]}
    assert wrong == {}
    assert good == {Outcome.CORRECT}


@without_a_part
def test_no_file_and_no_network_is_reached_without_one_part(part, tmp_path):
    table = {**attacks.FILES, **attacks.NETWORK, **attacks.PROCESSES}
    left_out = ("read", "list", "a disk") if part == "files" else ()
    if part == "system calls":  # root's processes are bounded by the filter alone
        table = attacks.FILES
        left_out = ("mode", "owner", "time", "attribute")  # another user cannot, root's could
    table = {name: each for name, each in table.items() if not name.startswith(left_out)}
    pairs = pairs_of(table, ADD_TASK, tmp_path)
    before = state_of(tmp_path)
    with CodeVerifier(workers=2, timeout=5.0, without=(part,)) as verifier:
        verdicts, good = judge_between_good_ones(verifier, pairs, GOOD_ADD)
    assert {n: v for n, v in verdicts.items() if v.outcome not in table[n][1]} == {}
    assert good == {Outcome.CORRECT}
    assert state_of(tmp_path) == before


def test_all_ends_when_the_verifier_is_closed_in_the_middle():
    others = children_of(os.getpid())
    verifier = CodeVerifier(timeout=100.0)

    def judge():
        with contextlib.suppress(VerifierError):  # the pool is closed meanwhile
            verifier.judge([CodePair(ADD_TASK, "while True: pass")])

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
