"""``dph show``: problems of evaluated runs with the answers to them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.options import ColumnOption, JsonOption, argument, option
from dph.records import Outcome

if TYPE_CHECKING:
    from dph.cli.display.shown_problems import Found, ProblemChoice

RunArgument = Annotated[
    Path, argument("RUN", "Run directory, a directory with one run, or answers of another tool.")
]
OtherArgument = Annotated[Path | None, argument("OTHER", "Second run to compare with the first.")]
ProblemOption = Annotated[
    list[str] | None, option("--problem ID", "Problem to show; may be repeated.")
]
OutcomeOption = Annotated[
    Outcome | None,
    option(
        "--outcome OUTCOME",
        f"Show only problems with such answers: {', '.join(Outcome)}.",
        case_sensitive=False,
    ),
]
PoolOption = Annotated[
    bool, option("--pool", "Show the answers in RUN's pool, or in the pool RUN.")
]
StepOption = Annotated[
    int | None, option("--step N", "Show answers that step N of training drew.", min=0)
]
SetNameOption = Annotated[str | None, option("--set-name NAME", "Use only this set.")]
LimitOption = Annotated[int, option("--limit N", "Show at most N problems.", min=1)]
AnswersOption = Annotated[
    int | None,
    option(
        "--answers N",
        "Show at most N different answers per problem [default: 6; all with --json].",
        min=1,
    ),
]
NoPagerOption = Annotated[
    bool,
    option(
        "--no-pager",
        "Print everything at once. Otherwise $PAGER [default: less] shows output that is "
        "longer than the terminal.",
    ),
]


def show(
    run: RunArgument,
    other: OtherArgument = None,
    lost: Annotated[
        bool, option("--lost", "Show problems that RUN lost, by dph diagnose.")
    ] = False,
    gained: Annotated[
        bool, option("--gained", "Show problems that RUN gained, by dph diagnose.")
    ] = False,
    pool: PoolOption = False,
    step: StepOption = None,
    problem: ProblemOption = None,
    outcome: OutcomeOption = None,
    set_name: SetNameOption = None,
    limit: LimitOption = 10,
    answers: AnswersOption = None,
    full: Annotated[bool, option("--full", "Show texts in full length.")] = False,
    no_pager: NoPagerOption = False,
    _columns: ColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show problems, golds and answers of one or two runs.

    Equal answers are shown once, with their number in each run, outcome and reason. A problem
    counts as lost or gained if two draws of one model would hardly ever differ as much. --set-name
    and the other options limit what is shown; they do not change which problems count.
    """
    from dph.cli.display.output import json_text
    from dph.cli.display.shown_problems import (
        ProblemChoice,
        Shown,
        drawn_problems,
        print_shown,
        shown_json,
    )
    from dph.results.vocabulary import run_labels

    choice = ProblemChoice(
        lost=lost, gained=gained, problems=tuple(problem or ()), outcome=outcome, set_name=set_name
    )
    if pool or step is not None:
        if other or choice.change or (pool and step is not None):
            raise typer.BadParameter("--pool and --step show one of both, of RUN alone")
        runs, (problems, of) = [run], drawn_problems(run, step, choice, limit=limit)
    else:
        runs, (problems, of) = _evaluated(run, other, choice, limit, both=not as_json)
    labels = run_labels(runs)
    shown = Shown(
        labels=tuple(labels[str(path)] for path in runs),
        problems=problems,
        of=of,
        chosen=choice.text,
        answers=answers or (None if as_json else 6),
        full=full,
    )
    if as_json:
        typer.echo(json_text(shown_json(shown, [str(path) for path in runs])))
    else:
        print_shown(shown, pager=not no_pager)


def _evaluated(
    run: Path, other: Path | None, choice: "ProblemChoice", limit: int, *, both: bool
) -> tuple[list[Path], "Found"]:
    """The runs and their problems; people want the answers of both models to a lost problem."""
    from dph.cli.display.shown_problems import chosen_problems
    from dph.results.read.found_runs import the_run
    from dph.results.read.run_results import RunResults

    runs = [the_run(place) for place in (run, other) if place is not None]
    if choice.change and other is None and both:
        runs.append(RunResults(runs[0]).initial.required().path)
    found = chosen_problems(runs, choice, limit=limit)
    if choice.change and not found[1]:
        typer.echo("dph diagnose names the problems that one of both models alone solved", err=True)
    return runs, found
