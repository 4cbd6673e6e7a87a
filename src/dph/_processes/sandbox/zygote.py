"""A process that forks one for every program: ``python -P -m dph._processes.sandbox.zygote``.

It has the interpreter and much of the standard library loaded, so that a fork of it starts in a
millisecond. It has no secrets in its memory or environment, and never reads what it passes on: its
children get a task's texts through descriptors. In addition to what every zygote is asked
(dph._processes.child):

* parent, first: ``{"limits": {...}, "without": [...], "preload": [...]}``
* here: ``{"missing": [...]}``, what this machine does not offer
* parent: ``{"start": role, "seconds": s}`` and descriptors
* parent: ``{"end": pid, "seconds": s}``; here: ``{"status": code}`` when it has ended or that time
  is over, None if it had to be ended; the rest as after ``clear``
* parent: ``{"clear": true}``; here: ``{"status": {pid: code}}``, when no child is left and none
  of their files

All its children end with it.
"""

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import signal
import socket
import struct
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from dph._processes.child import ForkServer
from dph._processes.sandbox import seccomp as kernel
from dph._processes.sandbox.judge import run_judge
from dph._processes.sandbox.program import run_program
from dph._processes.sandbox.seccomp import SystemCallFilter, detach, mount, system_call, unshare
from dph._processes.sandbox.supervisor import ProcessLimits, apply_limits

# All that keeps a program apart, made once, put on by every child that runs one.
#
# The parts are tried one by one when it is made, and what this machine does not offer is listed in
# ``missing``. None of them needs root.
#
# =============== ================================================== ============================
# part            what it keeps a program from                       offered by
# =============== ================================================== ============================
# limits          memory, CPU time, descriptors, file sizes          every Linux
# system calls    processes, network, signals, looking into others   x86_64, aarch64
# files           reading outside of Python, writing outside of /tmp Linux 6.2 with Landlock
# namespaces      network, other processes; a private /tmp           where users may make them
# =============== ================================================== ============================
#
# Without the private /tmp nothing can be written at all. Outside the directories given to Landlock
# nothing can be opened, made, renamed or removed. Where the kernel knows more (6.7, 6.12), TCP and
# signals to processes outside are refused, too.

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_HIGH = 200
_OLDEST = 3
"""The first version that knows of truncation."""
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEVICE = 1 << 14, 1 << 15
_ALL_OF_VERSION_3 = (1 << 15) - 1
_TCP, _SIGNALS_AND_SOCKETS = 3, 3
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE


class FileRules:
    """Rules, made once and put on any number of processes.

    What is ``readable`` may be mapped, too; in what is ``writable`` everything may be done. Paths
    that do not exist are left out.
    """

    def __init__(self, *, readable: Iterable[Path], writable: Iterable[Path]) -> None:
        version = system_call(_CREATE, 0, 0, 1)
        if version < _OLDEST:
            raise OSError(f"Landlock is of version {version}, {_OLDEST} is needed")
        fields = [_ALL_OF_VERSION_3 | (_IOCTL_DEVICE if version >= 5 else 0)]
        fields += [_TCP] if version >= 4 else []
        fields += [_SIGNALS_AND_SOCKETS] if version >= 6 else []
        attributes = _buffer(struct.pack(f"<{len(fields)}Q", *fields))
        made = system_call(_CREATE, attributes, len(attributes), 0)
        # Out of the way of descriptors that a child puts in fixed places.
        self._descriptor = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        os.close(made)
        for path in readable:
            self._allow(path, _EXECUTE | _READ_FILE | _READ_DIR)
        for path in writable:
            self._allow(path, _ALL_OF_VERSION_3)

    def restrict(self) -> None:
        """Put the caller under the rules, for good. NO_NEW_PRIVS is set."""
        system_call(_RESTRICT, self._descriptor, 0)

    def close(self) -> None:
        os.close(self._descriptor)

    def _allow(self, path: Path, access: int) -> None:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            if not path.is_dir():
                access &= _ON_FILES
            rule = _buffer(struct.pack("<Qi", access, place))
            system_call(_ADD, self._descriptor, 1, rule, 0)
        finally:
            os.close(place)


def _buffer(data: bytes) -> "ctypes.Array[ctypes.c_char]":
    return ctypes.create_string_buffer(data, len(data))


# Namespaces are more than a confined program needs: the filter of system calls and Landlock hold
# without them. Processes of a process namespace end, all of them, with its first one.

_OTHERS, _USERS = 0x00020000 | 0x08000000 | 0x20000000 | 0x40000000, 0x10000000
"""Namespaces of mounts, IPC, processes and the network; those of users."""
_NO_SUID, _NO_DEVICES, _NO_EXECUTION = 2, 4, 8
_RECURSIVE, _PRIVATE = 0x4000, 0x40000


