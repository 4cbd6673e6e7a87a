"""The ``sql`` environment: explore a database, then answer with an SQL statement.

Its tools are ``tables()``, ``columns(table)``, ``query(sql)`` and ``answer(sql)``. Queries run the
way the ``sql`` verifier runs predictions: one SELECT on a read-only connection, with limits. The
gold query never reaches the environment's process; the ``sql`` verifier compares answers with it.
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

_MAX_ROWS = 20
_MAX_CHARACTERS = 200
_LIMITS = SQLLimits(seconds=3.0, rows=10_000, value_bytes=100_000, result_bytes=1_000_000)


class SQLTools:
    """Tools of the environment; ``sql_environment`` binds them to a directory of databases."""

    def reset(self, database: str, databases: str = "", **columns: Any) -> None:
        """Start a trajectory on one database; other columns of the problem are ignored."""
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
        lines = [" | ".join(map(_cell_text, row)) for row in found.rows[:_MAX_ROWS]]
        count = len(found.rows)
        shown = f", the first {_MAX_ROWS} of them" if count > _MAX_ROWS else ""
        return "\n".join([f"{count} rows{shown}", *lines])

    def answer(self, sql: str) -> str:
        """Give the statement that answers the question; nothing can be asked afterwards.

        Args:
            sql: One SELECT statement.
        """
        return sql


def _cell_text(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}..."


def sql_environment(
    databases: Path,
    *,
    form: str = "json",
    limits: EpisodeLimits | None = None,
    hidden: Sequence[str] = (),
) -> Environment:
    """The ``sql`` environment for problems whose databases are in one directory.

    Grade trajectories with ``make_verifier("sql", databases=databases)``. The other arguments are
    those of ``Environment``; the gold query is always hidden.
    """
    return Environment(
        SQLTools,
        form=form,
        limits=limits,
        submits="answer",
        hidden=["gold_sql", *hidden],
        columns={"databases": str(databases.absolute())},
        places=["databases"],  # the verifier's settings identify their content
    )
