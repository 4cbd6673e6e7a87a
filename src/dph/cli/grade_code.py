"""``dph grade code``: run programs against tests."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.grade_options import (
    ReplaceOption,
    ResumeOption,
    AnswersOption,
    VerdictsOption,
)
from dph.cli.options import ROW_FILES, JsonOption, WorkersOption

ProblemsOption = Annotated[
    Path | None,
    typer.Option(
        "--problems",
        metavar="FILE",
        help=f"Problems with the tests, found by problem_id: {ROW_FILES} "
        "[default: every row has its own].",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", metavar="S", help="Seconds for one test; ten times that for all."),
]
MemoryOption = Annotated[
    int,
    typer.Option(
        "--memory-mb", metavar="MB", help="Address space of a program, in units of 10^6 bytes."
    ),
]


def grade_code(
    source: AnswersOption,
    target: VerdictsOption,
    problems: ProblemsOption = None,
    workers: WorkersOption = None,
    timeout: TimeoutOption = 5.0,
    memory: MemoryOption = 1000,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Grade rows of program (run as it is) or response (the program is extracted), in Python.

    The tests are in each row or in --problems: tests (Python) or cases (input and output), and
    entry_point, setup, prefix. Every program runs in a confined process without network.
    """
    from dph._base.files.rows import column_names
    from dph.cli.grade_run import default_workers, run_grading
    from dph.tasks.grading.code import CodeRowGrader

    grader = CodeRowGrader(
        columns=column_names(source),
        problems=problems,
        workers=workers or default_workers(),
        timeout=timeout,
        memory_mb=memory,
    )
    with grader:
        if grader.missing:
            typer.echo(f"dph: not confined by {', '.join(grader.missing)}", err=True)
        run_grading(source, target, grader=grader, resume=resume, replace=replace, as_json=as_json)
