"""``dph grade math``: compare mathematical answers with their golds."""

from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.grade_options import (
    ReplaceOption,
    ResumeOption,
    AnswersOption,
    VerdictsOption,
    AnswerTimeoutOption,
)
from dph.cli.options import JsonOption, WorkersOption

if TYPE_CHECKING:
    from dph.tasks.grading.math import MathRowGrader
    from dph.tasks.grading.own import VerifierRowGrader


VerifierOption = Annotated[
    str,
    typer.Option(
        "--verifier",
        metavar="NAME",
        help="math is strict; math_qwen agrees with Qwen2.5-Math's tool; number, exact, or a "
        "function of yours (module:function), whose problem has the gold as its answer.",
    ),
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
    source: AnswersOption,
    target: VerdictsOption,
    verifier: VerifierOption = "math",
    phrases: PhraseOption = None,
    any_expression: ExpressionOption = True,
    workers: WorkersOption = None,
    timeout: AnswerTimeoutOption = 5.0,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Grade rows of gold and response (the answer is found in it). Needs dph-rl[math].

    Every answer is read in a worker process, which is killed when it hangs.
    """
    from dph.cli.grade_run import default_workers, run_grading

    grader = _grader(
        verifier, phrases or None, any_expression, workers or default_workers(), timeout
    )
    with grader:
        run_grading(source, target, grader=grader, resume=resume, replace=replace, as_json=as_json)


def _grader(
    verifier: str, phrases: list[str] | None, any_expression: bool, workers: int, timeout: float
) -> "MathRowGrader | VerifierRowGrader":
    from dph.errors import SettingsError
    from dph.tasks.grading.math import MATH_VERIFIERS, MathRowGrader
    from dph.tasks.grading.own import VerifierRowGrader

    if verifier in MATH_VERIFIERS:
        return MathRowGrader(
            verifier=verifier,
            phrases=phrases,
            any_expression=any_expression,
            workers=workers,
            timeout=timeout,
        )
    if phrases is not None or not any_expression:
        raise SettingsError(
            f"--phrase and --no-any-expression are settings of math, not {verifier}"
        )
    return VerifierRowGrader(verifier, gold="gold", workers=workers, timeout=timeout)
