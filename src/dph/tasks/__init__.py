"""Tasks: problems on disk, public data sets as problems, and the styles of answers."""

from typing import TYPE_CHECKING

from dph._base.lazy import lazy_names

if TYPE_CHECKING:
    from dph.tasks.math import MATH_SETS, load_math, load_math_set
    from dph.tasks.problems import load_problems, problems_fingerprint, save_problems
    from dph.tasks.sql.data_sets import load_bird, load_spider
    from dph.tasks.sql.problems import sql_problems
    from dph.tasks.sql.prompt import SQLPrompts
    from dph.tasks.styles import SQL_STYLES, STYLES, make_style, sql_style

__all__ = [
    "MATH_SETS",
    "SQL_STYLES",
    "STYLES",
    "SQLPrompts",
    "load_bird",
    "load_math",
    "load_math_set",
    "load_problems",
    "load_spider",
    "make_style",
    "problems_fingerprint",
    "save_problems",
    "sql_problems",
    "sql_style",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MATH_SETS": "dph.tasks.math",
        "SQLPrompts": "dph.tasks.sql.prompt",
        "SQL_STYLES": "dph.tasks.styles",
        "STYLES": "dph.tasks.styles",
        "load_bird": "dph.tasks.sql.data_sets",
        "load_math": "dph.tasks.math",
        "load_math_set": "dph.tasks.math",
        "load_problems": "dph.tasks.problems",
        "load_spider": "dph.tasks.sql.data_sets",
        "make_style": "dph.tasks.styles",
        "problems_fingerprint": "dph.tasks.problems",
        "save_problems": "dph.tasks.problems",
        "sql_problems": "dph.tasks.sql.problems",
        "sql_style": "dph.tasks.styles",
    },
)
