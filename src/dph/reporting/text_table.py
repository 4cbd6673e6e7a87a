"""A table of texts, as markdown, CSV or LaTeX."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from dph.errors import DataError

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``left`` columns are texts, the others numbers; ``note`` says what they are.

    Raises:
        DataError: a row has more or fewer cells than there are columns.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str
    left: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise DataError(f"a row of {self.name} has {len(row)} cells: {row}")


def marked(text: str) -> str:
    """The text as a marked cell."""
    return f"{MARK}{text}{MARK}"


def markdown(table: Table) -> str:
    """A table of GitHub's markdown, with its note below."""
    rule = ["---"] * table.left + ["---:"] * (len(table.columns) - table.left)
    lines = (table.columns, rule, *table.rows)
    cells = [[_markdown_cell(cell) for cell in line] for line in lines]
    body = "\n".join("| " + " | ".join(line) + " |" for line in cells)
    return f"**{table.title}**\n\n{body}\n\n{table.note}\n"


def comma_separated(table: Table) -> str:
    """A header and the rows, without marks: for programs."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([cell.replace(MARK, "") for cell in row] for row in table.rows)
    return stream.getvalue()


def latex(table: Table) -> str:
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


FORMATS: Mapping[str, tuple[str, Callable[[Table], str]]] = MappingProxyType(
    {"md": ("md", markdown), "csv": ("csv", comma_separated), "latex": ("tex", latex)}
)
"""By the name of a format, the suffix of its files and what writes it."""


def _markdown_cell(cell: str) -> str:
    return cell.replace("|", r"\|")


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(_latex_cell(cell) for cell in cells) + r" \\"


def _latex_cell(cell: str) -> str:
    inner = cell.removeprefix(MARK).removesuffix(MARK)
    text = latex_text(inner)
    return text if inner == cell else rf"\textbf{{{text}}}"
