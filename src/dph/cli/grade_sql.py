"""``dph grade sql``: run predicted SQL against the gold's result."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dph.cli.grade_options import (
    ReplaceOption,
    ResumeOption,
    SourceOption,
    TargetOption,
    TimeoutOption,
    WorkersOption,
)
from dph.cli.options import JsonOption


class RuleName(StrEnum):
    """The rules by name; a test holds them to the registry, which is not imported here."""

    SPIDER = "spider"
    BIRD = "bird"
    BIRD_SOFT_F1 = "bird_soft_f1"
    STRICT = "strict"
    CARTESIAN = "cartesian"


DatabasesOption = Annotated[
    Path,
    typer.Option("--databases", metavar="DIR", help="Holds <db_id>/<db_id>.sqlite."),
]
RuleOption = Annotated[
    RuleName, typer.Option("--rule", help="When two results are equal (see docs/graders.md).")
]


def grade_sql(
    source: SourceOption,
    databases: DatabasesOption,
    target: TargetOption,
    rule: RuleOption = RuleName.BIRD,
    workers: WorkersOption = None,
    timeout: TimeoutOption = 5.0,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Grade rows of db_id, gold_sql and pred_sql (run as it is) or response (SQL is extracted).

    Every query runs in a worker process that can only read, and is killed when it hangs.
    """
    from dph.cli.grade_run import default_workers, run_grading
    from dph.files.rows import column_names
    from dph.grading.sql import SQLRowGrader, answer_column

    grader = SQLRowGrader(
        databases=databases,
        rule=rule.value,
        answers=answer_column(column_names(source)),
        workers=workers or default_workers(),
        timeout=timeout,
    )
    with grader:
        run_grading(source, target, grader=grader, resume=resume, replace=replace, as_json=as_json)
