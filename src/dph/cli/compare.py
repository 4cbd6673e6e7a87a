"""``dph passk``, ``diagnose``, ``compare`` and ``show``: how often answers are right, and which."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.display.output import json_text, table_text, terminal_width
from dph.cli.options import (
    ROW_FILES,
    BootstrapSeed,
    ColumnOption,
    IntervalsSeed,
    JsonOption,
    SetNamesOption,
    argument,
    option,
)
from dph.errors import DataError
from dph.records import Outcome

if TYPE_CHECKING:
    from dph.cli.display.shown_problems import ProblemChoice, ShownProblems
    from dph.results.diagnosis.run_diagnosis import Diagnosis

RetentionOption = Annotated[
    int, option("--retention-k K", "Samples per draw for keep and explore.", min=1)
]


def passk(
    source: Annotated[
        Path,
        option(
            "--input FILE",
            f"problem_id and correct or reward in each row ({ROW_FILES}), or answers of "
            "another tool.",
        ),
    ],
    against: Path | None = option(
        "--against FILE", "Base model's file, for paired differences.", None
    ),
    ks: list[int] | None = option(
        "-k --k K", "k of Pass@k; may be repeated [default: 1, 2, 4 ...].", None, min=1
    ),
    retention_k: RetentionOption = 8,
    set_name: str | None = option("--set-name NAME", "Use only rows of this set.", None),
    seed: BootstrapSeed = 0,
    _columns: ColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute unbiased Pass@k from a file of graded samples.

    The table has the mean and Pass@k with 95% intervals over problems. A sample is correct if its
    outcome is CORRECT or, in a file without outcomes, if its reward is 1.
    """
    from dph.cli.display.comparison import passk_json, passk_table
    from dph.runs.evaluate.comparison import read_rewards, summarize_rewards

    rewards = read_rewards(source, set_name=set_name)
    others = None if against is None else read_rewards(against, set_name=set_name)
    summary = summarize_rewards(rewards, others, ks=ks, retention_k=retention_k, seed=seed)
    if as_json:
        typer.echo(json_text(passk_json(summary, source, against)))
    else:
        typer.echo(table_text(passk_table(summary, source, against, retention_k)))


KsOption = Annotated[
    list[int] | None, option("-k K", "k of Pass@k; may be repeated [default: 8, 16, 32].", min=1)
]


