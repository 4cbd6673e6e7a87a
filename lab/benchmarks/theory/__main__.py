"""Write the tables of docs/theory.md anew; half a minute.

    python -m lab.benchmarks.theory --write docs/theory.md

The part of the file between each pair of markers is replaced; without ``--write`` the tables are
printed.
"""

import argparse
from pathlib import Path

from dph._base.files import write_text
from lab.benchmarks.theory.counterexamples import bandit_table, start_table
from lab.benchmarks.theory.grid import cases, count, table


def tables() -> dict[str, str]:
    """The tables by the names of their markers."""
    return {"bandit": bandit_table(), "start": start_table(), "grid": table(count(cases()))}


def written(text: str, name: str, content: str) -> str:
    """``text`` with ``content`` between the markers of ``name``."""
    start, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = text.partition(start)
    inside, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"there is no {start} ... {end}")
    del inside
    return f"{before}{start}\n{content}{end}{after}"


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the document")
    path = parser.parse_args().write
    made = tables()
    if path is None:
        print("\n".join(made.values()))
        return
    text = path.read_text(encoding="utf-8")
    for name, content in made.items():
        text = written(text, name, content)
    write_text(path, text)


if __name__ == "__main__":
    main()
