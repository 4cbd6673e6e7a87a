import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from dph._processes.sandbox.confinement import FileRules
from dph._processes.sandbox.seccomp import ALLOWED, CHECKED, WRITING, SystemCallFilter


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
from dph._processes.sandbox.confinement import FileRules
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