def leave_the_others() -> None:
    """Move the caller into its own namespaces; the next child is the first process in one."""
    user, group = os.getuid(), os.getgid()
    try:
        unshare(_OTHERS)  # only root may without a user namespace
    except PermissionError:
        unshare(_OTHERS | _USERS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


class Scratch:
    """A directory in memory over one of the disk, seen only in this mount namespace.

    It holds at most ``size`` bytes, and as many ``entries``: files and directories.
    """

    def __init__(self, path: Path, *, size: int, entries: int) -> None:
        self.path = path
        self._options = f"size={size},nr_inodes={entries},mode=0777"
        mount("none", "/", "", _RECURSIVE | _PRIVATE, "")
        self._mount()

    def renew(self) -> None:
        """Replace it by an empty one, whatever is in it."""
        os.chdir("/")
        detach(str(self.path))
        self._mount()

    def _mount(self) -> None:
        flags = _NO_SUID | _NO_DEVICES | _NO_EXECUTION
        mount("tmpfs", str(self.path), "tmpfs", flags, self._options)
        os.chdir(self.path)


PARTS = ("system calls", "files", "namespaces")
"""Parts that a kernel may lack, and that tests leave out."""

_READABLE = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom")
_DEVICES = ("/dev/null", "/dev/zero")
_SCRATCH_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/mnt")
_CAPSET_VERSION, _DAC_READ_SEARCH = 0x20080522, 2
_FIRST_OTHER_USER, _OTHER_USERS = 1_900_000_000, 100_000


class Confinement:
    """Made in the process that forks the children, which ``enter`` it.

    ``separated`` is what ``separate`` returned before. ``number`` tells this confinement from
    others of the machine: root's children become a user of that number. ``without`` names parts
    that are left out, of PARTS.
    """

    def __init__(
        self, limits: ProcessLimits, *, separated: str, number: int, without: Collection[str] = ()
    ) -> None:
        self._limits = limits
        self.missing: list[str] = []
        self._scratch: Scratch | None = None
        self._rules: FileRules | None = None
        self._filter: SystemCallFilter | None = None
        self._user: int | None = None
        os.chdir("/")
        left_out = dict.fromkeys(without, "left out")
        self._make("namespaces", self._make_scratch, separated)
        self._make("files", self._make_rules, left_out.get("files", ""))
        self._make("system calls", self._make_filter, left_out.get("system calls", ""))
        if os.getuid() == 0:  # root's children are nobody, who reads Python by the file rules
            user = _FIRST_OTHER_USER + number % _OTHER_USERS
            unless = "" if self._rules is not None else "there are no file rules"
            self._make("a user other than root", lambda: self._change_user(user), unless)

    def enter(self, seconds: float, parent: int) -> None:
        """Confine the caller, a child with one thread, for the rest of its life."""
        os.setsid()
        if self._user is not None:
            _become(self._user)
        _drop_capabilities(keep_reading=self._user is not None)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        apply_limits(self._limits, seconds=seconds, threads=self._threads())
        if self._rules is not None:
            self._rules.restrict()
        if self._filter is not None:
            self._filter.install()

    def _threads(self) -> int | None:
        """The limit of the user's processes and threads, None where others would be counted too.

        Without the filter there may be no thread, because there must be no process.
        """
        if self._filter is None:
            return 0
        # Linux counts a namespace's processes apart from 5.14 on; Landlock is younger.
        apart = None not in (self._scratch, self._rules) and os.getuid() != 0
        return self._limits.threads if apart or self._user is not None else None

    def clean(self) -> None:
        if self._scratch is None or not any(self._scratch.path.iterdir()):
            return
        self._scratch.renew()
        if self._rules is not None:
            self._rules.close()
            self._make_rules()

    def _make(self, part: str, make: Callable[[], None], unless: str) -> None:
        """Make a part, or note why it is missing; ``unless`` is a reason not to try."""
        try:
            if unless:
                raise OSError(unless)
            make()
        except OSError as error:
            self.missing.append(f"{part} ({error.strerror or error})")

    def _make_scratch(self) -> None:
        place = _scratch_place()
        self._scratch = Scratch(place, size=self._limits.file_bytes, entries=self._limits.files)
        os.environ["TMPDIR"] = str(place)

    def _make_filter(self) -> None:
        made = SystemCallFilter(writes=self._rules is not None)
        _try_in_a_child(made.install)
        self._filter = made

    def _change_user(self, user: int) -> None:
        _try_in_a_child(lambda: _become(user))
        self._user = user

    def _make_rules(self) -> None:
        python = {sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_path("stdlib")}
        readable = [Path(each) for each in (*_READABLE, *sorted(python))]
        writable = [Path(each) for each in _DEVICES]
        if self._scratch is not None:
            writable.append(self._scratch.path)
        self._rules = FileRules(readable=readable, writable=writable)


def _scratch_place() -> Path:
    """A directory that the interpreter can do without."""
    needed = [Path(each).resolve() for each in (sys.prefix, sys.base_prefix, *sys.path) if each]
    for name in _SCRATCH_PLACES:
        place = Path(name).resolve()
        if place.is_dir() and not any(each.is_relative_to(place) for each in needed):
            return place
    raise OSError(f"Python is in each of {', '.join(_SCRATCH_PLACES)}")


def separate(without: Collection[str] = ()) -> str:
    """Leave the other processes; '' or the reason why not."""
    if "namespaces" in without:
        return "left out"
    try:
        _try_in_a_child(leave_the_others)  # half of it would be worse than nothing
        leave_the_others()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _try_in_a_child(action: Callable[[], None]) -> None:
    """Try in a child process what cannot be undone, and raise the error that the kernel gives."""
    child = os.fork()
    if child == 0:
        try:
            action()
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(abs(code), os.strerror(abs(code)))


def _become(user: int) -> None:
    """Be another user, who owns nothing, but still may read where the file rules allow it."""
    kernel.prctl(kernel.PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _drop_capabilities(*, keep_reading: bool) -> None:
    """Give up all privileges, for good; ``keep_reading`` keeps that of reading any file."""
    kept = 1 << _DAC_READ_SEARCH if keep_reading else 0
    header = ctypes.create_string_buffer(struct.pack("<Ii", _CAPSET_VERSION, 0), 8)
    sets = struct.pack("<6I", kept, kept, 0, 0, 0, 0)
    kernel.capset(header, ctypes.create_string_buffer(sets, len(sets)))


_LARGEST = 65536
_DESCRIPTORS = 65536
_WELL_USED = (
    *("bisect", "collections", "copy", "dataclasses", "functools", "heapq", "itertools"),
    *("math", "operator", "random", "re", "string", "typing"),
)
"""Loaded once for all programs. More would cost each of them more than it saves a few."""

ROLES = MappingProxyType({"program": run_program, "judge": run_judge})


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    hello = json.loads(control.recv(_LARGEST))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    without = hello["without"]
    number = os.getpid()
    separated = separate(without)
    parent = os.getppid()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    if not separated:  # continue as the first process of the namespace, for which this one waits
        if child := os.fork():
            os.waitpid(child, 0)
            os._exit(0)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    for name in _WELL_USED:
        import_module(name)
    _forget_the_harness()
    for name in hello["preload"]:
        with contextlib.suppress(ImportError):  # a program that imports it is told
            import_module(name)
    limits = ProcessLimits(**hello["limits"])
    confinement = Confinement(limits, separated=separated, number=number, without=without)
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"missing": confinement.missing}).encode())
    ProgramForks(control, confinement, first=not separated and os.getpid() == 1).serve()


