import io
from contextlib import contextmanager

import pytest

from dph.runs.progress import ShownProgress, ToldProgress, warn_of_slow_grading


class Noted:
    def __init__(self):
        self.events = []

    @contextmanager
    def task(self, title, total, unit):
        self.events.append(("begin", title, total, unit))
        yield lambda amount, note: self.events.append((title, amount, note))
        self.events.append(("end", title))

    def say(self, text):
        self.events.append(("say", text))


def told(act):
    stream = io.StringIO()
    act(ToldProgress(stream))
    return stream.getvalue().splitlines()


def two_tasks(progress):
    with progress.task("outer", 2, "steps") as outer:
        outer(1, "")
        with progress.task("inner", 3, "rows") as inner:
            inner(3, 'a "note"')
        outer(1, "done")
    progress.say("ready")


def test_the_display_of_the_parent_sees_what_the_childs_would_have_seen():
    there, here = Noted(), Noted()
    two_tasks(there)
    shown = ShownProgress(here)
    for line in told(two_tasks):
        shown.line("child", line)
    assert here.events == there.events


def test_children_are_kept_apart_and_other_output_is_passed_over():
    display = Noted()
    shown = ShownProgress(display)

    def one(progress):
        with progress.task("t", 1, "u") as advance:
            advance(1, "")

    lines = told(one)
    for line in ("a warning", "3", *lines[:1]):
        shown.line("a", line)
    for line in lines:
        shown.line("b", line)
    for line in lines[1:]:
        shown.line("a", line)
    assert display.events.count(("begin", "t", 1, "u")) == 2
    assert display.events.count(("t", 1, "")) == 2
    assert display.events.count(("end", "t")) == 2


def test_a_task_of_a_child_that_was_killed_is_taken_away_without_claiming_its_end():
    display = Noted()
    shown = ShownProgress(display)
    shown.line("a", told(two_tasks)[0])
    shown.close()
    assert display.events == [("begin", "outer", 2, "steps")]
    shown.close()


@pytest.mark.parametrize(
    ("grading", "step", "told"),
    [(12.1, 16.6, True), (8.2, 16.6, False), (0.9, 1.0, False), (0.0, 0.0, False)],
)
def test_grading_is_told_if_a_step_waits_for_it_most_of_the_time(grading, step, told):
    display = Noted()
    assert warn_of_slow_grading(display, grading, step, workers=2) is told
    assert len(display.events) == told
    if told:
        assert "takes 12.1 of the 16.6 s of a step" in display.events[0][1]
        assert "data.verifier_workers = 2" in display.events[0][1]
