"""Tasks: problems on disk, public data sets as problems, and the styles of answers."""

from dph.tasks.math import MATH_SETS, load_math, load_math_set
from dph.tasks.problems import load_problems, problems_fingerprint, save_problems
from dph.tasks.sql.bird import load_bird
from dph.tasks.sql.problems import sql_problems
from dph.tasks.sql.prompt import SQLPrompts
from dph.tasks.sql.spider import load_spider
from dph.tasks.sql.styles import SQL_STYLES, sql_style
from dph.tasks.styles import STYLES, make_style

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
