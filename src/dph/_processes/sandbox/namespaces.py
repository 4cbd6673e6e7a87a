"""Namespaces of one's own: no network, no view of other processes, a private /tmp in memory.

Each of these is more than a confined program needs: the filter of system calls and Landlock hold
without them. Processes of a process namespace end, all of them, with its first one.
"""

import os
from pathlib import Path

from dph._processes.sandbox.kernel import detach, mount, unshare

_MOUNTS, _IPC, _USERS, _PROCESSES, _NETWORK = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_OTHERS = _MOUNTS | _IPC | _PROCESSES | _NETWORK
_NO_SUID, _NO_DEVICES, _NO_EXECUTION = 2, 4, 8
_RECURSIVE, _PRIVATE = 0x4000, 0x40000


def leave_the_others() -> None:
    """Move the caller into namespaces of its own; the next child is the first process in one.

    Raises:
        OSError: the kernel or the machine's settings do not allow it.
    """
    user, group = os.getuid(), os.getgid()
    try:
        unshare(_OTHERS)  # as root; nobody else may without users of their own
    except PermissionError:
        unshare(_OTHERS | _USERS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


class Scratch:
    """A directory in memory over one of the disk, seen in this mount namespace alone.

    Args:
        path: the directory, which is there.
        size: bytes that it holds at most.
        entries: files and directories in it, at most.

    Raises:
        OSError: nothing may be mounted.
    """

    def __init__(self, path: Path, *, size: int, entries: int) -> None:
        self.path = path
        self._options = f"size={size},nr_inodes={entries},mode=0777"
        mount("none", "/", "", _RECURSIVE | _PRIVATE, "")
        self._mount()

    def is_clean(self) -> bool:
        """Whether nothing was left in it."""
        return not any(self.path.iterdir())

    def renew(self) -> None:
        """Replace it by an empty one, whatever is in it.

        Raises:
            OSError: the kernel refuses.
        """
        os.chdir("/")
        detach(str(self.path))
        self._mount()

    def _mount(self) -> None:
        flags = _NO_SUID | _NO_DEVICES | _NO_EXECUTION
        mount("tmpfs", str(self.path), "tmpfs", flags, self._options)
        os.chdir(self.path)
