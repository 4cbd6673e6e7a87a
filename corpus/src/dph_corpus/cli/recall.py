"""``dph-corpus recall``: pages of a web corpus that are like a seed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.display.output import open_progress, table_text
from dph.cli.options import JsonOption, WorkersOption
from dph_corpus.cli.options import InputOption, OutOption, print_corpus, settings_options, table_of
from dph_corpus.settings import RecallSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table


SeedsOption = Annotated[
    Path,
    typer.Option(
        "--seeds", metavar="PATH", help="Examples of the documents to find; same forms as --input."
    ),
]
PatternsOption = Annotated[
    Path | None,
    typer.Option(
        "--patterns",
        metavar="FILE",
        help="A url_patterns.csv of an earlier run with yes or no under accept. Without it, "
        "nothing joins the seed and one round is run.",
    ),
]
LabelledOption = Annotated[
    Path | None,
    typer.Option(
        "--labelled",
        metavar="FILE",
        help="Page ids with their relevance, to measure recall and precision.",
    ),
]


@settings_options(RecallSettings, after={"rounds": ("patterns", "labelled")})
def recall(
    settings: RecallSettings,
    pages: InputOption,
    seeds: SeedsOption,
    out: OutOption,
    patterns: PatternsOption = None,
    labelled: LabelledOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep the pages that are like the seeds.

    Each round trains a classifier, scores all pages and finds domains with many recalled pages.
    DIR/url_patterns.csv lists the sections of these domains. Write yes or no under accept and pass
    the file to the next run: in accepted sections, the pages that the classifier missed are added
    to the seeds.
    """
    from dph.cli.grade import default_workers
    from dph_corpus.ingest.run import open_input
    from dph_corpus.recall.run import REVIEW, rounds_of
    from dph_corpus.recall.run import recall as run_recall

    count = workers or default_workers()
    corpus = open_input(pages, out, workers=count)
    total = len(corpus.shards) * (settings.rounds + 1)
    known = open_input(seeds, out / ".seeds", workers=count)
    with open_progress().task("recall", total, "shards") as advance:
        kept = run_recall(
            corpus,
            known,
            out,
            settings=settings,
            patterns=patterns,
            labelled=labelled,
            workers=count,
            on_progress=advance,
        )
    if not as_json:
        typer.echo(table_text(_table(rounds_of(out))))
        typer.echo(_scores_line(rounds_of(out)[-1]))
    print_corpus(kept, as_json=as_json)
    if not as_json and patterns is None:
        typer.echo(f"to continue: answer {out / REVIEW} and pass it with --patterns")


def _scores_line(last: "Mapping[str, Any]") -> str:
    """Scores of the last round, its threshold, and the one that divides the pages best."""
    told = ", ".join(f"{value:.3f} at {name}" for name, value in last["quantiles"].items())
    threshold, division = last["threshold"], last["division"]
    lines = [
        f"scores of all pages by quantile: {told}",
        f"recalled from a score of {threshold:.3g} on: {last['by_score']} pages",
    ]
    if division != threshold:
        lines.append(
            f"the pages divide best at a score of {division:.3g}, which {last['divided']} reach; "
            f"--divide takes it as the threshold"
        )
    if not last["by_score"]:
        lines.append(
            f"no page scores {threshold:g} or more, so none is recalled by score: give more seeds, "
            f"--divide, or pick a --threshold from these scores"
        )
    return "\n".join(lines)


def _table(rounds: "Sequence[Mapping[str, Any]]") -> "Table":
    names = ("seeds", "others", "by_score", "by_url", "related_domains", "joined")
    columns = (name.replace("_", " ") for name in ("round", *names, "recall", "precision"))
    table = table_of(numbers=tuple(columns))
    for one in rounds:
        shares = ("-" if one[name] is None else f"{one[name]:.3f}" for name in _SHARES)
        table.add_row(*(str(one[name]) for name in ("round", *names)), *shares)
    return table


_SHARES = ("recall", "precision")
