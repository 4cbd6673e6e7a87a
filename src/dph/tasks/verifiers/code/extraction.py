"""Finding the program in a response.

The first of these that is there:

1. the last block fenced by ``` or ~~~ that defines the entry point, if there is one;
2. the last block marked ``python`` (``py``, ``python3``), else the last block without a mark;
3. the response itself, if it goes on with a prefix (its first line is indented) or reads like
   Python: a line begins with ``def``, ``class``, ``import``, ``from``, ``print(`` or an assignment.

Inside of the last ``<answer>`` element, where there is one, and else after the last ``</think>``.
"""

import re
from dataclasses import dataclass

from dph.tasks.verifiers.sql.extraction import answer_spans

_LONGEST = 250_000
_FENCE = re.compile(r"^[ \t]{0,3}+(`{3,}+|~{3,}+)[ \t]*+([^\s`]*+)[^\n`]*+$", re.MULTILINE)
_PYTHON = frozenset({"python", "py", "python3", "py3"})
_STATEMENT = re.compile(
    r"^(?:(?:async )?def |class |import \w|from [\w.]+ import |print\(|@\w|[A-Za-z_]\w*+ ?= ?\S)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class _Block:
    mark: str
    text: str


def extract_program(response: str, *, entry_point: str = "", prefix: bool = False) -> str | None:
    r"""The program of a response by the module's rules, or None if there is none.

    Of a longer response the last 250,000 characters are searched.

    >>> extract_program("Here:\n```python\nprint(1)\n```\nIt prints 1.")
    'print(1)\n'
    """
    response = response[-_LONGEST:]
    if spans := answer_spans(response):
        response = response[slice(*spans[0])]
    elif "</think>" in response:
        response = response.rpartition("</think>")[2]
    blocks = [block for block in _blocks(response) if block.text.strip()]
    if not blocks:
        return response if _reads_like_python(response, prefix) else None
    name = re.escape(entry_point.partition(".")[0])
    defines = re.compile(rf"^(?:(?:async )?def|class) {name}\b|^{name} ?=", re.MULTILINE)
    choices = (
        [block for block in blocks if entry_point and defines.search(block.text)],
        [block for block in blocks if block.mark in _PYTHON],
        [block for block in blocks if not block.mark],
    )
    return next((found[-1].text for found in choices if found), None)


def _reads_like_python(response: str, prefix: bool) -> bool:
    first = next((line for line in response.splitlines() if line.strip()), "")
    return (prefix and first[:1] in (" ", "\t")) or bool(_STATEMENT.search(response))


def _blocks(response: str) -> list[_Block]:
    """The fenced blocks; one that is never closed goes to the end."""
    blocks: list[_Block] = []
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(response):
        if opening is None:
            opening = fence
        elif fence[1][0] == opening[1][0] and len(fence[1]) >= len(opening[1]) and not fence[2]:
            blocks.append(_block(response, opening, fence.start()))
            opening = None
    if opening is not None:
        blocks.append(_block(response, opening, len(response)))
    return blocks


def _block(response: str, opening: re.Match[str], end: int) -> _Block:
    return _Block(opening[2].lower(), response[opening.end() + 1 : end])
