"""``dph diagnose``: what a run lost against its initial policy, and where it went."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.options import JsonOption, OlderSetOption, SetNamesOption, renamed_set

if TYPE_CHECKING:
    from dph.results.diagnosis import Diagnosis

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run directory, evaluated, or a directory of runs.")
]
AgainstOption = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="RUN_OR_EVALUATION",
        help="Compare with this run or evaluation [default: the run's initial policy].",
    ),
]
KOption = Annotated[
    list[int] | None,
    typer.Option(
        "-k", min=1, metavar="K", help="k of Pass@k; may be repeated [default: 8, 16, 32]."
    ),
]
FdrOption = Annotated[
    float,
    typer.Option(
        "--fdr",
        metavar="RATE",
        help="Chance that two draws of one model are told apart in anything.",
    ),
]
DiedOption = Annotated[
    float,
    typer.Option(
        "--died", metavar="PART", help="A style died when at most this part of its share is left."
    ),
]
ProblemsOption = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="List at most N lost and N gained problems a set."),
]


def diagnose(
    run: RunArgument,
    against: AgainstOption = None,
    set_names: SetNamesOption = None,
    older_set: OlderSetOption = None,
    ks: KOption = None,
    fdr: FdrOption = 0.05,
    died: DiedOption = 0.1,
    problems: ProblemsOption = 10,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the intervals.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say which problems and ways of answering a run lost, and what its log says about it.

    A problem is lost or gained when two draws of one model would not show as much;
    docs/diagnosis.md says what is tested and what is not. --json has every problem and every
    number.
    """
    from dph.cli.display.diagnosis import diagnosis_text
    from dph.cli.display.output import terminal_width
    from dph.results.diagnosis import diagnose as diagnose_run
    from dph.runs.found_runs import holds_runs

    sets = renamed_set(older_set, set_names, now="--set-name") or ()

    def diagnosed(path: Path) -> "Diagnosis":
        return diagnose_run(path, against, sets=sets, ks=ks, fdr=fdr, died=died, seed=seed)

    several = holds_runs(run)
    found, notes = _of_each(run, diagnosed) if several else ([diagnosed(run)], [])
    for note in notes:
        typer.echo(note, err=True)
    if as_json:
        typer.echo(_json(found, notes, several=several))
    else:
        width = terminal_width()
        pages = (diagnosis_text(one, most=problems, width=width) for one in found)
        typer.echo("\n\n".join(pages))


def _of_each(
    place: Path, diagnosed: Callable[[Path], "Diagnosis"]
) -> tuple[list["Diagnosis"], list[str]]:
    """The diagnoses of the runs in a directory, and why others have none.

    Raises:
        DataError: there is no run, or none that can be diagnosed.
    """
    from dph.errors import DataError
    from dph.runs.found_runs import runs_at

    found, notes = [], []
    for path in runs_at([place]):
        try:
            found.append(diagnosed(path))
        except DataError as error:  # the other runs can be told of without it
            notes.append(str(error))
    if not found:
        raise DataError("; ".join(notes))
    return found, notes


def _json(found: Sequence["Diagnosis"], notes: Sequence[str], *, several: bool) -> str:
    """The document of one run, or those of a directory."""
    from dph.cli.display.output import json_text
    from dph.results.diagnosis import diagnosis_document

    documents = [diagnosis_document(one) for one in found]
    if not several:
        return json_text(documents[0])
    return json_text({"schema": 1, "diagnoses": documents, "notes": notes})
