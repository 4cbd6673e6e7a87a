import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from dph._processes.sandbox.program import whole_source
from dph._processes.sandbox.seccomp import ALLOWED, CHECKED, WRITING, SystemCallFilter
from dph._processes.sandbox.supervisor import ProcessLimits, Sandbox, StepLimits
from dph._processes.sandbox.zygote import FileRules
from dph.errors import SettingsError, VerifierError
from dph.records import Outcome
from worker_fixtures import children_of

SECONDS = StepLimits(each=20.0, in_all=60.0)
TESTS = ["assert f() is None"]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(ProcessLimits()) as made:
        yield made


def judged(
    sandbox, source, tests, *, entry_point="f", setup="", prefix="", calls=(), limits=SECONDS
):
    program = {"source": source, "prefix": prefix, "entry_point": entry_point}
    job = {"setup": setup, "tests": list(tests), "calls": list(calls)}
    job |= {"entry_point": entry_point, "prefix": prefix}
    return sandbox.run_tests(program, job, limits)


def test_a_script_has_its_input_and_is_ended_at_its_time_or_when_it_prints_too_much(sandbox):
    source = "import sys\nprint(sys.stdin.read()[::-1])\nprint('x', file=sys.stderr)\nsys.exit(3)"
    ended = sandbox.run_script(source, "abc\u00e9", seconds=20)
    assert (ended.code, ended.output.decode(), ended.errors) == (3, "\u00e9cba\n", "x")
    assert not ended.over_output
    assert sandbox.run_script("while True: pass", "", seconds=1).code is None
    ended = sandbox.run_script("print('x' * 10**6)", "", seconds=20, output_bytes=1000)
    assert (ended.code, ended.over_output) == (None, True)
    assert sandbox.run_script("print(1)", "", seconds=20).output == b"1\n"
    source = "import random\nprint(random.random(), hash('a'), list({'a', 'b', 'c', 'd'}))"
    first, second = (sandbox.run_script(source, "", seconds=20).output for _ in range(2))
    assert first == second != b""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_script_that_writes_on_ends_by_its_time_and_not_by_its_pipe(sandbox, monkeypatch, stream):
    whole = sandbox.end

    def later(pid, seconds):
        time.sleep(0.3)  # in which a program whose pipe is closed would end by itself
        return whole(pid, seconds)

    monkeypatch.setattr(sandbox, "end", later)
    source = f"import sys\nwhile True: sys.{stream}.write('x' * 10**6)"
    assert sandbox.run_script(source, "", seconds=1, output_bytes=10**12).code is None