def _forget_the_harness() -> None:
    """Programs find Python's own modules and those installed, not what the parent's path has."""
    prefixes = tuple({sys.prefix, sys.base_prefix})
    sys.path[:] = [entry for entry in sys.path if entry.startswith(prefixes)]
    sys.path_importer_cache.clear()
    sys.argv[:] = [""]
    os.environ.clear()
    os.environ.update({"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"})
    os.environ["OPENBLAS_NUM_THREADS"] = "1"


class ProgramForks(ForkServer):
    """Forks confined processes, and ends all that they leave."""

    def __init__(self, control: socket.socket, confinement: Confinement, *, first: bool) -> None:
        super().__init__(control, self._play_role)
        self._confinement = confinement
        self._pid = os.getpid()
        self._first = first

    def serve(self) -> None:
        """Answer until the parent is gone, and let nothing outlive that."""
        super().serve()
        self._clear()

    def answer(self, message: Mapping[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """As every zygote, and ``end`` and ``clear``."""
        if "end" in message:
            status = self.wait(message["end"], message["seconds"])
            self._clear()
            return {"status": status}
        if "clear" in message:
            return {"status": self._clear()}
        return super().answer(message, descriptors)

    def _play_role(self, message: Mapping[str, Any], descriptors: list[int]) -> NoReturn:
        """Keep nothing but these descriptors, as 3, 4 ..., then play the role to its end."""
        code = 70
        try:
            high = [os.dup2(each, 100 + place) for place, each in enumerate(descriptors)]
            own = [os.dup2(each, 3 + place) for place, each in enumerate(high)]
            self._confinement.enter(message["seconds"], self._pid)
            os.closerange(3 + len(own), _DESCRIPTORS)
            os.dup2(0, 2)  # the parent's, until here
            ROLES[message["start"]](own)
            code = 0
        except BaseException as error:  # noqa: BLE001 - nothing may run after this function
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        finally:
            os._exit(code)

    def _clear(self) -> dict[int, int]:
        """End the children, and theirs, which come to be ours; then what they wrote."""
        for pid in list(self.running):
            _kill(pid)
            self.reap(pid)
        while orphans := self._others():
            for pid in orphans:
                _kill(pid)
            self._reap_orphans()
        self._confinement.clean()
        ended, self.ended = self.ended, {}
        return ended

    def _others(self) -> list[int]:
        """Children that this process did not start: none where the filter is in force.

        In a process namespace ``-1`` stands for all that are in it but this one, its first.
        """
        self._reap_orphans()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return []
        if self._first:
            return [-1]
        children = Path(f"/proc/self/task/{self._pid}/children")
        return [int(each) for each in children.read_text().split()]

    def _reap_orphans(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


def _kill(pid: int) -> None:
    """End a process, which may be ending by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
