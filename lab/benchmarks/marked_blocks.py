"""Parts of a page that a script makes anew: what stands between two marks.

A page holds ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``, each on a line of its own.
"""

from pathlib import Path

from dph._base.files import write_text


def write_block(path: Path, name: str, text: str) -> None:
    """Put ``text``, whole lines, between the marks of ``name`` in the file ``path``.

    Raises:
        SystemExit: the page lacks one of the marks.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"{path} has no {begin} ... {end}")
    write_text(path, f"{before}{begin}\n{text}{end}{after}")
