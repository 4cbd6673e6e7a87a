"""The SQL verifier: find the statement, run it beside the gold, compare by a rule."""

from typing import TYPE_CHECKING

from dph.lazy import lazy_names

if TYPE_CHECKING:
    from dph.verifiers.sql.extraction import SQLSource, extract_sql
    from dph.verifiers.sql.rules import RULES, sql_rule
    from dph.verifiers.sql.verifier import SQLPair, SQLVerifier

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
        "RULES": "dph.verifiers.sql.rules",
        "SQLPair": "dph.verifiers.sql.verifier",
        "SQLSource": "dph.verifiers.sql.extraction",
        "SQLVerifier": "dph.verifiers.sql.verifier",
        "extract_sql": "dph.verifiers.sql.extraction",
        "sql_rule": "dph.verifiers.sql.rules",
    },
)