def diagnose(
    run: Annotated[
        Path,
        argument("RUN", "Evaluated run directory, a directory of runs, or another tool's answers."),
    ],
    against: Path | None = option(
        "--against RUN_OR_EVALUATION",
        "Compare with this run or evaluation [default: the run's initial policy].",
        None,
    ),
    set_names: SetNamesOption = None,
    ks: KsOption = None,
    fdr: float = option(
        "--fdr RATE",
        "Maximum chance of reporting any difference between two draws of one model.",
        0.05,
    ),
    died: float = option(
        "--died PART", "A style counts as dead if at most this fraction of its share is left.", 0.1
    ),
    styles: str | None = option(
        "--styles NAME", "Classify the answers: sql, first_operation or module:function.", None
    ),
    problems: int = option(
        "--problems N", "List at most N lost and N gained problems per set.", 10, min=0
    ),
    seed: IntervalsSeed = 0,
    _columns: ColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which problems and answer styles a run lost.

    The diagnosis also shows related signs in the training log. A problem counts as lost or gained
    if two draws of one model would almost never differ that much; docs/guides/diagnosis.md
    describes the tests. --json has every problem and every number.
    """
    from dph.cli.display.comparison import diagnosis_text
    from dph.results.diagnosis.run_diagnosis import diagnose as diagnose_run
    from dph.results.diagnosis.run_diagnosis import diagnosis_document
    from dph.results.read.found_runs import holds_runs

    def diagnosed(path: Path) -> "Diagnosis":
        asked = partial(diagnose_run, path, against, sets=set_names or (), ks=ks, fdr=fdr)
        return asked(died=died, styles=styles, seed=seed)

    several = holds_runs(run)
    found, notes = _of_each(run, diagnosed) if several else ([diagnosed(run)], [])
    for note in notes:
        typer.echo(note, err=True)
    if as_json:
        documents = [diagnosis_document(one) for one in found]
        all_of_them = {"schema": 1, "diagnoses": documents, "notes": notes}
        typer.echo(json_text(all_of_them if several else documents[0]))
    else:
        pages = (diagnosis_text(one, most=problems, width=terminal_width()) for one in found)
        typer.echo("\n\n".join(pages))


def _of_each(
    place: Path, diagnosed: Callable[[Path], "Diagnosis"]
) -> tuple[list["Diagnosis"], list[str]]:
    from dph.results.read.found_runs import runs_at

    found, notes = [], []
    for path in runs_at([place]):
        try:
            found.append(diagnosed(path))
        except DataError as error:  # the other runs can be told of without it
            notes.append(str(error))
    if not found:
        raise DataError("; ".join(notes))
    return found, notes


def compare(
    runs: Annotated[
        list[Path],
        argument(
            "RUN",
            "Run directories or other tools' answers; the first is the baseline. A single run or "
            "directory of runs is compared with its initial policy.",
        ),
    ],
    set_names: SetNamesOption = None,
    ks: KsOption = None,
    retention_k: RetentionOption = 8,
    problems: int = option(
        "--problems N",
        "List the N problems of each set that changed most, for every run.",
        0,
        min=0,
    ),
    seed: BootstrapSeed = 0,
    _columns: ColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare evaluated runs problem by problem, with intervals.

    Differences have 95% intervals. The tables also show the effective number of styles, and the
    shares of problems kept and explored.
    """
    from dph.cli.display.comparison import comparison_json, comparison_text
    from dph.results.read.found_runs import compared_runs
    from dph.results.vocabulary import run_labels
    from dph.runs.evaluate.comparison import compare as compare_scores
    from dph.runs.evaluate.evaluated_runs import default_ks, read_runs, runs_on_sets

    compared, notes = compared_runs(runs)
    scores = read_runs(compared, set_names or ())
    rows = compare_scores(scores, None, ks or default_ks(scores), seed)
    on_sets = runs_on_sets(scores, retention_k=retention_k, problems=problems, seed=seed)
    labels = run_labels(compared)
    for note in notes:
        typer.echo(note, err=True)
    shown = labels, rows, on_sets
    typer.echo(json_text(comparison_json(*shown)) if as_json else comparison_text(*shown))


AnswersOption = Annotated[
    int | None,
    option(
        "--answers N",
        "Show at most N different answers per problem [default: 6; all with --json].",
        min=1,
    ),
]


OutcomeOption = Annotated[
    Outcome | None,
    option(
        "--outcome OUTCOME",
        f"Show only problems with such answers: {', '.join(Outcome)}.",
        case_sensitive=False,
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
    run: Annotated[
        Path,
        argument("RUN", "Run directory, a directory with one run, or answers of another tool."),
    ],
    other: Path | None = argument("OTHER", "Second run to compare with the first.", None),
    lost: bool = option("--lost", "Show problems that RUN lost, by dph diagnose.", False),
    gained: bool = option("--gained", "Show problems that RUN gained, by dph diagnose.", False),
    pool: bool = option("--pool", "Show the answers in RUN's pool, or in the pool RUN.", False),
    step: int | None = option(
        "--step N", "Show answers that step N of training drew.", None, min=0
    ),
    problem: list[str] | None = option("--problem ID", "Problem to show; may be repeated.", None),
    outcome: OutcomeOption = None,
    set_name: str | None = option("--set-name NAME", "Use only this set.", None),
    limit: int = option("--limit N", "Show at most N problems.", 10, min=1),
    answers: AnswersOption = None,
    full: bool = option("--full", "Show texts in full length.", False),
    no_pager: NoPagerOption = False,
    _columns: ColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show problems, golds and answers of one or two runs.

    Equal answers are shown once, with their number in each run, outcome and reason. A problem
    counts as lost or gained if two draws of one model would almost never differ that much.
    --set-name and the other options limit what is shown, not which problems count.
    """
    from dph.cli.display.shown_problems import (
        ProblemChoice,
        drawn_problems,
        print_shown,
        shown_json,
    )

    choice = ProblemChoice(
        lost=lost,
        gained=gained,
        problems=tuple(problem or ()),
        outcome=outcome,
        set_name=set_name,
        limit=limit,
        answers=answers or (None if as_json else 6),
        full=full,
    )
    if pool or step is not None:
        if other or choice.change or (pool and step is not None):
            raise typer.BadParameter("--pool and --step show one of both, of RUN alone")
        shown = drawn_problems(run, step, choice)
    else:
        shown = _evaluated(run, other, choice, both=not as_json)
    if as_json:
        typer.echo(json_text(shown_json(shown)))
    else:
        print_shown(shown, pager=not no_pager)


def _evaluated(
    run: Path, other: Path | None, choice: "ProblemChoice", *, both: bool
) -> "ShownProblems":
    """The problems of both runs; people want the answers of both models to a lost problem."""
    from dph.cli.display.shown_problems import chosen_problems
    from dph.results.read.found_runs import the_run
    from dph.results.read.run_results import RunResults

    runs = [the_run(place) for place in (run, other) if place is not None]
    if choice.change and other is None and both:
        runs.append(RunResults(runs[0]).initial.required().path)
    shown = chosen_problems(runs, choice)
    if choice.change and not shown.of:
        typer.echo(
            "dph diagnose names the problems that only one of the two models solved", err=True
        )
    return shown
