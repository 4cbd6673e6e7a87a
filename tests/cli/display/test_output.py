import io
import json

import pytest
from rich.table import Table

from dph.cli.display.output import (
    SECONDS_BETWEEN_LINES,
    Bars,
    Lines,
    Meter,
    json_text,
    open_progress,
    table_text,
)


def test_json_is_one_document_without_nan():
    assert json.loads(json_text({"ä": 1})) == {"ä": 1}
    with pytest.raises(ValueError, match="Out of range"):
        json_text(float("nan"))


def test_a_table_is_never_cut_to_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    table = Table(*(f"column {i}" for i in range(9)))
    table.add_row(*("0123456789" for _ in range(9)))
    assert table_text(table).count("0123456789") == 9


def test_names_are_printed_as_they_are_and_lines_end_without_blanks():
    table = Table("run x[kl=0.1]", "[/data/x]", "b", box=None)
    table.add_row("p[/data/y]", ":fire:", "")
    shown = table_text(table)
    assert all(name in shown for name in ("run x[kl=0.1]", "[/data/x]", "p[/data/y]", ":fire:"))
    assert not any(line.endswith(" ") for line in shown.splitlines())


def test_a_caption_is_not_wrapped_at_the_width_of_its_table():
    table = Table("a", caption="one line of several words")
    table.add_row("1")
    assert table_text(table).endswith("\n\none line of several words")


def test_the_rate_is_units_over_seconds_without_what_a_continued_run_has_already(clock):
    meter = Meter(total=10, clock=clock)
    meter.advance(6)
    assert (meter.rate, meter.seconds_left) == (None, None)
    clock.now += 2.0
    meter.advance(2)
    assert (meter.done, meter.rate, meter.seconds_left, meter.seconds) == (8, 1.0, 2.0, 2.0)
    meter.advance(4)  # more than the total
    assert meter.seconds_left == 0.0


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


def test_a_terminal_gets_bars_with_rate_and_time_left_side_by_side(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    display = Bars()
    with display.task("one", 4, "steps") as one, display.task("two", 5, "rows") as two:
        one(4, "reward [0.5]")
        two(5, "")
    with display.task("three", 1, "steps") as three:
        three(1, "")
    display.say("done [x]")
    err = capsys.readouterr().err
    for text in ("one", "4/4 steps in", "5/5 rows in", "1/1 steps in", "reward [0.5]", "done [x]"):
        assert text in err


def test_the_display_fits_stderr(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(open_progress(), Lines)
    monkeypatch.setattr("sys.stderr", Terminal())
    assert isinstance(open_progress(), Bars)
