"""A table of texts and numbers, as markdown, CSV or LaTeX."""

import csv
import io
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from dph.errors import DataError
from dph.results.charts.cells import TableNumber

# Text that a model wrote, made safe to print: what would steer a terminal is spelled out.

_KEPT = {"\n", "\t"}
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Controls, formats (bidirectional overrides, invisible characters), surrogates, line ends."""


def visible(text: str) -> str:
    r"""``text`` with controls, escapes and invisible characters as ``\x1b`` or ``\u202e``.

    New lines and tabs stay.

    >>> visible("a\tb\x1b[2J\u202e")
    'a\tb\\x1b[2J\\u202e'
    """
    return "".join(map(_spelled, text))


def _spelled(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _STEERING:
        return character
    return character.encode("unicode_escape").decode("ascii")


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
"""What stands around a cell that is marked: the choice, or what is significant."""


Cell = str | TableNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """``left`` columns are texts, the others numbers; ``note`` says what they are.

    A ``Number`` is rounded for people, with its interval; CSV has it in full.

    Raises:
        DataError: a row has more or fewer cells than there are columns.
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
    """The text as a marked cell."""
    return f"{MARK}{text}{MARK}"


def markdown(table: TextTable) -> str:
    """A table of GitHub's markdown, with its note below."""
    rule = ["---"] * table.left + ["---:"] * (len(table.columns) - table.left)
    lines = (table.columns, rule, *table.rows)
    cells = [[_markdown_cell(str(cell)) for cell in line] for line in lines]
    body = "\n".join("| " + " | ".join(line) + " |" for line in cells)
    return f"**{table.title}**\n\n{body}\n\n{table.note}\n"


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


def _markdown_cell(cell: str) -> str:
    return cell.replace("|", r"\|")


def _latex_row(cells: Sequence[Cell]) -> str:
    return " & ".join(_latex_cell(str(cell)) for cell in cells) + r" \\"


def _latex_cell(cell: str) -> str:
    inner = cell.removeprefix(MARK).removesuffix(MARK)
    text = latex_text(inner)
    return text if inner == cell else rf"\textbf{{{text}}}"
