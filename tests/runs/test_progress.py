"""Warnings while a run goes on: said where they are due, and not elsewhere."""

import pytest

from dph.runs.progress import Silent, warn_of_slow_grading


class Listener(Silent):
    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


@pytest.mark.parametrize(
    ("grading", "step", "told"),
    [(12.1, 16.6, True), (8.2, 16.6, False), (0.9, 1.0, False), (0.0, 0.0, False)],
)
def test_grading_is_told_if_a_step_waits_for_it_most_of_the_time(grading, step, told):
    listener = Listener()
    assert warn_of_slow_grading(listener, grading, step, workers=2) is told
    assert len(listener.said) == told
    if told:
        assert "takes 12.1 of the 16.6 s of a step" in listener.said[0]
        assert "data.verifier_workers = 2" in listener.said[0]
