"""Messages between two processes: a length in eight bytes, then JSON."""

import json
import os
import struct
from typing import Any

_HEADER = struct.Struct("<Q")
_READ = 1 << 20
LARGEST_MESSAGE = 32_000_000


class ChannelClosedError(Exception):
    """The other side is gone."""


class ChannelBrokenError(Exception):
    """What came over is no message, or is too long."""


def read_document(descriptor: int) -> Any:
    """The JSON of a file that a process was started with."""
    with open(descriptor, encoding="utf-8", errors="surrogatepass") as file:
        return json.load(file)


class Channel:
    """One end of a connection that no other process has."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: Any) -> None:
        """Write a message.

        Raises:
            ChannelClosedError: nobody reads it.
            ChannelBrokenError: it is too long.
        """
        data = json.dumps(message).encode("ascii")
        if len(data) > LARGEST_MESSAGE:
            raise ChannelBrokenError(f"a message of {len(data)} bytes, {LARGEST_MESSAGE} allowed")
        view = memoryview(_HEADER.pack(len(data)) + data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosedError from error

    def receive(self) -> Any:
        """Read a message.

        Raises:
            ChannelClosedError: there is none any more.
            ChannelBrokenError: it is no JSON, or too long.
        """
        (size,) = _HEADER.unpack(self._read(_HEADER.size))
        if size > LARGEST_MESSAGE:
            raise ChannelBrokenError(f"a message of {size} bytes, {LARGEST_MESSAGE} allowed")
        data = self._read(size)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ChannelBrokenError(f"no JSON: {type(error).__name__}") from error

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = os.read(self._descriptor, min(size, _READ))
            except ConnectionResetError as error:
                raise ChannelClosedError from error
            if not part:
                raise ChannelClosedError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)
