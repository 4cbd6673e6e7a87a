"""``dph grade sql``: run predicted SQL against the gold's result."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.grade_options import (
    ReplaceOption,
    ResumeOption,
    AnswersOption,
    VerdictsOption,
    AnswerTimeoutOption,
)
from dph.cli.options import JsonOption, WorkersOption, one_of


def _rule(name: str) -> str:
    """A name of the registry, which is loaded when the command runs and not for its help."""
    from dph.tasks.verifiers.sql.rules import RULES

    return one_of(name, RULES)


DatabasesOption = Annotated[
    Path,
    typer.Option("--databases", metavar="DIR", help="Holds <db_id>/<db_id>.sqlite."),
]
RuleOption = Annotated[
    str,
    typer.Option(
        "--rule",
        metavar="RULE",
        parser=_rule,
        help="When two results are equal: spider, bird, bird_soft_f1, strict or cartesian "
        "(see docs/graders.md).",
    ),
]


def grade_sql(
    source: AnswersOption,
    databases: DatabasesOption,
    target: VerdictsOption,
    rule: RuleOption = "bird",
    workers: WorkersOption = None,
    timeout: AnswerTimeoutOption = 5.0,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Grade rows of db_id, gold_sql and pred_sql (run as it is) or response (SQL is extracted).

    Every query runs in a worker process that can only read, and is killed when it hangs.
    """
    from dph._base.files.rows import column_names
    from dph.cli.grade_run import default_workers, run_grading
    from dph.tasks.grading.sql import SQLRowGrader, answer_column

    grader = SQLRowGrader(
        databases=databases,
        rule=rule,
        answers=answer_column(column_names(source)),
        workers=workers or default_workers(),
        timeout=timeout,
    )
    with grader:
        run_grading(source, target, grader=grader, resume=resume, replace=replace, as_json=as_json)
