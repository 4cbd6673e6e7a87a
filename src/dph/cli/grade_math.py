"""``dph grade math``: compare mathematical answers with their golds."""

from enum import StrEnum
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


class MathVerifierName(StrEnum):
    """The verifiers by name; a test holds them to the registry, which is not imported here."""

    MATH = "math"
    MATH_QWEN = "math_qwen"


VerifierOption = Annotated[
    MathVerifierName,
    typer.Option("--verifier", help="math is strict; math_qwen agrees with Qwen2.5-Math's tool."),
]
PhraseOption = Annotated[
    list[str] | None,
    typer.Option(
        "--phrase",
        metavar="TEXT",
        help="math: what announces an answer without a box; may be repeated "
        "[default: answer is, answer: ...].",
    ),
]
ExpressionOption = Annotated[
    bool,
    typer.Option(
        "--any-expression/--no-any-expression",
        help="math: without box and phrase, the last expression counts.",
    ),
]


def grade_math(
    source: SourceOption,
    target: TargetOption,
    verifier: VerifierOption = MathVerifierName.MATH,
    phrases: PhraseOption = None,
    any_expression: ExpressionOption = True,
    workers: WorkersOption = None,
    timeout: TimeoutOption = 5.0,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Grade rows of gold and response (the answer is found in it). Needs dph-rl[math].

    Every answer is read in a worker process, which is killed when it hangs.
    """
    from dph.cli.grade_run import default_workers, run_grading
    from dph.grading.math import MathRowGrader

    workers = workers or default_workers()
    with MathRowGrader(
        verifier=verifier.value,
        phrases=phrases or None,
        any_expression=any_expression,
        workers=workers,
        timeout=timeout,
    ) as grader:
        run_grading(source, target, grader=grader, resume=resume, replace=replace, as_json=as_json)
