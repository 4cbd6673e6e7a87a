"""Which files a process may read and write (Landlock, Linux 6.2 or newer): needs no privilege.

Outside the directories given nothing can be opened, made, renamed or removed. Where the kernel
knows more (6.7, 6.12), TCP and signals to processes outside are refused, too.
"""

import ctypes
import fcntl
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from dph._processes.sandbox.kernel import system_call

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

    Args:
        readable: files and directories that may be read and mapped.
        writable: files and directories in which everything may be done. What does not exist in
            either is left out.

    Raises:
        OSError: the kernel has no Landlock, or one that is too old.
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
        # Out of the way of descriptors that a child puts in places of its own.
        self._descriptor = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _HIGH)
        os.close(made)
        for path in readable:
            self._allow(path, _EXECUTE | _READ_FILE | _READ_DIR)
        for path in writable:
            self._allow(path, _ALL_OF_VERSION_3)

    def restrict(self) -> None:
        """Put the caller under the rules, for good. NO_NEW_PRIVS is set.

        Raises:
            OSError: the kernel refuses.
        """
        system_call(_RESTRICT, self._descriptor, 0)

    def close(self) -> None:
        """Let go of the rules."""
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
