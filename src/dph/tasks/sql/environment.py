"""The environment ``sql``: look into a database, then answer with a statement.

Its tools are ``tables()``, ``columns(table)``, ``query(sql)`` and ``answer(sql)``. A query runs as
the ``sql`` verifier runs a prediction: one SELECT on a connection that can only read, with limits.
The gold query never reaches the process; the ``sql`` verifier compares the answer with it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.tasks.environments import Environment, EpisodeLimits
from dph.tasks.sql.schema import Schema, read_schema, schema_text
from dph.tasks.verifiers.sql.executor import (
    SQLFailure,
    SQLLimits,
    database_state,
    database_uri,
    execute_sql,
)

_SHOWN_ROWS = 20
_SHOWN_CHARACTERS = 200
_LIMITS = SQLLimits(seconds=3.0, rows=10_000, value_bytes=100_000, result_bytes=1_000_000)


class SQLTools:
    """The class of the environment; ``sql_environment`` makes it ready for a directory."""

    def reset(self, database: str, databases: str = "", **columns: Any) -> None:
        """Open a trajectory on one database; other columns of the problem are not needed."""
        del columns
        self._database = Path(databases, database)
        if database_state(self._database) is None:
            raise DataError(f"there is no database {self._database}")
        self._schema = read_schema(self._database)

    def tables(self) -> str:
        """List the tables of the database."""
        return ", ".join(table.name for table in self._schema.tables)

    def columns(self, table: str) -> str:
        """Show the columns of a table, their types and keys.

        Args:
            table: Name of the table.
        """
        found = [one for one in self._schema.tables if one.name.lower() == table.lower()]
        if not found:
            raise ValueError(f"there is no table {table!r:.80}; there are {self.tables()}")
        return schema_text(Schema(db_id=self._schema.db_id, tables=tuple(found)), {})

    def query(self, sql: str) -> str:
        """Run a SELECT statement and show its rows.

        Args:
            sql: One statement that only reads.
        """
        found = execute_sql(database_uri(self._database), sql, _LIMITS, text_errors="replace")
        if isinstance(found, SQLFailure):
            raise ValueError(f"{found.outcome.value}: {found.reason}")
        lines = [" | ".join(map(_shown, row)) for row in found.rows[:_SHOWN_ROWS]]
        count = len(found.rows)
        shown = f", the first {_SHOWN_ROWS} of them" if count > _SHOWN_ROWS else ""
        return "\n".join([f"{count} rows{shown}", *lines])

    def answer(self, sql: str) -> str:
        """Give the statement that answers the question; nothing can be asked afterwards.

        Args:
            sql: One SELECT statement.
        """
        return sql


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def sql_environment(
    databases: Path,
    *,
    form: str = "json",
    limits: EpisodeLimits | None = None,
    hidden: Sequence[str] = (),
) -> Environment:
    """The environment ``sql`` for problems whose databases lie in a directory.

    Trajectories are graded by ``make_verifier("sql", databases=databases)``. The other arguments
    are those of ``Environment``; the gold query is always hidden.
    """
    return Environment(
        SQLTools,
        form=form,
        limits=limits,
        submits="answer",
        hidden=["gold_sql", *hidden],
        columns={"databases": str(databases.absolute())},
        places=["databases"],  # the verifier's settings say what they hold
    )
