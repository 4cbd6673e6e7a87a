"""Subjects of the databases of the world, and their rows as SQLite files."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from dph._base.files import atomic_path

CITIES = ("Lima", "Oslo", "Cairo", "Kyoto", "Quito", "Rome", "Delhi", "Perth")
COUNTRIES = ("Peru", "Norway", "Egypt", "Japan", "Chile", "Italy", "India", "Kenya")
COLOURS = ("red", "blue", "green", "white", "black", "amber", "grey", "pink")
PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gia", "Hugo")
TEXT_POOLS = (CITIES, COUNTRIES, COLOURS, PEOPLE)

KEY = "key"
"""The column that joins the two tables of every database; the first table's primary key."""


@dataclass(frozen=True, slots=True)
class DomainColumn:
    """A column and the business term that questions use instead of its name."""

    name: str
    term: str
    values: tuple[str, ...] = ()
    """Values of a text column; empty for a numeric column."""

    @property
    def is_text(self) -> bool:
        """Whether the column holds text."""
        return bool(self.values)


@dataclass(frozen=True, slots=True)
class DomainTable:
    """A table without its key column: its numeric columns, then its text column."""

    name: str
    columns: tuple[DomainColumn, ...]

    @property
    def numeric(self) -> tuple[DomainColumn, ...]:
        """The columns that hold whole numbers."""
        return tuple(column for column in self.columns if not column.is_text)

    @property
    def text(self) -> DomainColumn:
        """The one column that holds text."""
        return next(column for column in self.columns if column.is_text)


@dataclass(frozen=True, slots=True)
class Domain:
    """A database: a table and a second one whose rows refer to it by the key."""

    name: str
    first: DomainTable
    second: DomainTable

    @property
    def tables(self) -> tuple[DomainTable, DomainTable]:
        """Both tables, the one that is referred to first."""
        return self.first, self.second

    @property
    def columns(self) -> tuple[DomainColumn, ...]:
        """The columns of both tables, without the key."""
        return self.first.columns + self.second.columns

    @property
    def schema(self) -> str:
        """The schema as prompts show it."""
        return " ".join(
            f"{table.name} ( {KEY} {' '.join(c.name for c in table.columns)} )"
            for table in self.tables
        )


def _table(
    name: str, numeric: dict[str, str], text: tuple[str, str, tuple[str, ...]]
) -> DomainTable:
    return DomainTable(
        name, (*(DomainColumn(*item) for item in numeric.items()), DomainColumn(*text))
    )


DOMAINS = (
    Domain(
        "music",
        _table(
            "singer",
            {"age": "seniority", "fans": "fame", "albums": "output"},
            ("country", "homeland", COUNTRIES),
        ),
        _table("concert", {"seats": "room", "hours": "stamina"}, ("city", "venue", CITIES)),
    ),
    Domain(
        "aviation",
        _table(
            "pilot",
            {"salary": "pay", "landings": "experience", "licences": "qualification"},
            ("hometown", "roots", CITIES),
        ),
        _table("flight", {"passengers": "load", "delay": "lateness"}, ("captain", "chief", PEOPLE)),
    ),
    Domain(
        "cinema",
        _table(
            "movie",
            {"budget": "cost", "minutes": "runtime", "awards": "prestige"},
            ("director", "creator", PEOPLE),
        ),
        _table("screening", {"tickets": "turnout", "price": "fee"}, ("city", "place", CITIES)),
    ),
    Domain(
        "football",
        _table(
            "team",
            {"wins": "success", "goals": "firepower", "trophies": "glory"},
            ("colour", "look", COLOURS),
        ),
        _table("player", {"weight": "bulk", "caps": "selection"}, ("nation", "flag", COUNTRIES)),
    ),
    Domain(
        "library",
        _table(
            "book",
            {"pages": "thickness", "copies": "availability", "loans": "popularity"},
            ("author", "writer", PEOPLE),
        ),
        _table("reader", {"visits": "loyalty", "fines": "debt"}, ("town", "residence", CITIES)),
    ),
    Domain(
        "clinic",
        _table(
            "doctor",
            {"shifts": "workload", "beds": "capacity", "surgeries": "practice"},
            ("surname", "identity", PEOPLE),
        ),
        _table("patient", {"pulse": "heartbeat", "days": "stay"}, ("band", "urgency", COLOURS)),
    ),
    Domain(
        "farming",
        _table(
            "farm",
            {"hectares": "extent", "tractors": "machinery", "cows": "herd"},
            ("country", "soil", COUNTRIES),
        ),
        _table("harvest", {"tonnes": "yield", "rainfall": "wetness"}, ("buyer", "client", PEOPLE)),
    ),
    Domain(
        "navy",
        _table(
            "ship",
            {"guns": "armament", "crew": "complement", "knots": "pace"},
            ("port", "harbour", CITIES),
        ),
        _table("battle", {"losses": "toll", "hits": "accuracy"}, ("winner", "victor", COUNTRIES)),
    ),
    Domain(
        "railway",
        _table(
            "train",
            {"carriages": "extension", "stops": "slowness", "horsepower": "muscle"},
            ("livery", "paint", COLOURS),
        ),
        _table("journey", {"miles": "reach", "riders": "crowd"}, ("terminus", "target", CITIES)),
    ),
    Domain(
        "school",
        _table(
            "teacher",
            {"lessons": "duty", "years_employed": "tenure", "degrees": "learning"},
            ("house", "allegiance", COLOURS),
        ),
        _table("pupil", {"absences": "truancy", "marks": "merit"}, ("mentor", "guide", PEOPLE)),
    ),
    Domain(
        "trade",
        _table(
            "shop",
            {"staff": "workforce", "rent": "lease", "sales": "turnover"},
            ("town", "address", CITIES),
        ),
        _table("product", {"stock": "supply", "discount": "saving"}, ("shade", "tint", COLOURS)),
    ),
    Domain(
        "hospitality",
        _table(
            "hotel",
            {"rooms": "offer", "stars": "rating", "floors": "height"},
            ("manager", "host", PEOPLE),
        ),
        _table(
            "guest", {"nights": "sojourn", "bill": "spending"}, ("passport", "origin", COUNTRIES)
        ),
    ),
)
"""Terms are unique over all domains, so a term names one column; column names may repeat."""


# The databases of the world: rows from a seed, written as SQLite files, queried in process.

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
