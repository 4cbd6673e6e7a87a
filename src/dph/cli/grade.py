"""``dph grade``: verdicts on files of answers, by a verifier of one's own or a built-in one."""

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from dph.cli.grade_code import grade_code
from dph.cli.grade_math import grade_math
from dph.cli.grade_options import (
    ReplaceOption,
    ResumeOption,
    AnswerTimeoutOption,
)
from dph.cli.grade_sql import grade_sql
from dph.cli.options import ROW_FILES, JsonOption, WorkersOption

grade_app = typer.Typer(
    name="grade",
    no_args_is_help=True,
    invoke_without_command=True,
    rich_markup_mode=None,
)
grade_app.command("sql")(grade_sql)
grade_app.command("math")(grade_math)
grade_app.command("code")(grade_code)

_Given = TypeVar("_Given")

SourceOption = Annotated[
    Path | None, typer.Option("--input", metavar="FILE", help=f"Answers: {ROW_FILES}.")
]
TargetOption = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="The rows with their verdicts.")
]
VerifierOption = Annotated[
    str | None,
    typer.Option(
        "--verifier",
        metavar="NAME",
        help="A function of yours (module:function), or number, exact, math, math_qwen.",
    ),
]


@grade_app.callback()
def grade(
    context: typer.Context,
    source: SourceOption = None,
    target: TargetOption = None,
    verifier: VerifierOption = None,
    workers: WorkersOption = None,
    timeout: AnswerTimeoutOption = 5.0,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Grade a file of answers: the same rows come out with their verdicts.

    Without a command every row has a response, may have a problem_id and a prompt, and its other
    columns are the problem's answer, which the verifier reads. SQL, math and code have commands of
    their own.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    from dph.cli.grade_run import default_workers, run_grading
    from dph.tasks.grading.own import VerifierRowGrader

    source, target = _given(source, "--input"), _given(target, "--out")
    name = _given(verifier, "--verifier")
    with VerifierRowGrader(name, workers=workers or default_workers(), timeout=timeout) as grader:
        run_grading(source, target, grader=grader, resume=resume, replace=replace, as_json=as_json)


def _refuse_options(context: typer.Context) -> None:
    """What stands before a command would be lost."""
    from dph.errors import SettingsError

    flags = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    given = [
        flag
        for name, flag in flags.items()
        if name and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if given:
        command = context.invoked_subcommand
        raise SettingsError(f"{', '.join(given)} belong after the command: dph grade {command} ...")


def _given(value: _Given | None, flag: str) -> _Given:
    """The value of an option that is needed where there is no command."""
    from dph.errors import SettingsError

    if value is None:
        raise SettingsError(f"dph grade needs {flag}, or one of the commands sql, math and code")
    return value
