"""Tasks: problems on disk, and the styles that answers are written in."""

from dph.tasks.problems import load_problems, problems_fingerprint, save_problems
from dph.tasks.sql_styles import SQL_STYLES, sql_style
from dph.tasks.styles import STYLES, make_style

__all__ = [
    "SQL_STYLES",
    "STYLES",
    "load_problems",
    "make_style",
    "problems_fingerprint",
    "save_problems",
    "sql_style",
]
