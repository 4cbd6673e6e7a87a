"""``dph passk``, ``dph compare`` and ``dph diagnose``: how often answers are right, and changes."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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

if TYPE_CHECKING:
    from dph.results.diagnosis.run_diagnosis import Diagnosis

RetentionOption = Annotated[
    int, option("--retention-k K", "Samples of a draw for keep and explore.", min=1)
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
    against: Annotated[
        Path | None, option("--against FILE", "Base model's file, for paired differences.")
    ] = None,
    ks: Annotated[
        list[int] | None,
        option("-k --k K", "k of Pass@k; may be repeated [default: 1, 2, 4 ...].", min=1),
    ] = None,
    retention_k: RetentionOption = 8,
    set_name: Annotated[str | None, option("--set-name NAME", "Use only rows of this set.")] = None,
    seed: BootstrapSeed = 0,
    _columns: ColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compute unbiased Pass@k of a file of graded samples.

    The table has the mean and Pass@k with 95% intervals over problems. A sample is correct if its
    outcome is CORRECT or, in a file without outcomes, if its reward is 1.
    """
    from dph.cli.display.comparison import passk_json, passk_table
    from dph.cli.display.output import json_text, table_text
    from dph.runs.evaluate.comparison import read_rewards, summarize_rewards

    rewards = read_rewards(source, set_name=set_name)
    others = None if against is None else read_rewards(against, set_name=set_name)
    summary = summarize_rewards(rewards, others, ks=ks, retention_k=retention_k, seed=seed)
    if as_json:
        typer.echo(json_text(passk_json(summary, source, against)))
    else:
        typer.echo(table_text(passk_table(summary, source, against, retention_k)))


RunArgument = Annotated[
    Path,
    argument("RUN", "Evaluated run directory, a directory of runs, or answers of another tool."),
]
AgainstOption = Annotated[
    Path | None,
    option(
        "--against RUN_OR_EVALUATION",
        "Compare with this run or evaluation [default: the run's initial policy].",
    ),
]
KOption = Annotated[
    list[int] | None, option("-k K", "k of Pass@k; may be repeated [default: 8, 16, 32].", min=1)
]
FdrOption = Annotated[
    float,
    option("--fdr RATE", "Chance of reporting any difference between two draws of one model."),
]
DiedOption = Annotated[
    float,
    option(
        "--died PART", "A style counts as dead when at most this fraction of its share is left."
    ),
]
ListedOption = Annotated[
    int, option("--problems N", "List at most N lost and N gained problems per set.", min=0)
]


def diagnose(
    run: RunArgument,
    against: AgainstOption = None,
    set_names: SetNamesOption = None,
    ks: KOption = None,
    fdr: FdrOption = 0.05,
    died: DiedOption = 0.1,
    problems: ListedOption = 10,
    seed: IntervalsSeed = 0,
    _columns: ColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which problems and ways of answering a run lost.

    The diagnosis also shows what the training log says about it. A problem counts as lost or gained
    if two draws of one model would hardly ever differ as much; docs/guides/diagnosis.md describes
    the tests. --json has every problem and every number.
    """
    from dph.cli.display.diagnosis import diagnosis_text
    from dph.cli.display.output import json_text, terminal_width
    from dph.results.diagnosis.run_diagnosis import diagnose as diagnose_run
    from dph.results.diagnosis.run_diagnosis import diagnosis_document
    from dph.results.read.found_runs import holds_runs

    sets = set_names or ()

    def diagnosed(path: Path) -> "Diagnosis":
        return diagnose_run(path, against, sets=sets, ks=ks, fdr=fdr, died=died, seed=seed)

    several = holds_runs(run)
    found, notes = _of_each(run, diagnosed) if several else ([diagnosed(run)], [])
    for note in notes:
        typer.echo(note, err=True)
    if as_json:
        documents = [diagnosis_document(one) for one in found]
        all_of_them = {"schema": 1, "diagnoses": documents, "notes": notes}
        typer.echo(json_text(all_of_them if several else documents[0]))
    else:
        width = terminal_width()
        pages = (diagnosis_text(one, most=problems, width=width) for one in found)
        typer.echo("\n\n".join(pages))


def _of_each(
    place: Path, diagnosed: Callable[[Path], "Diagnosis"]
) -> tuple[list["Diagnosis"], list[str]]:
    """The diagnoses of the runs in a directory, and why others have none."""
    from dph.errors import DataError
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
            "Run directories or answers of other tools; the first is the baseline. One run, or a "
            "directory of runs, is compared with its initial policy.",
        ),
    ],
    set_names: SetNamesOption = None,
    ks: KOption = None,
    retention_k: RetentionOption = 8,
    problems: Annotated[
        int,
        option(
            "--problems N", "List the N most changed problems of each set, for every run.", min=0
        ),
    ] = 0,
    seed: BootstrapSeed = 0,
    _columns: ColumnOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare evaluated runs problem by problem, with intervals.

    Differences have 95% intervals. The tables also have the effective number of styles, and the
    shares of problems kept and explored.
    """
    from dph.cli.display.comparison import comparison_json, comparison_text
    from dph.cli.display.output import json_text
    from dph.results.read.found_runs import compared_runs
    from dph.results.vocabulary import run_labels
    from dph.runs.evaluate.comparison import compare as compare_scores
    from dph.runs.evaluate.evaluated_runs import default_ks, read_runs, runs_on_sets

    found = compared_runs(runs)
    scores = read_runs(found.runs, set_names or ())
    rows = compare_scores(scores, None, ks or default_ks(scores), seed)
    on_sets = runs_on_sets(scores, retention_k=retention_k, problems=problems, seed=seed)
    labels = run_labels(found.runs)
    for note in found.notes:
        typer.echo(note, err=True)
    if as_json:
        typer.echo(json_text(comparison_json(labels, rows, on_sets)))
    else:
        typer.echo(comparison_text(labels, rows, on_sets))