def test_a_program_finds_no_secret_and_closing_ends_all_processes(monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    with Sandbox(ProcessLimits()) as made:
        ended = made.run_script("import os\nprint(dict(os.environ))", "", seconds=20)
    assert b"secret" not in ended.output
    assert b"PYTHONPATH" not in ended.output
    before = children_of(os.getpid())
    made = Sandbox(ProcessLimits())
    made.close()
    made.close()
    assert children_of(os.getpid()) == before
    with pytest.raises(VerifierError, match="the process that starts programs has died"):
        made.clear()


# Each row: the program, the tests, and what comes of them.
JUDGED = {
    "an endless generator": (
        "import itertools\ndef f(): return itertools.count()",
        "g = f()\nassert [next(g), next(g)] == [0, 1]",
        "CORRECT",
    ),
    "an expected exception": (
        "def f(): raise KeyError('k')",
        "import pytest\nwith pytest.raises(KeyError): f()",
        "CORRECT",
    ),
    "an end in the place of an exception": (
        "import os\ndef f(): os._exit(0)",
        "import pytest\nwith pytest.raises(Exception): f()",
        "WRONG",
    ),
    "functions of tests": ("def f(x): return x", "def test_a():\n    assert f(1) == 2", "WRONG"),
    "a name like a built-in": (
        "def f(): return 1\ndef len(x): return 9",
        "assert len([f()]) == 1",
        "CORRECT",
    ),
    "tests that end": ("def f(): return 1", "raise SystemExit(0)", "BAD_GOLD"),
    "tests that end badly": ("def f(): return 1", "if f() != 2: raise SystemExit(1)", "WRONG"),
    "tests that compare keys": ("def f(): return {1: 2}", "assert f()[1] == 2", "CORRECT"),
}


@pytest.mark.parametrize("name", list(JUDGED))
def test_what_tests_see_of_a_program(name, sandbox):
    source, tests, outcome = JUDGED[name]
    found = judged(sandbox, source, [tests])
    assert found.outcome == outcome, found
    assert found.reason or outcome == "CORRECT"


def test_a_failed_test_is_named_with_its_line_and_the_last_call_and_a_reason_is_json(sandbox):
    found = judged(sandbox, "def f(x): return x", ["assert f(1) == 1", "y = 2\nassert f(y) == 3"])
    assert found.reason == "test 2 of 2: assert f(y) == 3: it does not hold (f(2) gave 2)"
    found = judged(sandbox, "def f(): return '\\ud800' * 5", ["assert f() == 1"])
    assert found.outcome is Outcome.WRONG
    assert json.loads(json.dumps(found.reason)) == found.reason
    tests = ["import os\nos.write(4, b'x' * 100)\nos._exit(0)"]
    found = judged(sandbox, "def f(): pass", tests)
    assert found.outcome is Outcome.BAD_GOLD


def test_calls_are_compared_as_json_and_methods_have_a_new_object_each(sandbox):
    source = (
        "class S:\n    n = 0\n    def f(self, x, y=1):\n"
        "        self.n += 1\n        return (x, y, self.n)"
    )
    calls = [
        {"args": [5], "kwargs": {}, "returns": [5, 1, 1]},
        {"args": [5], "kwargs": {"y": 2}, "returns": [5, 2, 1]},
    ]
    assert judged(sandbox, source, [], calls=calls, entry_point="S.f").outcome is Outcome.CORRECT
    calls[1]["returns"] = [5, 2, 2]
    found = judged(sandbox, source, [], calls=calls, entry_point="S.f")
    assert found.outcome is Outcome.WRONG
    assert "test 2 of 2: [5, 2, 2] was expected" in found.reason


def test_a_step_that_takes_too_long_is_named_and_all_together_have_a_limit(sandbox):
    short = StepLimits(each=1.0, in_all=60.0)
    late = judged(sandbox, "def f(): pass", TESTS, setup="while True: pass", limits=short)
    assert (late.outcome, late.stage, late.late) == (None, "setup", True)
    late = judged(sandbox, "while True: pass", TESTS, limits=short)
    assert (late.stage, late.late) == ("load", True)
    late = judged(sandbox, "def f():\n    while True: pass", TESTS, limits=short)
    assert (late.stage, late.late) == ("test", True)
    limits = StepLimits(each=20.0, in_all=2.0)
    source = "import time\ndef f(): time.sleep(0.5)"
    assert judged(sandbox, source, TESTS * 50, limits=limits).late


def test_the_limits_are_those_of_each_process(sandbox):
    with Sandbox(ProcessLimits(memory_bytes=200_000_000)) as small:
        source = "x = bytearray(250_000_000)\nprint(len(x))"
        assert small.run_script(source, "", seconds=20).errors == "MemoryError"
        assert sandbox.run_script(source, "", seconds=20).output == b"250000000\n"
    with pytest.raises(SettingsError, match="at least 64000000 bytes of memory, got 1"):
        ProcessLimits(memory_bytes=1)


def test_what_is_written_in_the_private_directory_is_gone_for_the_next_program(sandbox):
    if sandbox.missing:
        pytest.skip(f"this machine lacks {', '.join(sandbox.missing)}")
    write = "import os, tempfile\nos.makedirs('a/b')\nopen('a/b/c', 'w').write('x')\n"
    listed = "print(os.listdir('.'), os.getcwd() == tempfile.gettempdir())"
    assert sandbox.run_script(write + listed, "", seconds=20).output == b"['a'] True\n"
    listed = f"import os, tempfile\n{listed}"
    assert sandbox.run_script(listed, "", seconds=20).output == b"[] True\n"


LIMITED = """
import resource
from dph._processes.sandbox.supervisor import ProcessLimits, apply_limits
apply_limits(ProcessLimits(memory_bytes=300_000_000), seconds=1.5, threads=None)
for name in ("AS", "CPU", "FSIZE", "NOFILE", "CORE"):
    print(*resource.getrlimit(getattr(resource, f"RLIMIT_{name}")))
try:
    bytearray(400_000_000)
except MemoryError:
    print("out of memory")
"""


def test_limits_are_hard_and_the_kernels():
    out = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True
    )
    # 1.5 s of wall-clock time: 2 whole seconds of processor time, and 1 more.
    limits = [f"{limit} {limit}" for limit in (300_000_000, 3, 16_000_000, 64, 0)]
    assert out.stdout.splitlines() == [*limits, "out of memory"]


