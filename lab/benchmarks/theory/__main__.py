"""Write the tables of docs/theory.md anew; half a minute.

    python -m lab.benchmarks.theory --write docs/theory.md

The part of the file between each pair of markers is replaced; without ``--write`` the tables are
printed.
"""

import argparse
from pathlib import Path

from lab.benchmarks.marked_blocks import write_block
from lab.benchmarks.theory.counterexamples import bandit_table, start_table
from lab.benchmarks.theory.grid import cases, count, table


def tables() -> dict[str, str]:
    """The tables by the names of their markers."""
    return {"bandit": bandit_table(), "start": start_table(), "grid": table(count(cases()))}


def main() -> None:
    """Print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="the document")
    path = parser.parse_args().write
    made = tables()
    if path is None:
        print("\n".join(made.values()))
        return
    for name, content in made.items():
        write_block(path, name, content)


if __name__ == "__main__":
    main()
