"""Calls into the C library that Python's standard library does not offer. Linux alone."""

import ctypes
import os

_library = ctypes.CDLL(None, use_errno=True)
_syscall = _library.syscall
_syscall.restype = ctypes.c_long

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_KEEPCAPS = 1, 4, 8
PR_SET_SECCOMP, PR_CAPBSET_DROP = 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47


def system_call(number: int, *arguments: "int | ctypes.Array[ctypes.c_char]") -> int:
    """The result of a system call; buffers are passed by address.

    Raises:
        OSError: the kernel refused it.
    """
    values = [
        ctypes.c_long(each) if isinstance(each, int) else ctypes.c_void_p(ctypes.addressof(each))
        for each in arguments
    ]
    result: int = _syscall(ctypes.c_long(number), *values)
    if result == -1:
        raise _last_error()
    return result


def prctl(option: int, *arguments: int) -> None:
    """``prctl(2)``; arguments that are not given are 0.

    Raises:
        OSError: the kernel refused it.
    """
    values = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    if _library.prctl(ctypes.c_int(option), *values) == -1:
        raise _last_error()


def capset(header: "ctypes.Array[ctypes.c_char]", sets: "ctypes.Array[ctypes.c_char]") -> None:
    """``capset(2)`` of the caller.

    Raises:
        OSError: the kernel refused it.
    """
    if _library.capset(header, sets) == -1:
        raise _last_error()


def unshare(flags: int) -> None:
    """``unshare(2)``.

    Raises:
        OSError: the kernel refused it.
    """
    if _library.unshare(ctypes.c_int(flags)) == -1:
        raise _last_error()


def mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    """``mount(2)``.

    Raises:
        OSError: the kernel refused it.
    """
    texts = [ctypes.c_char_p(os.fsencode(each)) for each in (source, target, kind, options)]
    if _library.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]) == -1:
        raise _last_error()


def detach(target: str) -> None:
    """Take a file system out of the tree (``umount2`` with ``MNT_DETACH``).

    Raises:
        OSError: the kernel refused it.
    """
    if _library.umount2(ctypes.c_char_p(os.fsencode(target)), ctypes.c_int(2)) == -1:
        raise _last_error()


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