PREFIX = "import math\n\ndef half(x):\n    return x / 2\n\ndef f(x):\n    '''Twice x.'''\n"


def run(source, *arguments):
    names = {}
    exec(source, names)
    return names["f"](*arguments)


@pytest.mark.parametrize(
    "answer",
    [
        "    return 2 * x\n",
        "\n    return 2 * x\n\nprint(f(1))\nraise ValueError",
        "    return 2 * x\n# that was it",
        "    return 2 * x\n```\nso it is",
        "    y = x\n\n    return y + x\n\ndef g(): return nothing()\n",
        "def f(x):\n    return half(x) * math.floor(4)\n",
        "def g(x):\n    return x * 2\n\nf = g\n",
    ],
)
def test_an_answer_continues_its_prefix_or_follows_it(answer):
    assert run(whole_source(answer, PREFIX, "f"), 3) == 6


def test_the_stub_of_the_prefix_is_no_answer_and_without_one_the_answer_is_all():
    names = {}
    exec(whole_source("def g(x):\n    return x\n", PREFIX, "f"), names)
    assert "f" not in names
    assert names["half"](4) == 2
    assert whole_source("  odd", "", "f") == "  odd"
    assert run(whole_source("    return 5", "def f():\n", "f")) == 5
    assert run(whole_source("def f(): return 5", "def f():\n", "f")) == 5


def test_no_call_stands_in_two_tables_and_no_number_for_two_calls():
    tables = (ALLOWED, WRITING, CHECKED)
    assert len({name for table in tables for name in table}) == sum(map(len, tables))
    for column in (0, 1):
        numbers = [pair[column] for table in tables for pair in table.values()]
        known = [number for number in numbers if number is not None]
        assert len(known) == len(set(known))


@pytest.mark.parametrize(
    "name",
    [
        *("execve", "fork", "vfork", "ptrace", "socket", "connect", "kill", "mount", "setuid"),
        *("chmod", "bpf", "io_uring_setup", "process_vm_writev", "pidfd_getfd", "setrlimit"),
    ],
)
def test_what_must_never_be_allowed_is_in_no_table(name):
    assert name not in {**ALLOWED, **WRITING, **CHECKED}


def test_a_machine_that_is_not_known_has_no_filter(monkeypatch):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="riscv64"))
    with pytest.raises(OSError, match="no filter of system calls for riscv64"):
        SystemCallFilter(writes=False)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_program_of_the_filter_fits_into_the_kernels_limit(monkeypatch, machine):
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine=machine))
    few, more = (SystemCallFilter(writes=writes)._program for writes in (False, True))
    assert len(few) % 8 == len(more) % 8 == 0
    assert len(few) < len(more) < 8 * 4096  # BPF_MAXINSNS


CHILD = """
import sys
from pathlib import Path
from dph._processes.sandbox import seccomp as kernel
from dph._processes.sandbox.zygote import FileRules
readable, writable, other = map(Path, sys.argv[1:])
rules = FileRules(readable=[readable, Path("/nowhere")], writable=[writable])
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
rules.restrict()
rules.close()
def tried(action):
    try:
        action()
        return "yes"
    except PermissionError:
        return "no"
for folder in (readable, writable, other):
    print(tried((folder / "a").read_text), tried(lambda: (folder / "a").write_text("x")),
          tried((folder / "b").touch), tried((folder / "d").mkdir), tried((folder / "a").unlink))
"""


@pytest.fixture
def _landlock(tmp_path):
    try:
        FileRules(readable=[tmp_path], writable=[]).close()
    except OSError as error:
        pytest.skip(f"this machine has no Landlock: {error}")


@pytest.mark.usefixtures("_landlock")
def test_only_what_is_named_can_be_read_or_written(tmp_path):
    folders = [tmp_path / name for name in ("readable", "writable", "other")]
    for folder in folders:
        folder.mkdir()
        (folder / "a").write_text("a")
    out = subprocess.run(
        [sys.executable, "-c", CHILD, *folders], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines() == ["yes no no no no", "yes yes yes yes yes", "no no no no no"]
    assert (folders[2] / "a").read_text() == "a"
