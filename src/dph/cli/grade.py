"""``dph grade``: verdicts on files of answers."""

import typer

from dph.cli.grade_math import grade_math
from dph.cli.grade_sql import grade_sql

grade_app = typer.Typer(
    name="grade",
    help="Grade a file of answers: the same rows come out with their verdicts.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
grade_app.command("sql")(grade_sql)
grade_app.command("math")(grade_math)
