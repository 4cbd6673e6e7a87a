"""A filter on system calls (seccomp): what is not listed is refused with EPERM.

It stands for the caller and all its threads, cannot be taken off again, and needs no privilege. A
program under it can start threads but no process, has no network, cannot send a signal to another
process or look into one, and cannot change its own limits.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterable

from dph._processes.sandbox.kernel import PR_SET_SECCOMP, prctl
from dph._processes.sandbox.system_calls import ALLOWED, CHECKED, WRITING

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column in the tables of numbers, and AUDIT_ARCH."""

_LOAD, _EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_CLONE_THREAD, _CLONE_NEW = 0x00010000, 0x7E020080
_WRITE_FLAGS = 0o3 | 0o100 | 0o1000 | 0o20000000
"""O_ACCMODE (O_RDONLY is 0), O_CREAT, O_TRUNC, O_TMPFILE without O_DIRECTORY."""
_IOCTLS = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS (isatty), FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 1024, 1025, 1030, 1031, 1032, 1033, 1034)
"""Duplicates, flags, locks, sizes of pipes, seals; not F_SETOWN, which sends signals."""
_PRCTLS = (15, 16)
"""PR_SET_NAME, PR_GET_NAME."""
_OWN_PID = 0x0BADF00D
_OWN_PID_BYTES = struct.pack("<I", _OWN_PID)


class SystemCallFilter:
    """The filter's program, made once and installed in any number of processes.

    Args:
        writes: whether files may be opened for writing and directories changed; if so, something
            else has to say which.

    Raises:
        OSError: no filter is known for this machine's architecture.
    """

    def __init__(self, *, writes: bool) -> None:
        machine = os.uname().machine
        if machine not in _ARCHITECTURES:
            raise OSError(errno.ENOSYS, f"no filter of system calls for {machine}")
        self._column, architecture = _ARCHITECTURES[machine]
        lines = [_statement(_LOAD, _ARCHITECTURE), _jump(architecture, 1, 0), _return(_KILL)]
        lines.append(_statement(_LOAD, _NUMBER))
        for numbers in (*ALLOWED.values(), *(WRITING.values() if writes else ())):
            lines += self._case(numbers, [_return(_ALLOW)])
        for name, check in _checks(writes).items():
            lines += self._case(CHECKED[name], check)
        lines.append(_return(_ERRNO | errno.EPERM))
        self._program = b"".join(lines)

    def install(self, pid: int) -> None:
        """Put the caller, whose process id is ``pid``, under the filter. NO_NEW_PRIVS is set.

        Raises:
            OSError: the kernel has no seccomp filters, or refuses one.
        """
        program = self._program.replace(_OWN_PID_BYTES, struct.pack("<I", pid))
        code = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
        address = ctypes.create_string_buffer(header, len(header))
        prctl(PR_SET_SECCOMP, 2, ctypes.addressof(address))

    def _case(self, numbers: tuple[int | None, int | None], then: list[bytes]) -> list[bytes]:
        """Run ``then``, which ends in a return, if this is the call."""
        number = numbers[self._column]
        return [] if number is None else [_jump(number, 0, len(then)), *then]


def _checks(writes: bool) -> dict[str, list[bytes]]:
    absent, refused = [_return(_ERRNO | errno.ENOSYS)], _ERRNO | errno.EPERM
    opening = [_return(_ALLOW)]
    return {
        "open": opening if writes else _masked(1, _WRITE_FLAGS, 0, refused),
        "openat": opening if writes else _masked(2, _WRITE_FLAGS, 0, refused),
        "ioctl": _one_of(1, _IOCTLS, _ERRNO | errno.ENOTTY),
        "fcntl": _one_of(1, _FCNTLS, refused),
        "prctl": _one_of(0, _PRCTLS, refused),
        "prlimit64": _one_of(0, (0,), refused),
        # Threads only. pthread_create falls back from clone3, whose flags no filter can see.
        "clone": _masked(0, _CLONE_THREAD | _CLONE_NEW, _CLONE_THREAD, refused),
        "clone3": absent,
        "openat2": absent,
        "tgkill": _one_of(0, (_OWN_PID,), refused),
        # Streams, for event loops: a datagram socket could be sent from to any address.
        "socketpair": _masked(1, 0xF, 1, refused),
    }


def _one_of(argument: int, values: Iterable[int], otherwise: int) -> list[bytes]:
    """Allow the call if the lower half of an argument is one of these."""
    lines = [_statement(_LOAD, _ARGUMENTS + 8 * argument)]
    for value in values:
        lines += [_jump(value, 0, 1), _return(_ALLOW)]
    return [*lines, _return(otherwise)]


def _masked(argument: int, mask: int, value: int, otherwise: int) -> list[bytes]:
    """Allow the call if these bits of an argument have this value."""
    lines = [_statement(_LOAD, _ARGUMENTS + 8 * argument), _statement(_AND, mask)]
    return [*lines, _jump(value, 0, 1), _return(_ALLOW), _return(otherwise)]


def _statement(code: int, value: int) -> bytes:
    return struct.pack("<HBBI", code, 0, 0, value)


def _jump(value: int, if_equal: int, otherwise: int) -> bytes:
    return struct.pack("<HBBI", _EQUAL, if_equal, otherwise, value)


def _return(value: int) -> bytes:
    return _statement(_RETURN, value)
