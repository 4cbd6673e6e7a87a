"""The databases of the world: rows from a seed, written as SQLite files, queried in process."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from dph._base.files import atomic_path
from dph.lab.worlds.sql.domains import KEY, Domain, DomainTable

FIRST_ROWS = 24
SECOND_ROWS = 36
LARGEST_NUMBER = 65

TableRow = tuple[int | str, ...]
Result = frozenset[tuple[object, ...]]


@dataclass(frozen=True)
class Database:
    """A domain and its rows, one tuple of rows for each of its two tables."""

    domain: Domain
    rows: tuple[tuple[TableRow, ...], tuple[TableRow, ...]]

    @property
    def name(self) -> str:
        """The database's id: the name of its domain."""
        return self.domain.name

    @property
    def relative_path(self) -> str:
        """Path of the file in the folder of databases."""
        return f"{self.name}/{self.name}.sqlite"

    @cached_property
    def oracle(self) -> "Oracle":
        """The same rows in memory, for the world's own queries."""
        return Oracle(self)

    def write(self, folder: Path) -> Path:
        """Write the SQLite file; the same rows and SQLite version give the same bytes."""
        path = folder / self.relative_path
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary, closing(sqlite3.connect(temporary)) as connection:
            self.fill(connection)
        return path

    def fill(self, connection: sqlite3.Connection) -> None:
        """Create the tables and insert the rows."""
        for table, rows in zip(self.domain.tables, self.rows, strict=True):
            connection.execute(self._create(table))
            holes = ", ".join("?" * (len(table.columns) + 1))
            connection.executemany(f"INSERT INTO {table.name} VALUES ( {holes} )", rows)
        connection.commit()

    def _create(self, table: DomainTable) -> str:
        first = self.domain.first
        key = "PRIMARY KEY" if table is first else f"REFERENCES {first.name} ( {KEY} )"
        columns = [f"{KEY} INTEGER {key}"]
        columns += [f"{c.name} {'TEXT' if c.is_text else 'INTEGER'}" for c in table.columns]
        return f"CREATE TABLE {table.name} ( {', '.join(columns)} )"


class Oracle:
    """Answers the world's own SQL, which is known to be harmless, and remembers the answers."""

    def __init__(self, database: Database) -> None:
        self._connection = sqlite3.connect(":memory:")
        database.fill(self._connection)
        self._results: dict[str, Result] = {}

    def __call__(self, sql: str) -> Result:
        """The set of rows that the query returns."""
        if sql not in self._results:
            self._results[sql] = frozenset(self._connection.execute(sql))
        return self._results[sql]

    def __del__(self) -> None:
        self._connection.close()


def draw_database(domain: Domain, rng: Random) -> Database:
    """Fill a domain with rows.

    The numbers of a column are all different, so that a superlative has one answer.
    """
    parents = range(1, FIRST_ROWS + 1)
    children = [rng.choice(parents) for _ in range(SECOND_ROWS)]
    return Database(
        domain, (_rows(domain.first, parents, rng), _rows(domain.second, children, rng))
    )


def _rows(table: DomainTable, keys: Iterable[int], rng: Random) -> tuple[TableRow, ...]:
    keys = list(keys)
    columns: list[list[int] | list[str]] = [keys]
    for column in table.columns:
        if column.is_text:
            columns.append([rng.choice(column.values) for _ in keys])
        else:
            columns.append(rng.sample(range(LARGEST_NUMBER + 1), len(keys)))
    return tuple(zip(*columns, strict=True))
