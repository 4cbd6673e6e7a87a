"""``dph grade``: verdicts on files of answers, by a user-defined or a built-in verifier."""

import inspect
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dph.cli.display.output import json_text, open_progress
from dph.cli.options import (
    FAILED,
    ROW_FILES,
    JsonOption,
    WorkersOption,
    add_verbs,
    column_pairs,
    group,
    one_of,
)
from dph.tasks.verifiers.table import TEXTS, VERIFIERS, VerifierSetting

if TYPE_CHECKING:
    from dph.tasks.grading import GradeSummary, RowGrader
    from dph.tasks.grading.rows import MathRowGrader, VerifierRowGrader


def default_workers() -> int:
    """A worker for each core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_grading(
    source: Path,
    target: Path,
    *,
    grader: "RowGrader",
    columns: list[str] | None,
    resume: bool,
    replace: bool,
    as_json: bool,
) -> None:
    """Grade ``source`` into ``target`` and print what came out."""
    from dph._base.files.rows import count_rows, read_rows
    from dph.records import Outcome
    from dph.tasks.grading import grade_file
    from dph.tasks.grading.stream import NamedColumns

    if columns:
        grader = NamedColumns(grader, column_pairs(columns))
    with open_progress().task("grade", count_rows(source), "rows") as advance:
        summary = grade_file(
            source,
            target,
            grader=grader,
            resume=resume,
            replace=replace,
            on_progress=lambda rows: advance(rows, ""),
        )
    if as_json:
        typer.echo(json_text(summary_json(summary, source, target)))
    else:
        typer.echo(summary_text(summary, target))
    answered = summary.rows - summary.outcomes.get(Outcome.NO_ANSWER, 0)
    if answered and summary.outcomes.get(Outcome.CRASHED) == answered:
        rows = (row for _, row in read_rows(target))
        crash = next(str(row["reason"]) for row in rows if row["outcome"] == Outcome.CRASHED)
        first = crash.partition("\n")[0]
        typer.echo(f"dph: grading crashed on every answer; the first: {first}", err=True)
        raise typer.Exit(FAILED)


def summary_json(summary: "GradeSummary", source: Path, target: Path) -> dict[str, Any]:
    """The summary as JSON."""
    speed = summary.rows_per_second
    return {
        "schema": 2,
        "input": str(source),
        "out": str(target),
        "rows": summary.rows,
        "graded_now": summary.graded,
        "mean_reward": summary.mean_reward,
        "mean_rows": summary.rows - summary.ungradable,
        "ungradable": summary.ungradable,
        "outcomes": {str(outcome): count for outcome, count in summary.outcomes.items()},
        "seconds": round(summary.seconds, 3),
        "rows_per_second": None if speed is None else round(speed, 1),
    }


def summary_text(summary: "GradeSummary", target: Path) -> str:
    """The summary for people: outcomes that occur, most frequent first."""
    lines = [f"{'outcome':<12}{'rows':>9}{'share':>9}"]
    ranked = sorted(summary.outcomes.items(), key=lambda item: -item[1])
    for outcome, count in ranked:
        if count:
            lines.append(f"{outcome:<12}{count:>9}{count / summary.rows:>9.1%}")
    mean = "" if summary.mean_reward is None else f", mean reward {summary.mean_reward:.4f}"
    if summary.ungradable:
        counts = (f"{n} {outcome}" for outcome, n in summary.ungradable_outcomes.items())
        over = "" if summary.mean_reward is None else f" over {summary.rows - summary.ungradable}"
        mean += f"{over} ({', '.join(counts)}: could not be graded, and not in the mean)"
    speed = summary.rows_per_second
    rate = "" if speed is None else f", {speed:,.0f} rows/s"
    earlier = summary.rows - summary.graded
    resumed = f" ({earlier} of them by an earlier run)" if earlier else ""
    lines.append(f"{summary.rows} rows{resumed}{mean}, {summary.seconds:.1f} s{rate} -> {target}")
    return "\n".join(lines)


AnswersOption = Annotated[
    Path, typer.Option("--input", metavar="FILE", help=f"Answers: {ROW_FILES}.")
]
VerdictsOption = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE",
        help=f"File for the rows with reward, outcome, reason and seconds added: {ROW_FILES}.",
    ),
]
AnswerTimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", help="Time limit of one answer, in seconds.")
]
ReplaceOption = Annotated[
    bool,
    typer.Option("--replace", help="Discard verdicts that the input has from an earlier grading."),
]
NamedColumnsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME=COLUMN",
        help="Name of a column in the input, such as gold=answer; may be repeated.",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Continue where a killed run of the same command stopped.")
]


ProblemsOption = Annotated[
    Path | None,
    typer.Option(
        "--problems",
        metavar="FILE",
        help=f"Problems with tests, looked up by problem_id: {ROW_FILES} "
        "[default: tests are in the rows].",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="S",
        help="Time limit of one test, in seconds; ten times that for all tests.",
    ),
]
MemoryOption = Annotated[
    int,
    typer.Option(
        "--memory-mb",
        metavar="MB",
        help="Address space limit of a program, in units of 10^6 bytes.",
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
    columns: NamedColumnsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grade Python programs against tests.

    Rows have a program (run unchanged) or a response (the program is extracted). The tests are in
    each row or in --problems: tests (Python) or cases (input and output), and entry_point, setup,
    prefix. Every program runs in a confined process without network.
    """
    from dph._base.files.rows import column_names
    from dph.tasks.grading.rows import CodeRowGrader

    grader = CodeRowGrader(
        columns=[*column_names(source), *column_pairs(columns)],
        problems=problems,
        workers=workers or default_workers(),
        timeout=timeout,
        memory_mb=memory,
    )
    with grader:
        if grader.missing:
            typer.echo(f"dph: not confined by {', '.join(grader.missing)}", err=True)
        run_grading(
            source,
            target,
            grader=grader,
            columns=columns,
            resume=resume,
            replace=replace,
            as_json=as_json,
        )


