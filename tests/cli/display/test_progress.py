import io

import pytest

from dph.cli.display.output import SECONDS_BETWEEN_LINES, Bars, Lines, open_progress


def test_a_quick_task_is_one_line(clock):
    stream = io.StringIO()
    with Lines(stream, clock=clock).task("training grpo", 3, "steps") as advance:
        for _ in range(3):
            clock.now += 1
            advance(1, "reward 0.50")
    assert stream.getvalue() == "training grpo: 3/3 steps in 3.0 s (reward 0.50)\n"


def test_a_long_task_is_heard_of_every_half_minute(clock):
    stream = io.StringIO()
    with Lines(stream, clock=clock).task("pre-sampling", 120, "samples") as advance:
        for _ in range(120):
            clock.now += 1
            advance(1, "")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 120 / SECONDS_BETWEEN_LINES + 1
    assert lines[0] == "pre-sampling: 30/120 samples, 1/s, 1 min 30 s left"


def test_a_failed_task_does_not_claim_its_end(clock):
    stream = io.StringIO()
    with pytest.raises(ValueError, match="no"), Lines(stream, clock=clock).task("t", 3, "u"):
        raise ValueError("no")
    assert stream.getvalue() == ""


def test_a_terminal_gets_a_bar_with_rate_and_time_left(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    display = Bars()
    with display.task("pre-sampling", 4, "samples") as advance:
        advance(4, "reward [0.5]")
    display.say("done [x]")
    err = capsys.readouterr().err
    assert "pre-sampling" in err
    assert "4/4 samples in" in err
    assert "reward [0.5]" in err
    assert "done [x]" in err


def test_tasks_that_are_open_at_a_time_share_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    display = Bars()
    with display.task("one", 4, "steps") as one, display.task("two", 5, "rows") as two:
        one(4, "")
        two(5, "")
    with display.task("three", 1, "steps") as three:
        three(1, "")
    err = capsys.readouterr().err
    for text in ("4/4 steps in", "5/5 rows in", "1/1 steps in"):
        assert text in err


def test_the_display_fits_stderr(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(open_progress(), Lines)
    monkeypatch.setattr("sys.stderr", Terminal())
    assert isinstance(open_progress(), Bars)


def test_a_step_with_its_metrics_fits_eighty_columns(clock, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("dph.cli.display.output.SECONDS_BETWEEN_LINES", 1.0)
    with Lines(stream, clock=clock).task("training dph_f", 120, "steps") as advance:
        for _ in range(40):
            clock.now += 12.5
            advance(1, "reward 0.81, styles 4.3")
    lines = stream.getvalue().splitlines()
    assert lines[11] == (
        "training dph_f: 12/120 steps, 0.08/s, 22 min 30 s left (reward 0.81, styles 4.3)"
    )
    assert max(map(len, lines)) <= 80
