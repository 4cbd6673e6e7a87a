import os
import socket
import threading

import pytest

from dph._processes.sandbox.supervisor import memory_file
from dph._processes.sandbox.values import (
    LARGEST_MESSAGE,
    Channel,
    ChannelBrokenError,
    ChannelClosedError,
    read_document,
)


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_messages_come_over_whole_and_in_order(ends):
    one, other = (Channel(end.fileno()) for end in ends)
    messages = [[], {"a": [None, 1.5, "\ud800"]}, "x" * 3_000_000]
    thread = threading.Thread(target=lambda: [one.send(message) for message in messages])
    thread.start()
    assert [other.receive() for _ in messages] == messages
    thread.join()


def test_an_end_is_told_from_a_broken_message(ends):
    one, other = ends
    channel = Channel(other.fileno())
    one.send((3).to_bytes(8, "little") + b"{]}")
    with pytest.raises(ChannelBrokenError, match="no JSON"):
        channel.receive()
    one.send((LARGEST_MESSAGE + 1).to_bytes(8, "little"))
    with pytest.raises(ChannelBrokenError, match="allowed"):
        channel.receive()
    one.send(b"\0\0\0")
    one.close()
    with pytest.raises(ChannelClosedError):
        channel.receive()
    with pytest.raises(ChannelClosedError):
        channel.send("x")


def test_a_message_that_is_too_long_is_not_sent(ends):
    with pytest.raises(ChannelBrokenError, match="32000000 allowed"):
        Channel(ends[0].fileno()).send("x" * LARGEST_MESSAGE)


def test_a_document_is_read_from_a_descriptor_that_nobody_can_change():
    descriptor = memory_file('{"a": "\ud800"}')
    with pytest.raises(PermissionError):
        os.write(descriptor, b"x")
    assert read_document(descriptor) == {"a": "\ud800"}
