"""Bars in tables, which GitHub and Python's Markdown want written differently."""

import re


def without_backslashes(markdown: str) -> str:
    r"""Bars in the code of tables as they are: GitHub wants ``\|`` there, and Python shows it.

    >>> print(without_backslashes(r"| `--engine own\|trl` | KL(pi \|\| ref) |"))
    | `--engine own|trl` | KL(pi \|\| ref) |
    """
    rows = re.compile(r"^ *\|.*$", re.MULTILINE)
    code = re.compile(r"(`+)[^`].*?\1")
    return rows.sub(
        lambda row: code.sub(lambda found: found[0].replace(r"\|", "|"), row[0]), markdown
    )
