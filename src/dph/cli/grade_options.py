"""The options that every ``dph grade`` verb has."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import ROW_FILES

AnswersOption = Annotated[
    Path, typer.Option("--input", metavar="FILE", help=f"Answers: {ROW_FILES}.")
]
VerdictsOption = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE",
        help=f"The rows with reward, outcome, reason, seconds added: {ROW_FILES}.",
    ),
]
AnswerTimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", help="Seconds that one answer may take.")
]
ReplaceOption = Annotated[
    bool,
    typer.Option("--replace", help="Leave out the verdicts of an earlier grading of the input."),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on where a killed run of the same command stopped.")
]
