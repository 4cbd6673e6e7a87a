"""Seconds of tasks, by a clock that moves by hand."""

from contextlib import contextmanager

import pytest

from dph.runs.progress import TimedProgress


class Told:
    """A display that keeps what it is told."""

    def __init__(self):
        self.lines = []

    @contextmanager
    def task(self, title, total, unit):
        self.lines.append((title, total, unit))
        yield lambda amount, note: self.lines.append((amount, note))

    def say(self, text):
        self.lines.append(text)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_every_task_is_passed_on_and_its_seconds_kept():
    told, clock = Told(), Clock()
    timed = TimedProgress(told, prefix="forecast: ", clock=clock)
    for seconds in (2.0, 3.0):
        clock.now += 100.0  # between tasks: no part of them
        with timed.task("store after", 4, "samples") as advance:
            clock.now += seconds
            advance(4, "done")
    timed.say("a word")
    assert timed.seconds == {"store after": 5.0}
    begun = ("forecast: store after", 4, "samples")
    assert told.lines == [begun, (4, "done"), begun, (4, "done"), "a word"]


def test_a_task_that_failed_has_no_seconds():
    timed = TimedProgress(Told())
    with pytest.raises(ValueError, match="broken"), timed.task("store after", 4, "samples"):
        raise ValueError("broken")
    assert timed.seconds == {}
