"""``dph corpus recall``: pages of a web corpus that are like a seed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.corpus.options import EngineOption, InputOption, OutOption, open_workers
from dph.cli.options import JsonOption, WorkersOption, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _classifier(name: str) -> str:
    from dph.corpus.recall.learnt import CLASSIFIERS

    return one_of(name, CLASSIFIERS)


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
RoundsOption = Annotated[
    int, typer.Option("--rounds", metavar="N", help="Maximum number of rounds.")
]
ThresholdOption = Annotated[
    float,
    typer.Option("--threshold", metavar="P", help="Lowest score at which a page is recalled."),
]
DomainShareOption = Annotated[
    float,
    typer.Option(
        "--domain-share",
        metavar="S",
        help="A domain is related if more than this share of its pages is recalled.",
    ),
]
ClassifierOption = Annotated[
    str,
    typer.Option(
        "--classifier",
        metavar="NAME",
        parser=_classifier,
        help="fasttext (floret), or sklearn: a logistic regression.",
    ),
]
VocabularyOption = Annotated[
    int, typer.Option("--vocabulary", metavar="N", help="Vocabulary size of the BPE to train.")
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the classifier.")]


def recall(
    pages: InputOption,
    seeds: SeedsOption,
    out: OutOption,
    rounds: RoundsOption = 3,
    patterns: PatternsOption = None,
    labelled: LabelledOption = None,
    threshold: ThresholdOption = 0.5,
    domain_share: DomainShareOption = 0.1,
    classifier: ClassifierOption = "fasttext",
    vocabulary: VocabularyOption = 32_000,
    seed: SeedOption = 0,
    workers: WorkersOption = None,
    engine: EngineOption = "cores",
    as_json: JsonOption = False,
) -> None:
    """Keep the pages that are like the seeds, and ask about the URLs around them.

    Each round learns a classifier, scores all pages and finds domains with many recalled pages.
    DIR/url_patterns.csv lists their sections: write yes or no under accept, pass the file to the
    next run, and pages of accepted sections that the classifier missed join the seed.
    """
    from dph.cli.corpus.options import print_corpus
    from dph.cli.display.output import table_text
    from dph.cli.display.progress import open_progress
    from dph.corpus.opening import open_input
    from dph.corpus.recall.learnt import RecallSettings
    from dph.corpus.recall.run import REVIEW, rounds_of
    from dph.corpus.recall.run import recall as run_recall

    settings = RecallSettings(
        rounds=rounds,
        threshold=threshold,
        domain_share=domain_share,
        classifier=classifier,
        vocabulary=vocabulary,
        seed=seed,
    )
    count = open_workers(engine, workers)
    corpus = open_input(pages, out, workers=count)
    known = open_input(seeds, out / ".seeds", workers=count)
    with open_progress().task("recall", len(corpus.shards) * (rounds + 1), "shards") as advance:
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
        typer.echo(_scores_line(rounds_of(out)[-1], threshold))
    print_corpus(kept, as_json=as_json)
    if not as_json and patterns is None:
        typer.echo(f"to continue: answer {out / REVIEW} and pass it with --patterns")


def _scores_line(last: "Mapping[str, Any]", threshold: float) -> str:
    """Place of the scores of the last round, and advice if none of them is high enough."""
    told = ", ".join(f"{value:.3f} at {name}" for name, value in last["quantiles"].items())
    line = f"scores of all pages by quantile: {told}"
    if last["by_score"]:
        return line
    return (
        f"{line}\nno page scores {threshold:g} or more, so none is recalled by score: give more "
        f"seeds, or pick a --threshold from these scores"
    )


def _table(rounds: "Sequence[Mapping[str, Any]]") -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    names = ("seeds", "others", "by_score", "by_url", "related_domains", "joined")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("round", *names, "recall", "precision"):
        table.add_column(name.replace("_", " "), justify="right")
    for one in rounds:
        shares = ("-" if one[name] is None else f"{one[name]:.3f}" for name in _SHARES)
        table.add_row(*(str(one[name]) for name in ("round", *names)), *shares)
    return table


_SHARES = ("recall", "precision")
