"""Numbers and texts as people read them, and tables of them as markdown, CSV or LaTeX."""

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dph.errors import DataError

UNKNOWN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNumber:
    """A number and its interval in the unit that a table shows; None: it is not known.

    >>> str(TableNumber(value=69.32, low=61.0, high=70.04)), str(TableNumber(value=None))
    ('69.3 [61.0, 70.0]', '-')
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.value is None:
            return UNKNOWN
        if self.low is None or self.high is None:
            return f"{self.value:.1f}"
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def percent_number(value: float | None, interval: Sequence[float] | None = None) -> TableNumber:
    return _number(None if value is None else 100 * value, interval and [100 * x for x in interval])


def percent(value: float | None, interval: Sequence[float] | None = None) -> str:
    """A fraction in per cent, with its interval where there is one.

    >>> percent(0.693), percent(0.693, [0.61, 0.7]), percent(None)
    ('69.3', '69.3 [61.0, 70.0]', '-')
    """
    return str(percent_number(value, interval))


def count(value: float | None, interval: Sequence[float] | None = None) -> str:
    """A number with one decimal, with its interval where there is one.

    >>> count(4.321), count(4.321, [4.0, 4.5])
    ('4.3', '4.3 [4.0, 4.5]')
    """
    return str(_number(value, interval))


def points(value: float, interval: Sequence[float]) -> str:
    """A difference of fractions in percentage points, always with its sign.

    >>> points(0.021, [-0.01, 0.05]), points(-0.0001, [-0.001, 0.0])
    ('+2.1 [-1.0, +5.0]', '+0.0 [-0.1, +0.0]')
    """
    middle, lo, hi = (f"{round(100 * x, 1) + 0.0:+.1f}" for x in (value, *interval))
    return f"{middle} [{lo}, {hi}]"


def duration(seconds: float) -> str:
    """A duration for people.

    >>> duration(4.2), duration(200), duration(7300)
    ('4.2 s', '3 min 20 s', '2 h 1 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def set_numbers(
    summary: Mapping[str, Any], ks: Sequence[str], *, intervals: bool, cut_off: bool = False
) -> list[TableNumber]:
    """greedy, mean, Pass@k for each k, effective styles, and if asked for the share cut off."""
    ci = summary["ci95"] if intervals else {}
    return [
        percent_number(summary["greedy"], ci.get("greedy")),
        percent_number(summary["mean"], ci.get("mean")),
        *(percent_number(summary["pass_at_k"].get(k), ci.get(f"pass_at_{k}")) for k in ks),
        _number(summary["effective_styles"], ci.get("effective_styles")),
        *([percent_number(summary.get("cut_off"))] if cut_off else []),
    ]


def set_header(ks: Sequence[str], *, cut_off: bool = False) -> list[str]:
    """The titles of ``set_numbers``."""
    last = ["cut off"] if cut_off else []
    return ["greedy", "mean", *(f"pass@{k}" for k in ks), "styles", *last]


def _number(value: float | None, interval: Sequence[float] | None) -> TableNumber:
    if interval is None:
        return TableNumber(value=value)
    return TableNumber(value=value, low=interval[0], high=interval[1])


_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Controls, formats (bidirectional overrides, invisible characters), surrogates, line ends."""


def visible(text: str) -> str:
    r"""``text`` with controls, escapes and invisible characters as ``\x1b`` or ``\u202e``.

    New lines and tabs stay.

    >>> visible("a\tb\x1b[2J\u202e")
    'a\tb\\x1b[2J\\u202e'
    """
    return "".join(
        one.encode("unicode_escape").decode("ascii") if _steers(one) else one for one in text
    )


def with_code_points(text: str) -> str:
    r"""The same for a page, whose own script does it too (browser/text.js).

    >>> with_code_points("a\x1bb\u202ec")
    'a⟨U+001B⟩b⟨U+202E⟩c'
    """
    return "".join(f"⟨U+{ord(one):04X}⟩" if _steers(one) else one for one in text)


def _steers(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in _STEERING


def one_line(text: str, *, widest: int = 60) -> str:
    r"""``visible(text)`` on one line of at most ``widest`` characters.

    >>> one_line("a\x1b[31m b\n c")
    'a\\x1b[31m b c'
    >>> one_line("abcdef", widest=4)
    'abc…'
    """
    line = visible(" ".join(text.split()))
    return line if len(line) <= widest else f"{line[: widest - 1]}…"


def shortened(text: str, *, characters: int) -> str:
    """A text of limited length, with the number of characters left out.

    >>> shortened("abcdef", characters=4)
    'abcd ... (2 more characters)'
    """
    left = len(text) - characters
    return text if left <= 0 else f"{text[:characters]} ... ({left} more characters)"


_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
}
MARK = "**"
"""Marks around a cell: the choice, or a significant difference."""


Cell = str | TableNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """``left`` columns are texts, the others numbers; ``note`` says what they are.

    A ``TableNumber`` is rounded for people, with its interval; CSV has it in full.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str
    left: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise DataError(f"a row of {self.name} has {len(row)} cells: {row}")


