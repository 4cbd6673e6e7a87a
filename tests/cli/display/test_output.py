import io
import json
import os
import subprocess
import sys
import termios
from collections import Counter

import numpy as np
import pytest
from rich.table import Table

from dph.cli.display.comparison import diagnosis_text
from dph.cli.display.output import (
    SECONDS_BETWEEN_LINES,
    Bars,
    Lines,
    Meter,
    json_text,
    open_progress,
    table_text,
)
from dph.cli.display.shown_problems import pager_command, show_text
from dph.results.diagnosis.run_diagnosis import diagnose
from results.diagnosis.models import a_model, samples_of, save_evaluation


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


LONG = "".join(f"line {number}\n" for number in range(100))
SHORT = "one\ntwo\n"
ENDS = ("stdin", "stdout")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def paged(tmp_path, monkeypatch):
    """A ``less`` that notes its words and what it is given, and terminals on both ends."""
    less = tmp_path / "less"
    less.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncat > {tmp_path}/in\n')
    less.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("PAGER", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def shown(text, *, wanted=True, without=""):
        """What the pager was given, and what was printed."""
        ends = {name: io.StringIO() if name == without else Terminal() for name in ENDS}
        with monkeypatch.context() as here:
            for name, end in ends.items():
                here.setattr(sys, name, end)
            show_text(text, height=24, pager=wanted)
        got = tmp_path / "in"
        return got.read_text() if got.exists() else None, ends["stdout"].getvalue()

    return shown


def test_a_text_longer_than_the_screen_goes_through_less(paged, tmp_path):
    assert paged(LONG) == (LONG, "")
    assert (tmp_path / "words").read_text() == "-FRX\n"


@pytest.mark.parametrize("without", ENDS)
def test_without_a_terminal_on_both_ends_nothing_waits(paged, without):
    assert paged(LONG, without=without) == (None, LONG)


def test_what_fits_the_screen_needs_no_pager_or_cannot_have_one_is_printed(
    paged, monkeypatch, tmp_path
):
    assert paged(SHORT) == (None, SHORT)
    assert paged(LONG, wanted=False) == (None, LONG)
    for pager in ("no-such-pager -x", str(tmp_path)):
        monkeypatch.setenv("PAGER", pager)
        assert paged(LONG) == (None, LONG)
    monkeypatch.delenv("PAGER")
    monkeypatch.setenv("TERM", "dumb")  # which cannot move its cursor
    assert paged(LONG) == (None, LONG)


@pytest.mark.parametrize(
    ("pager", "command"),
    [
        (None, ["less", "-FRX"]),
        ("less", ["less", "-FRX"]),
        ("/usr/bin/less -S", ["/usr/bin/less", "-S", "-FRX"]),
        ("more -e", ["more", "-e"]),
        ("", None),
        ("  ", None),
        ("cat", None),
        ("less 'unclosed", None),
    ],
)
def test_the_pager_is_that_of_the_environment(monkeypatch, pager, command):
    if pager is None:
        monkeypatch.delenv("PAGER", raising=False)
    else:
        monkeypatch.setenv("PAGER", pager)
    assert pager_command() == command


def test_a_pager_that_is_left_early_is_no_error(paged, tmp_path):
    (tmp_path / "less").write_text("#!/bin/sh\nexit 0\n")
    assert paged("x" * 2**20 + "\n" * 30)[1] == ""


def test_less_ends_by_itself_on_a_terminal_where_nobody_types_if_all_fits():
    program = (
        "from dph.cli.display.shown_problems import show_text; show_text('a\\n' * 50, height=24)"
    )
    mine, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (90, 80))
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm"}
    command = [sys.executable, "-c", program]
    ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, env=environment, start_new_session=True, **ends) as process:
        os.close(theirs)
        assert process.wait(30) == 0
    assert os.read(mine, 4096).count(b"a") == 50
    os.close(mine)


@pytest.fixture
def found(tmp_path):
    """Forty problems of which the first two were lost, the third gained."""
    style, right = a_model(40).drawn(16, 0)
    before, after = right.copy(), right.copy()
    before[:2], after[:2] = True, False
    before[2], after[2] = False, True
    return diagnose(
        save_evaluation(tmp_path / "run", samples_of(style, after)),
        save_evaluation(tmp_path / "base", samples_of(style, before)),
    )


def rows(text, start):
    return [line.split() for line in text.splitlines() if line.startswith(start)]


def test_problems_stand_with_their_counts_and_the_difference_in_points(found):
    text = diagnosis_text(found, most=10)
    assert [row[:3] for row in rows(text, "p0")] == [
        ["p0000", "16/16", "0/16"],
        ["p0001", "16/16", "0/16"],
        ["p0002", "0/16", "16/16"],
        ["p0000", "16/16", "0/16"],  # the baseline alone solved these
        ["p0001", "16/16", "0/16"],
    ]
    assert "-100.0 [-100.0, -72.6]" in text
    assert "lost: 2 of 2" in text
    assert "gained: 1 of 1" in text
    assert "Levels of the lists: 0.01 (lost)" in text.split("\n\n")[-1]
    one = found.sets["dev"].pass_at_k[8]
    (row,) = rows(text, "pass@8")
    assert float(row[3]) == pytest.approx(100 * one.parts["total"].mean, abs=0.05)
    assert np.isclose(float(row[1]), 100 * one.baseline, atol=0.05)


@pytest.mark.parametrize("width", [50, 110])
def test_no_line_is_longer_than_the_terminal_and_nothing_is_left_out(found, width):
    whole, narrow = (diagnosis_text(found, most=10, width=w) for w in (None, width))
    # Where something lies is one word and is not broken.
    start = f"{found.run} against {found.baseline}"
    lines = [line for line in narrow.removeprefix(start).splitlines() if "/" not in line]
    assert max(map(len, lines)) <= width
    assert max(map(len, whole.removeprefix(start).splitlines())) > width
    words = [Counter(text.replace("─", "").split()) for text in (whole, narrow)]
    assert not words[0] - words[1]  # titles stand once for each row where a table is lists
