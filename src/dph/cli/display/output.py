"""Output on stdout: one JSON document, or text."""

import io
import json
import os
import shutil
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from dph.results.charts.text_table import duration, visible
from dph.runs.progress import Advance, ProgressDisplay

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress
    from rich.table import Table


def quiet_libraries() -> None:
    """Silence progress bars and advice of transformers and torch, for this process."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", module=r"(torch|transformers|huggingface_hub)(\.|$)")
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None of a file or a pipe, which have none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(text: str, width: int | None, *, indent: str = "") -> str:
    """Text in lines of at most ``width`` columns, each after ``indent``; None: in one line.

    >>> print(wrapped("more than two draws of one model", 20, indent="  "))
      more than two
      draws of one model
    """
    whole = f"{indent}{text}"
    if width is None or len(whole) <= width:
        return whole
    wrapper = textwrap.TextWrapper(
        max(width, 20),  # below it nothing is narrowed
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return wrapper.fill(text)


def table_text(table: "Table", *, width: int | None = None) -> str:
    """A table at its natural width: a narrow terminal or a file must not cut numbers off.

    With a ``width`` a wider one has its cells and titles in several lines between words; where
    even that is too wide, each row is a list of titles and cells.
    """
    caption, table.caption = table.caption, None  # rich would wrap it at the table's width
    text = _printed(table)
    longest = max(map(len, text.splitlines()), default=0)
    if width is not None and longest > width:
        text = _narrowed(table, longest - width) or _as_lists(table, width)
    return f"{text}\n\n{wrapped(str(caption), width)}" if caption else text


def table_of(caption: str, titles: Iterable[str], rows: Iterable[Iterable[str]]) -> "Table":
    """A table without borders, none of whose columns is wrapped."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=caption)
    for title in titles:
        table.add_column(title, no_wrap=True)
    for row in rows:
        table.add_row(*map(visible, row))
    return table


def _narrowed(table: "Table", by: int) -> str | None:
    """The table with its widest columns narrowed; None where words would be broken."""
    texts = [[str(cell) for cell in (column.header, *column.cells)] for column in table.columns]
    widths = [max(map(len, column)) for column in texts]
    words = [max(len(word) for cell in column for word in [*cell.split(), ""]) for column in texts]
    for _ in range(by):
        free = [i for i, wide in enumerate(widths) if wide > words[i]]
        if not free:
            return None
        widths[max(free, key=widths.__getitem__)] -= 1
    for column, wide in zip(table.columns, widths, strict=True):
        column.no_wrap, column.width = False, wide
    return _printed(table)


def _as_lists(table: "Table", width: int) -> str:
    titles = [str(column.header) for column in table.columns]
    rows = zip(*(map(str, column.cells) for column in table.columns), strict=True)
    lists = (
        [wrapped(f"{title} {cell}".strip(), width) for title, cell in zip(titles, row, strict=True)]
        for row in rows
    )
    return "\n\n".join("\n".join(filter(None, lines)) for lines in lists)


def plain_text(*parts: "RenderableType", width: int = 400) -> str:
    """Texts and tables as a file has them: without colours and blanks at ends of lines."""
    from rich.console import Console

    stream = io.StringIO()
    console = Console(
        file=stream, width=width, highlight=False, no_color=True, markup=False, emoji=False
    )
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def _printed(table: "Table") -> str:
    return textwrap.dedent(plain_text(table)).strip("\n")


# How much is done, how fast it goes and how long it will take.

HEAD_START = 0.2
"""Seconds; steps that are reported within this time were done before: a continued run's share."""


@dataclass(slots=True, kw_only=True)
class Meter:
    """Counts the units of a task of ``total``."""

    total: int
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    _head_start: int = 0
    _started: float = field(init=False)
    _measured_since: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self._measured_since = self.clock()

    def advance(self, amount: int) -> None:
        now = self.clock()
        self.done += amount
        if now - self._started < HEAD_START:
            self._head_start, self._measured_since = self.done, now

    @property
    def seconds(self) -> float:
        return self.clock() - self._started

    @property
    def rate(self) -> float | None:
        """Units a second, or None before anything could be measured."""
        measured, passed = self.done - self._head_start, self.clock() - self._measured_since
        return measured / passed if measured > 0 and passed > 0 else None

    @property
    def seconds_left(self) -> float | None:
        rate = self.rate
        return max(self.total - self.done, 0) / rate if rate else None


SECONDS_BETWEEN_LINES = 30.0


def open_progress() -> ProgressDisplay:
    return Bars() if sys.stderr.isatty() else Lines(sys.stderr)


class Lines:
    """A line when a task begins to take long, every half minute then, and one at its end."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock

    @contextmanager
    def task(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        meter = Meter(total=total, clock=self._clock)
        last, note = self._clock(), ""

        def advance(amount: int, text: str) -> None:
            nonlocal last, note
            meter.advance(amount)
            note = text or note
            if self._clock() - last >= SECONDS_BETWEEN_LINES:
                last = self._clock()
                self.say(f"{title}: {meter.done}/{total} {unit}{_speed(meter)}{_tail(note)}")

        yield advance
        self.say(f"{title}: {meter.done}/{total} {unit} in {duration(meter.seconds)}{_tail(note)}")

    def say(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class Bars:
    """A bar with the rate and the time left, by rich; several tasks may be open at a time."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False, markup=False)
        self._bars: Progress | None = None
        self._open = 0

    @contextmanager
    def task(self, title: str, total: int, unit: str) -> Iterator[Advance]:
        meter = Meter(total=total)
        with self._shared() as bars:
            shown = bars.add_task(title, total=total, about=unit)
            note = ""

            def advance(amount: int, text: str) -> None:
                nonlocal note
                meter.advance(amount)
                note = text or note
                about = f"{unit}{_speed(meter)}{_tail(note)}"
                bars.update(shown, advance=amount, about=about)

            yield advance
            took = f"{unit} in {duration(meter.seconds)}{_tail(note)}"
            bars.update(shown, about=took)
            if self._open > 1:  # others are under way: what is done makes room for them
                bars.remove_task(shown)
                self.say(f"{title}: {meter.done}/{total} {took}")

    @contextmanager
    def _shared(self) -> Iterator["Progress"]:
        """The bars of all tasks that are open; they end with the last of these."""
        from rich.progress import BarColumn, Progress, TextColumn

        if self._bars is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[about]}"),
            )
            self._bars = Progress(*columns, console=self._console, expand=True)
            self._bars.start()
        self._open += 1
        try:
            yield self._bars
        finally:
            self._open -= 1
            if self._open == 0:
                self._bars.stop()
                self._bars = None

    def say(self, text: str) -> None:
        self._console.print(text)


def _speed(meter: Meter) -> str:
    rate, left = meter.rate, meter.seconds_left
    if rate is None or left is None:
        return ""
    speed = f"{rate:.0f}" if rate >= 100 else f"{rate:.2g}"
    return f", {speed}/s, {duration(left)} left"


def _tail(note: str) -> str:
    return f" ({note})" if note else ""
