"""``dph grade``: verdicts on files of answers, by a user-defined or a built-in verifier."""

import inspect
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

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
    option,
)
from dph.errors import SettingsError
from dph.results.charts.text_table import visible
from dph.tasks.verifiers.table import TEXTS, VERIFIERS, require_own_settings

if TYPE_CHECKING:
    from dph.tasks.grading import GradeSummary
    from dph.tasks.grading.audit import Audit
    from dph.tasks.grading.rows import PairRowGrader


def default_workers() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


AnswersOption = Annotated[Path, option("--input FILE", f"Answers: {ROW_FILES}.")]
GradedOption = Annotated[
    Path, option("--out FILE", f"Rows with reward, outcome, reason and seconds added: {ROW_FILES}.")
]
AnswerTimeoutOption = Annotated[float, option("--timeout S", "Time limit per answer, in seconds.")]
ResumeOption = Annotated[
    bool, option("--resume", "Continue where an interrupted run of the same command stopped.")
]
ReplaceOption = Annotated[
    bool, option("--replace", "Discard verdicts that an earlier grading left in the input.")
]
NamedColumnsOption = Annotated[
    list[str] | None,
    option(
        "--column NAME=COLUMN",
        "Read COLUMN of the input as NAME, such as gold=answer; may be repeated.",
    ),
]


