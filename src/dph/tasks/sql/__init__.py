"""Text-to-SQL: Spider, BIRD and their prompts."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.tasks.sql.data_sets import load_bird, load_spider
    from dph.tasks.sql.environment import sql_environment
    from dph.tasks.sql.problems import SQLProblems, sql_problems
    from dph.tasks.sql.prompt import SQLPrompts
    from dph.tasks.sql.schema import Schema, read_schema
    from dph.tasks.styles import SQL_STYLES, sql_style

__all__ = [
    "SQL_STYLES",
    "SQLProblems",
    "SQLPrompts",
    "Schema",
    "load_bird",
    "load_spider",
    "read_schema",
    "sql_environment",
    "sql_problems",
    "sql_style",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "SQL_STYLES": "dph.tasks.styles",
        "SQLProblems": "dph.tasks.sql.problems",
        "SQLPrompts": "dph.tasks.sql.prompt",
        "Schema": "dph.tasks.sql.schema",
        "load_bird": "dph.tasks.sql.data_sets",
        "load_spider": "dph.tasks.sql.data_sets",
        "read_schema": "dph.tasks.sql.schema",
        "sql_environment": "dph.tasks.sql.environment",
        "sql_problems": "dph.tasks.sql.problems",
        "sql_style": "dph.tasks.styles",
    },
)
