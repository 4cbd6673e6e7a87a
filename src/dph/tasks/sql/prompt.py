"""The paper's prompt for text-to-SQL: schema with example values, evidence, question."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from dph.errors import DataError
from dph.tasks.sql.example_values import ExampleValues
from dph.tasks.sql.schema import Schema, read_schema
from dph.tasks.sql.schema import schema_text

_DATABASES_HELD = 4

_PROMPT = """\
Task Overview:
You are a data science expert. Below, you are provided with a database schema and a natural \
language question. Your task is to understand the schema and generate a valid SQL query to answer \
the question.

Database Engine:
SQLite

Database Schema:
{schema}
This schema describes the database's structure, including tables, columns, primary keys, foreign \
keys, and any relevant relationships or constraints.

Question:
{question}

Instructions:
- Make sure you only output the information that is asked in the question. If the question asks \
for a specific column, make sure to only include that column in the SELECT clause, nothing more.
- The generated query should return all of the information asked in the question without any \
missing or extra information.
- Before generating the final SQL query, please think through the steps of how to write the query.

Output Format:
In your answer, please enclose the generated SQL query in a code block:
```sql
-- Your SQL query
```

Take a deep breath and think step by step to find the correct SQL query.
"""


class SQLPrompts:
    """Writes prompts for questions on the databases of one directory.

    Args:
        databases: holds ``<db_id>/<db_id>.sqlite``; None if there are none, and prompts then
            show the example values that the schemas bring along.
        schemas: by database, from a tables.json; a database that is not among them is described
            by what its file declares.
    """

    def __init__(self, *, databases: Path | None, schemas: Mapping[str, Schema]) -> None:
        self._databases = databases
        self._schemas = schemas
        # Questions come database by database, more or less; a large index is dropped in time.
        self._values = lru_cache(maxsize=_DATABASES_HELD)(ExampleValues)

    def prompt(self, db_id: str, question: str, evidence: str = "") -> str:
        """The prompt of a question; the evidence stands on the line before it.

        Raises:
            DataError: there is neither a database nor a schema, or the database cannot be read.
        """
        asked = f"{evidence}\n{question}" if evidence.strip() else question
        if self._databases is None:
            if db_id not in self._schemas:
                raise DataError(f"there is neither a database nor a schema of {db_id!r}")
            return sql_prompt(schema_text(self._schemas[db_id], {}), asked)
        file = self._databases / database_file(db_id)
        schema = self._schemas.get(db_id) or read_schema(file)
        return sql_prompt(schema_text(schema, self._values(file).of(asked)), asked)


def sql_prompt(schema: str, question: str) -> str:
    """The paper's prompt around a schema's text and a question."""
    # Not str.format: braces in either have to stay.
    before, between, after = _PROMPT.replace("{question}", "{schema}").split("{schema}")
    return f"{before}{schema}{between}{question}{after}"


def database_file(db_id: str) -> str:
    """Where a database lies in the directory of databases.

    >>> database_file("pets_1")
    'pets_1/pets_1.sqlite'
    """
    return f"{db_id}/{db_id}.sqlite"
