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

# Numbers from the kernel's tables for x86_64 (``asm/unistd_64.h``) and aarch64
# (``asm-generic/unistd.h``), in this order; None where an architecture does not have the call.
# All others are refused.

# fmt: off
ALLOWED = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70), "lseek": (8, 62),
    "close": (3, 57), "close_range": (436, 436), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59), "fstat": (5, 80),
    "newfstatat": (262, 79), "stat": (4, None), "lstat": (6, None), "statx": (332, 291),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getcwd": (79, 17), "chdir": (80, 49),
    "fchdir": (81, 50), "getdents64": (217, 61), "getdents": (78, None), "statfs": (137, 43),
    "fstatfs": (138, 44), "ftruncate": (77, 46), "fsync": (74, 82), "fdatasync": (75, 83),
    "fadvise64": (221, 223), "flock": (73, 32), "umask": (95, 166), "mmap": (9, 222),
    "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226), "madvise": (28, 233),
    "msync": (26, 227), "brk": (12, 214), "mincore": (27, 232), "futex": (202, 98),
    "set_robust_list": (273, 99), "get_robust_list": (274, 100), "set_tid_address": (218, 96),
    "rseq": (334, 293), "membarrier": (324, 283), "arch_prctl": (158, None),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "alarm": (37, None),
    "setitimer": (38, 103), "getitimer": (36, 102), "pause": (34, None),
    "timerfd_create": (283, 85), "timerfd_settime": (286, 86), "timerfd_gettime": (287, 87),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "epoll_create": (213, None), "epoll_create1": (291, 20), "epoll_ctl": (233, 21),
    "epoll_wait": (232, None), "epoll_pwait": (281, 22), "eventfd2": (290, 19),
    "eventfd": (284, None), "sendto": (44, 206), "recvfrom": (45, 207), "sendmsg": (46, 211),
    "recvmsg": (47, 212), "shutdown": (48, 210), "getsockopt": (55, 209),
    "getsockname": (51, 204), "getpeername": (52, 205), "getpid": (39, 172), "gettid": (186, 178),
    "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177), "getgroups": (115, 158), "getresuid": (118, 148),
    "getresgid": (120, 150), "getpgrp": (111, None), "getpgid": (121, 155), "getsid": (124, 156),
    "uname": (63, 160), "sysinfo": (99, 179), "getrusage": (98, 165), "getcpu": (309, 168),
    "getrandom": (318, 278), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "sched_getparam": (143, 121), "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125), "sched_get_priority_min": (147, 126),
    "getpriority": (140, 141), "getrlimit": (97, 163), "wait4": (61, 260), "waitid": (247, 95),
    "exit": (60, 93), "exit_group": (231, 94),
}
"""Calls that touch only the caller: its descriptors, memory, threads, clocks, own signals."""

WRITING = {
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None),
    "unlinkat": (263, 35), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "symlink": (88, None), "symlinkat": (266, 36), "link": (86, None), "linkat": (265, 37),
}
"""Calls that change directories; allowed where Landlock limits them to some."""

CHECKED = {
    "open": (2, None), "openat": (257, 56), "ioctl": (16, 29), "fcntl": (72, 25),
    "prctl": (157, 167), "prlimit64": (302, 261), "clone": (56, 220), "tgkill": (234, 131),
    "clone3": (435, 435), "openat2": (437, 437), "socketpair": (53, 199),
}
"""Calls that their arguments decide on, or that are said not to exist."""
# fmt: on


_library = ctypes.CDLL(None, use_errno=True)
_syscall = _library.syscall
_syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS = 1, 4, 8
PR_SET_SECCOMP, PR_CAPBSET_DROP = 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47


def system_call(number: int, *arguments: "int | ctypes.Array[ctypes.c_char]") -> int:
    """The result of a system call; buffers are passed by address."""
    values = [
        ctypes.c_long(each) if isinstance(each, int) else ctypes.c_void_p(ctypes.addressof(each))
        for each in arguments
    ]
    return _checked(_syscall(ctypes.c_long(number), *values))


def prctl(option: int, *arguments: int) -> None:
    values = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    _checked(_library.prctl(ctypes.c_int(option), *values))


def capset(header: "ctypes.Array[ctypes.c_char]", sets: "ctypes.Array[ctypes.c_char]") -> None:
    _checked(_library.capset(header, sets))


def unshare(flags: int) -> None:
    _checked(_library.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    texts = [ctypes.c_char_p(os.fsencode(each)) for each in (source, target, kind, options)]
    _checked(_library.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]))


def detach(target: str) -> None:
    """Take a file system out of the tree (``umount2`` with ``MNT_DETACH``)."""
    _checked(_library.umount2(ctypes.c_char_p(os.fsencode(target)), ctypes.c_int(2)))


def _checked(result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


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

    With ``writes`` files may be opened for writing and directories changed: something else must
    say which.
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

    def install(self) -> None:
        """Put the caller under the filter, for good."""
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        program = self._program.replace(_OWN_PID_BYTES, struct.pack("<I", os.getpid()))
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
