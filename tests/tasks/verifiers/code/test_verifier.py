import pytest

from dph.errors import SettingsError
from dph.records import Outcome, Problem
from dph.tasks.verifiers import make_verifier, verifier_identity
from dph.tasks.verifiers.code.task import parse_task
from dph.tasks.verifiers.code.verifier import CodePair, CodeVerifier
from shared_data import SOME_AND_ALL

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


def test_a_verdict_does_not_depend_on_what_else_is_graded(verifier):
    pairs = [
        CodePair(parse_task(ADD.answer, "add"), f"def add(a, b): return {body}")
        for body in ("a + b", "a - b", "None", "1 / 0", "[a] + b")
    ]
    alone = [verifier.judge([pair])[0].verdict for pair in pairs]
    together = [judged.verdict for judged in verifier.judge(pairs[::-1])][::-1]
    assert alone == together


def test_the_identity_tells_limits_and_pythons_apart(verifier):
    identity = verifier_identity(verifier)
    assert identity["name"] == "code"
    assert identity["settings"]["timeout"] == 20.0
    assert identity["settings"]["limits"]["memory_bytes"] == 1_000_000_000
    assert identity["settings"]["python"].startswith("3.")
    with CodeVerifier(timeout=20.0, memory_mb=200) as other:
        assert verifier_identity(other) != identity


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


def test_a_program_may_begin_with_a_mark_of_the_order_of_bytes(verifier):
    tasks = [parse_task(each.answer, "p") for each in (ADD, SUM)]
    programs = [f"\ufeff{DOUBLE}", "\ufeffprint(sum(map(int, input().split())))"]
    found = verifier.judge([CodePair(*pair) for pair in zip(tasks, programs, strict=True)])
    assert outcomes(judged.verdict for judged in found) == ["CORRECT", "CORRECT"]


def test_a_script_of_many_cases_stops_at_the_first_that_fails(verifier):
    cases = [{"stdin": str(n), "stdout": "7" if n == 3 else str(n)} for n in range(50)]
    task = parse_task({"cases": cases}, "p")
    (judged,) = verifier.judge([CodePair(task, "print(input())")])
    assert judged.verdict.reason == "test 4 of 50: line 1 is '3', '7' was expected"


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