MathRuleOption = Annotated[
    str,
    typer.Option(
        "--verifier",
        metavar="NAME",
        help="math is strict; math_qwen agrees with Qwen2.5-Math's tool; number, exact, or your "
        "function (module:function), which gets the gold as the problem's answer.",
    ),
]
PhraseOption = Annotated[
    list[str] | None,
    typer.Option(
        "--phrase",
        metavar="TEXT",
        help="math: phrase that announces an answer without a box; may be repeated "
        "[default: answer is, answer: ...].",
    ),
]
ExpressionOption = Annotated[
    bool,
    typer.Option(
        "--any-expression/--no-any-expression",
        help="math: use the last expression if there is no box or phrase.",
    ),
]


def grade_math(
    source: AnswersOption,
    target: VerdictsOption,
    verifier: MathRuleOption = "math",
    phrases: PhraseOption = None,
    any_expression: ExpressionOption = True,
    workers: WorkersOption = None,
    timeout: AnswerTimeoutOption = 5.0,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    columns: NamedColumnsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grade mathematical answers. Needs dph-rl[math].

    Rows have a gold and a response from which the answer is extracted. Every answer is read in a
    worker process, which is killed if it hangs.
    """
    grader = _grader(
        verifier, phrases or None, any_expression, workers or default_workers(), timeout
    )
    with grader:
        run_grading(
            source,
            target,
            grader=grader,
            columns=columns,
            resume=resume,
            replace=replace,
            as_json=as_json,
        )


def _grader(
    verifier: str, phrases: list[str] | None, any_expression: bool, workers: int, timeout: float
) -> "MathRowGrader | VerifierRowGrader":
    from dph.errors import SettingsError
    from dph.tasks.grading.rows import MATH_VERIFIERS, MathRowGrader, VerifierRowGrader

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


def _rule(name: str) -> str:
    """A name of the registry, which is loaded when the command runs and not for its help."""
    from dph.tasks.verifiers.sql.rules import RULES

    return one_of(name, RULES)


DatabasesOption = Annotated[
    Path,
    typer.Option("--databases", metavar="DIR", help="Directory with <db_id>/<db_id>.sqlite."),
]
RuleOption = Annotated[
    str,
    typer.Option(
        "--rule",
        metavar="RULE",
        parser=_rule,
        help="Rule for equal results: spider, bird, bird_soft_f1, strict or cartesian "
        "(see docs/guides/grading.md).",
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
    columns: NamedColumnsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grade SQL queries by their results.

    Rows have db_id, gold_sql and either pred_sql (run unchanged) or response (the query is
    extracted). Every query runs in a worker process that can only read and that is killed if it
    hangs.
    """
    from dph._base.files.rows import column_names
    from dph.tasks.grading.rows import SQLRowGrader, answer_column

    grader = SQLRowGrader(
        databases=databases,
        rule=rule,
        answers=answer_column(column_names(source)),
        workers=workers or default_workers(),
        timeout=timeout,
    )
    with grader:
        run_grading(
            source,
            target,
            grader=grader,
            columns=columns,
            resume=resume,
            replace=replace,
            as_json=as_json,
        )


grade_app = group("grade", invoke_without_command=True)
add_verbs(grade_app, {"sql": grade_sql, "math": grade_math, "code": grade_code})

_Given = TypeVar("_Given")
_Verb = TypeVar("_Verb", bound=Callable[..., None])

SourceOption = Annotated[
    Path | None, typer.Option("--input", metavar="FILE", help=f"Answers: {ROW_FILES}.")
]
TargetOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="File for the rows with their verdicts."),
]
_HERE = {name: row for name, row in VERIFIERS.items() if not row.elsewhere}
"""The verifiers whose rows ``dph grade`` takes without a command."""
VerifierOption = Annotated[
    str | None,
    typer.Option(
        "--verifier",
        metavar="NAME",
        help=f"Your function (module:function), or one of {', '.join(_HERE)}.",
    ),
]