def marked(text: str) -> str:
    return f"{MARK}{text}{MARK}"


def markdown(table: TextTable) -> str:
    body = markdown_rows(table.columns, table.rows, left=table.left)
    return f"**{table.title}**\n\n{body}\n\n{table.note}\n"


def markdown_rows(
    columns: Sequence[object], rows: Iterable[Sequence[object]], *, left: int = 1
) -> str:
    r"""A header and rows as a table of GitHub's markdown; all but ``left`` columns are numbers.

    >>> print(markdown_rows(["method", "greedy"], [["a|b", 1.5]]))
    | method | greedy |
    | --- | ---: |
    | a\|b | 1.5 |
    """
    rule = ["---"] * left + ["---:"] * (len(columns) - left)
    lines = []
    for line in (columns, rule, *rows):
        cells = (str(cell).replace("|", r"\|").replace("\n", " ") for cell in line)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def comma_separated(table: TextTable) -> str:
    """A header and the rows, without marks: for programs.

    A column of numbers with intervals is three: the number, ``<name> low`` and ``<name> high``.
    What is not known is empty.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    three = [
        any(isinstance(c, TableNumber) and c.low is not None for c in cells) for cells in columns
    ]
    writer.writerow(
        title
        for name, wide in zip(table.columns, three, strict=True)
        for title in ((name, f"{name} low", f"{name} high") if wide else (name,))
    )
    writer.writerows(
        [text for c, wide in zip(row, three, strict=True) for text in _csv_cells(c, wide=wide)]
        for row in table.rows
    )
    return stream.getvalue()


def latex(table: TextTable) -> str:
    """A table environment of LaTeX for the package booktabs; everything is escaped."""
    columns = "l" * table.left + "r" * (len(table.columns) - table.left)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex_text(table.title)}. {latex_text(table.note)}}}",
        rf"  \label{{tab:{table.name}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        f"    {_latex_row(table.columns)}",
        r"    \midrule",
        *(f"    {_latex_row(row)}" for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    r"""A text with every character of meaning to LaTeX escaped.

    >>> print(latex_text("dph_f: 95% & more"))
    dph\_f: 95\% \& more
    """
    return "".join(_LATEX.get(character, character) for character in text)


FORMATS: Mapping[str, tuple[str, Callable[[TextTable], str]]] = MappingProxyType(
    {"md": ("md", markdown), "csv": ("csv", comma_separated), "latex": ("tex", latex)}
)
"""By the name of a format, the suffix of its files and what writes it."""


def _csv_cells(cell: Cell, *, wide: bool) -> list[str]:
    if isinstance(cell, str):
        return [cell.replace(MARK, ""), *(["", ""] if wide else [])]
    numbers = (cell.value, cell.low, cell.high) if wide else (cell.value,)
    return ["" if number is None else f"{number:.10g}" for number in numbers]


def _latex_row(cells: Sequence[Cell]) -> str:
    texts = []
    for cell in map(str, cells):
        inner = cell.removeprefix(MARK).removesuffix(MARK)
        text = latex_text(inner)
        texts.append(text if inner == cell else rf"\textbf{{{text}}}")
    return " & ".join(texts) + r" \\"