def run_grading(
    source: AnswersOption,
    target: GradedOption,
    *,
    grader: "PairRowGrader[Any]",
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    columns: NamedColumnsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grade ``source`` into ``target``, print what came out, and close the grader."""
    from dph._base.files.rows import column_names, count_rows, read_rows
    from dph.records import Outcome
    from dph.tasks.grading import grade_file

    named = column_pairs(columns)
    with grader, open_progress().task("grade", count_rows(source), "rows") as advance:
        summary = grade_file(
            source,
            target,
            grader=grader,
            columns=named,
            resume=resume,
            replace=replace,
            on_progress=lambda rows: advance(rows, ""),
        )
    for name in (name for name in named if name in column_names(source)):
        typer.echo(
            f"dph: {source} has another column {name!r}, which stays: give the next verb "
            f"--column {name}={named[name]} again",
            err=True,
        )
    document = summary_json(summary, source, target)
    typer.echo(json_text(document) if as_json else summary_text(summary, target))
    answered = summary.rows - summary.outcomes.get(Outcome.NO_ANSWER, 0)
    if answered and summary.outcomes.get(Outcome.CRASHED) == answered:
        rows = (row for _, row in read_rows(target))
        crash = next(str(row["reason"]) for row in rows if row["outcome"] == Outcome.CRASHED)
        first = crash.partition("\n")[0]
        typer.echo(f"dph: grading crashed on every answer; the first: {visible(first)}", err=True)
        raise typer.Exit(FAILED)


def summary_json(summary: "GradeSummary", source: Path, target: Path) -> dict[str, Any]:
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
    for outcome, count in sorted(summary.outcomes.items(), key=lambda item: -item[1]):
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


def _command(make: "Callable[..., PairRowGrader[Any]]") -> Callable[..., None]:
    """The command that grades with what ``make`` returns: the options of both functions."""
    own = inspect.signature(make).parameters
    usual = {**inspect.signature(run_grading).parameters}
    del usual["grader"]

    def command(**given: Any) -> None:
        grader = make(**{name: given[name] for name in own})
        run_grading(grader=grader, **{name: given[name] for name in usual})

    order = ["source", *(name for name in own if name not in usual), *usual]
    options = [{**own, **usual}[name] for name in dict.fromkeys(order)]
    options.sort(key=lambda each: each.default is not inspect.Parameter.empty)
    keyword = inspect.Parameter.KEYWORD_ONLY
    command.__doc__ = make.__doc__
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=keyword) for each in options]
    )
    return command


@_command
def grade_code(
    source: AnswersOption,
    target: GradedOption,
    problems: Path | None = option(
        "--problems FILE",
        f"Problems with tests, looked up by problem_id: {ROW_FILES} "
        "[default: tests are in the rows].",
        None,
    ),
    workers: WorkersOption = None,
    timeout: float = option(
        "--timeout S", "Time limit of one test, in seconds; ten times that for all tests.", 5.0
    ),
    memory: int = option(
        "--memory-mb MB", "Address space limit of a program, in units of 10^6 bytes.", 1000
    ),
    columns: NamedColumnsOption = None,
) -> "PairRowGrader[Any]":
    """Grade Python programs against tests.

    Rows have a program (run unchanged) or a response (the program is extracted). The tests are in
    each row or in --problems: tests (Python) or cases (input and output), and entry_point, setup,
    prefix. Every program runs in a confined process without network.
    """
    from dph._base.files import require_other_file
    from dph._base.files.rows import column_names
    from dph.tasks.grading.rows import CodeRowGrader

    if problems is not None:
        require_other_file(target, problems)
    named = column_pairs(columns)
    unread = {"program"} if "response" in named else set()
    grader = CodeRowGrader(
        columns=[*named, *(name for name in column_names(source) if name not in unread)],
        problems=problems,
        workers=workers or default_workers(),
        timeout=timeout,
        memory_mb=memory,
    )
    if grader.missing:
        typer.echo(f"dph: not confined by {', '.join(grader.missing)}", err=True)
    return grader


@_command
def grade_math(
    verifier: str = option(
        "--verifier NAME",
        "math is strict; math_qwen agrees with Qwen2.5-Math's tool; number, exact, or your "
        "function (module:function), which gets the gold as the problem's answer.",
        "math",
    ),
    phrases: list[str] | None = option(
        "--phrase TEXT",
        "math: phrase that announces an answer without a box; may be repeated "
        "[default: answer is, answer: ...].",
        None,
    ),
    any_expression: bool = option(
        "--any-expression/--no-any-expression",
        "math: use the last expression if there is no box or phrase.",
        True,
    ),
    workers: WorkersOption = None,
    timeout: AnswerTimeoutOption = 5.0,
) -> "PairRowGrader[Any]":
    """Grade mathematical answers. Needs dph-rl[math].

    Rows have a gold and a response from which the answer is extracted. Every answer is read in a
    worker process, which is killed if it hangs.
    """
    from dph.tasks.grading.rows import MATH_VERIFIERS, MathRowGrader, VerifierRowGrader

    limits: dict[str, Any] = {"workers": workers or default_workers(), "timeout": timeout}
    if verifier in MATH_VERIFIERS:
        own: dict[str, Any] = {"phrases": phrases or None, "any_expression": any_expression}
        return MathRowGrader(verifier=verifier, **own, **limits)
    if phrases or not any_expression:
        raise SettingsError(f"--phrase, --no-any-expression are settings of math, not {verifier}")
    return VerifierRowGrader(verifier, gold="gold", **limits)


@_command
def grade_sql(
    source: AnswersOption,
    databases: Annotated[Path, option("--databases DIR", "Directory with <db_id>/<db_id>.sqlite.")],
    rule: str = option(
        "--rule RULE",
        "Rule for equal results: spider, bird, bird_soft_f1, strict or cartesian "
        "(see docs/guides/grading.md).",
        "bird",
        parser=lambda name: one_of(name, get_args(VERIFIERS["sql"].settings["sql_rule"].kind)),
    ),
    workers: WorkersOption = None,
    timeout: AnswerTimeoutOption = 5.0,
    columns: NamedColumnsOption = None,
) -> "PairRowGrader[Any]":
    """Grade SQL queries by their results.

    Rows have db_id, gold_sql and either pred_sql (run unchanged) or response (the query is
    extracted). Every query runs in a worker process that can only read and that is killed if it
    hangs.
    """
    from dph._base.files.rows import column_names
    from dph.tasks.grading.rows import SQLRowGrader, answer_column

    named = [name for name in column_pairs(columns) if name in ("pred_sql", "response")]
    return SQLRowGrader(
        databases=databases,
        rule=rule,
        answers=answer_column(named or column_names(source)),
        workers=workers or default_workers(),
        timeout=timeout,
    )


grade_app = group("grade", invoke_without_command=True)
add_verbs(grade_app, {"sql": grade_sql, "math": grade_math, "code": grade_code})

_LONGEST = 100
"""Characters of a response or a reason that people are shown of an audit."""

_HERE = {name: row for name, row in VERIFIERS.items() if not row.elsewhere}
"""The verifiers whose rows ``dph grade`` takes without a command."""
_KINDS = {TEXTS: (list[str], " TEXT"), int: (int, " N"), float: (float, " X"), bool: (bool, "")}
"""Type and placeholder of a setting's option, by the kind of its values; others are texts."""


def _with_settings(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb, whose ``**settings`` are an option for each setting of those verifiers."""
    signature = inspect.signature(verb)
    *usual, settings = signature.parameters.values()
    options = []
    for key, setting in ((k, s) for row in _HERE.values() for k, s in row.settings.items()):
        kind, placeholder = _KINDS.get(setting.kind, (str, " NAME"))
        name = key.replace("_", "-")
        usage = f"--{name}/--no-{name}" if kind is bool else f"--{name}{placeholder}"
        told = option(usage, f"{setting.meaning[0].upper()}{setting.meaning[1:]}.")
        own = settings.replace(name=key, annotation=Annotated[kind | None, told])
        options.append(own.replace(kind=inspect.Parameter.KEYWORD_ONLY, default=None))  # not given
    verb.__signature__ = signature.replace(parameters=[*usual, *options])  # type: ignore[attr-defined]
    return verb


@grade_app.callback()
@_with_settings
def grade(
    context: typer.Context,
    source: Path | None = option("--input FILE", f"Answers: {ROW_FILES}.", None),
    target: Path | None = option("--out FILE", "File for the rows with their verdicts.", None),
    verifier: str | None = option(
        "--verifier NAME", f"Your function (module:function), or one of {', '.join(_HERE)}.", None
    ),
    audit: str | None = option(
        "--audit NAME",
        "Instead of grading: test this verifier or reward function (module:function, with the "
        "signature of dph, TRL, verl or verifiers) on right, wrong and hostile answers.",
        None,
    ),
    problems: Path | None = option(
        "--problems FILE", f"With --audit: problems with gold answers: {ROW_FILES}.", None
    ),
    workers: WorkersOption = None,
    timeout: AnswerTimeoutOption = 5.0,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    columns: NamedColumnsOption = None,
    as_json: JsonOption = False,
    **settings: Any,
) -> None:
    """Grade a file of answers: SQL, math, code or any other.

    The output is the input's rows with verdicts added. Without a command, every row has a response
    and may have a problem_id and a prompt; the verifier reads the other columns as the gold
    answer. SQL, math and code have separate commands. --audit tests a reward function instead, and
    exits with 1 if it finds a fault.
    """
    _refuse_lost_options(context, audit=audit is not None)
    if context.invoked_subcommand is not None:
        return
    own = {key: value for key, value in settings.items() if value is not None}
    if audit is not None:
        _audit(audit, problems, timeout, own, as_json=as_json)
        return
    from dph.tasks.grading.rows import VerifierRowGrader

    if source is None or target is None or verifier is None:
        needed = {"--input": source, "--out": target, "--verifier": verifier}
        flag = next(flag for flag, value in needed.items() if value is None)
        raise SettingsError(f"dph grade needs {flag}, or one of the commands sql, math and code")
    workers = workers or default_workers()
    run_grading(
        source,
        target,
        grader=VerifierRowGrader(verifier, workers=workers, timeout=timeout, **own),
        columns=columns,
        resume=resume,
        replace=replace,
        as_json=as_json,
    )


def _audit(
    name: str, problems: Path | None, timeout: float, settings: dict[str, Any], *, as_json: bool
) -> None:
    from dph._base.import_path import is_import_path
    from dph.tasks.grading.audit import BUILT_IN, audit_function, audit_verifier
    from dph.tasks.problems import load_problems
    from dph.tasks.verifiers import make_verifier

    require_own_settings(name, settings)
    own = load_problems(problems) if problems else BUILT_IN
    with open_progress().task("audit", len(own), "problems") as advance:
        if is_import_path(name):
            audit = audit_function(
                name, problems=own if problems else (), timeout=timeout, on_progress=advance
            )
        else:
            made = make_verifier(one_of(name, _HERE), workers=1, timeout=timeout, **settings)
            with closing(made):
                audit = audit_verifier(made, problems=own, on_progress=advance)
    found = _audit_document(audit)
    typer.echo(json_text(found) if as_json else _audit_text(found))
    if audit.findings:
        raise typer.Exit(FAILED)


def _audit_document(audit: "Audit") -> dict[str, Any]:
    """The forms that a reward function reads, and its findings; long responses are cut."""
    findings = []
    for fault in audit.findings:
        examples = [
            {
                "problem_id": probe.problem.problem_id,
                "gold": probe.gold,
                "form": probe.form,
                "response": probe.response[:1000],
                "characters": len(probe.response),
                "reward": reward.value,
                "reason": reward.reason,
                "seconds": reward.seconds,
            }
            for probe, reward in fault.examples
        ]
        findings.append(
            {"kind": fault.kind, "count": fault.count, "of": fault.of, "examples": examples}
        )
    return {
        "schema": 1,
        "function": audit.function,
        "signature": audit.signature,
        "calls": audit.calls,
        "median_seconds": audit.seconds,
        "reads": list(audit.reads),
        "not_read": list(audit.not_read),
        "golds_not_read": list(audit.golds_not_read),
        "findings": findings,
    }


def _audit_text(audit: dict[str, Any]) -> str:
    from dph.tasks.grading.audit import FORMS

    reads, not_read = audit["reads"], audit["not_read"]
    lines = [
        f"{audit['function']} (signature of {audit['signature']}): {audit['calls']} calls, "
        f"{audit['median_seconds']:.2g} s each",
        f"reads {len(reads)} of {len(FORMS)} forms: {', '.join(reads) or 'none'}",
    ]
    if reads and not_read:
        lines.append(f"does not read: {', '.join(not_read)}")
    if audit["golds_not_read"]:
        lines.append(f"cannot tell right from wrong for {', '.join(audit['golds_not_read'])}")
    for finding in audit["findings"]:
        lines.append(f"{finding['count']} of {finding['of']}: {finding['kind']}")
        for one in finding["examples"]:
            response, characters = f"{one['response'][:_LONGEST]!r}", one["characters"]
            if characters > _LONGEST:
                response += f"... ({characters} characters)"
            reason = next(iter(one["reason"].splitlines()), "no reason")[:_LONGEST]
            told = reason if one["reward"] is None else f"{one['reward']:g}"
            lines.append(f"    gold {one['gold']!r:.40}, response {response}: {told}")
    return "\n".join([*lines, f"findings: {len(audit['findings'])}"])


_OF_GRADING = ["source", "target", "verifier", "workers", "resume", "replace", "columns"]


def _refuse_lost_options(context: typer.Context, *, audit: bool) -> None:
    """Refuse options before a command, those of grading with --audit, and the reverse."""
    flags = {each.name: each.opts[0] for each in context.command.params if each.name}
    lost, why = ["problems"], "belongs to --audit, or after the command: dph grade code ..."
    if command := context.invoked_subcommand:
        lost, why = [*flags], f"belong after the command: dph grade {command} ..."
    elif audit:
        lost = _OF_GRADING
        why = "cannot be combined with --audit, which takes --problems, --timeout and settings"
    sources = {name: context.get_parameter_source(name) for name in lost}
    given = [flags[n] for n, each in sources.items() if each and each.name == "COMMANDLINE"]
    if given:
        raise SettingsError(f"{', '.join(given)} {why}")
