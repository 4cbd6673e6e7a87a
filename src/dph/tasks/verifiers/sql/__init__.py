"""The SQL verifier: find the statement, run it and the gold, compare by a rule."""

from typing import TYPE_CHECKING

from dph._base.import_path import lazy_names

if TYPE_CHECKING:
    from dph.tasks.verifiers.sql.extraction import SQLSource, extract_sql
    from dph.tasks.verifiers.sql.rules import RULES, sql_rule
    from dph.tasks.verifiers.sql.verifier import SQLPair, SQLVerifier

__all__ = [
    "RULES",
    "SQLPair",
    "SQLSource",
    "SQLVerifier",
    "extract_sql",
    "sql_rule",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "RULES": "dph.tasks.verifiers.sql.rules",
        "SQLPair": "dph.tasks.verifiers.sql.verifier",
        "SQLSource": "dph.tasks.verifiers.sql.extraction",
        "SQLVerifier": "dph.tasks.verifiers.sql.verifier",
        "extract_sql": "dph.tasks.verifiers.sql.extraction",
        "sql_rule": "dph.tasks.verifiers.sql.rules",
    },
)