AuditOption = Annotated[
    str | None,
    typer.Option(
        "--audit",
        metavar="NAME",
        help="Instead of grading: try this reward function (module:function, with the signature of "
        "dph, TRL, verl or verifiers) or verifier on right, wrong and hostile answers.",
    ),
]
AuditProblemsOption = Annotated[
    Path | None,
    typer.Option("--problems", metavar="FILE", help=f"--audit: problems with golds: {ROW_FILES}."),
]

_KINDS = {TEXTS: (list[str], "TEXT"), int: (int, "N"), float: (float, "X"), bool: (bool, None)}
"""Type and placeholder of a setting's option, by the kind of its values; others are texts."""


def _setting_option(key: str, setting: VerifierSetting) -> inspect.Parameter:
    """A verifier's setting as an option; None is "not given"."""
    kind, metavar = _KINDS.get(setting.kind, (str, "NAME"))
    flag = key.replace("_", "-")
    option = typer.Option(
        f"--{flag}/--no-{flag}" if kind is bool else f"--{flag}",
        metavar=metavar,
        help=f"{setting.meaning[0].upper()}{setting.meaning[1:]}.",
    )
    return inspect.Parameter(
        key,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option],
    )


def _with_settings(verb: _Verb) -> _Verb:
    """The verb, whose ``**settings`` are an option for each setting of those verifiers."""
    signature = inspect.signature(verb)
    *usual, _ = signature.parameters.values()
    options = [
        _setting_option(key, setting)
        for row in _HERE.values()
        for key, setting in row.settings.items()
    ]
    verb.__signature__ = signature.replace(parameters=[*usual, *options])  # type: ignore[attr-defined]
    return verb


@grade_app.callback()
@_with_settings
def grade(
    context: typer.Context,
    source: SourceOption = None,
    target: TargetOption = None,
    verifier: VerifierOption = None,
    audit: AuditOption = None,
    problems: AuditProblemsOption = None,
    workers: WorkersOption = None,
    timeout: AnswerTimeoutOption = 5.0,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    columns: NamedColumnsOption = None,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Grade a file of answers: SQL, maths, code or any other.

    The output has the same rows with their verdicts. Without a command, every row has a response
    and may have a problem_id and a prompt; its other columns are the answer that the verifier
    reads. SQL, math and code have separate commands. --audit tries a reward function itself, and
    ends with 1 if it errs.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    if audit is not None:
        _audit(audit, problems, timeout, as_json=as_json)
        return
    from dph.tasks.grading.rows import VerifierRowGrader

    source, target = _given(source, "--input"), _given(target, "--out")
    name = _given(verifier, "--verifier")
    own = {key: value for key, value in settings.items() if value is not None}
    with VerifierRowGrader(
        name, workers=workers or default_workers(), timeout=timeout, **own
    ) as grader:
        run_grading(
            source,
            target,
            grader=grader,
            columns=columns,
            resume=resume,
            replace=replace,
            as_json=as_json,
        )


def _audit(name: str, problems: Path | None, timeout: float, *, as_json: bool) -> None:
    """Audit a function or a verifier; exit code 1 if there are findings."""
    from dph._base.import_path import is_import_path
    from dph.cli.display.audit import audit_json, audit_text
    from dph.tasks.grading.audit import audit_function, audit_verifier
    from dph.tasks.problems import load_problems
    from dph.tasks.verifiers import make_verifier

    own = load_problems(problems) if problems else ()
    if is_import_path(name):
        audit = audit_function(name, problems=own, timeout=timeout)
    else:
        made = make_verifier(one_of(name, _HERE), workers=1, timeout=timeout)
        with closing(made):
            audit = audit_verifier(made, problems=own)
    typer.echo(audit_json(audit) if as_json else audit_text(audit))
    if audit.findings:
        raise typer.Exit(FAILED)


def _refuse_options(context: typer.Context) -> None:
    """Refuse options before a command, which would be lost."""
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
