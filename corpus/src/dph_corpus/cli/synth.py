"""``dph-corpus synth``: rows that a model writes and that are kept because they were executed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.display.output import json_text, open_progress
from dph.cli.options import ROW_FILES, JsonOption, WorkersOption
from dph.errors import SettingsError
from dph_corpus.cli.options import OutOption, named_values, print_corpus, settings_options
from dph_corpus.settings import DOCUMENTATION, SQL, SynthSettings

if TYPE_CHECKING:
    from dph_corpus.instruct import InstructFile


def instruct(
    out: OutOption,
    parts: Annotated[
        list[str],
        typer.Option(
            "--part",
            metavar="NAME=FILE",
            help=f"Rows with prompt and response, or messages, {ROW_FILES}; may be repeated.",
        ),
    ],
    rows: Annotated[
        list[str] | None,
        typer.Option("--rows", metavar="NAME=COUNT", help="Number of rows of a part."),
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(
            "--stage",
            metavar="NAME",
            help="OpenCoder's numbers instead of --rows: stage1 or stage2.",
        ),
    ] = None,
    tests: Annotated[
        list[str] | None,
        typer.Option(
            "--tests", metavar="NAME=FILE", help=f"A test set, {ROW_FILES}; may be repeated."
        ),
    ] = None,
    checks: Annotated[
        list[str] | None,
        typer.Option(
            "--check",
            metavar="NAME",
            help="Ways of comparing rows with tests: words (10 in a row), entry_point, prompt "
            "(all of it) [default: all].",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write rows for `dph-corpus sft` from parts, without copies.

    DIR/rows.jsonl has a uniform sample of each part, without rows of a test set. A shortfall is
    reported.
    """
    from dph_corpus.instruct import DEFAULT_CHECKS
    from dph_corpus.instruct import instruct as write_instruct

    files = {name: Path(path) for name, path in named_values(parts, "--part").items()}
    sets = {name: Path(path) for name, path in named_values(tests or [], "--tests").items()}
    with open_progress().task("instruct", len(files), "parts") as advance:
        made = write_instruct(
            files,
            out,
            quotas=_quotas(rows, stage),
            sets=sets,
            checks=checks or DEFAULT_CHECKS,
            on_progress=advance,
        )
    typer.echo(json_text(dict(made.manifest)) if as_json else _told(made))


def _told(made: "InstructFile") -> str:
    """Numbers taken, left out and written, for people."""
    lines = []
    for name, count in made.manifest["taken"].items():
        read, short = made.manifest["read"].get(name, 0), made.manifest["short"][name]
        lines.append(f"{name}: {count} of {read} rows" + (f", {short} short" if short else ""))
    for reason, count in made.manifest["left_out"].items():
        lines.append(f"left out for {reason}: {count}")
    return "\n".join([*lines, f"{made.manifest['rows']} rows -> {made.path}"])


def _quotas(rows: list[str] | None, stage: str | None) -> dict[str, int]:
    from dph_corpus.instruct import STAGES

    if bool(rows) == bool(stage):
        raise SettingsError("give --rows NAME=COUNT for each part, or --stage, not both")
    if stage is not None:
        if stage not in STAGES:
            raise SettingsError(f"--stage is one of {', '.join(STAGES)}, got {stage!r}")
        return dict(STAGES[stage])
    found: dict[str, int] = {}
    for name, text in named_values(rows or [], "--rows").items():
        if not text.isdecimal():
            raise SettingsError(f"--rows {name} must be a whole number, got {text!r}")
        found[name] = int(text)
    return found


@settings_options(SynthSettings)
def synth(
    settings: SynthSettings,
    out: OutOption,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a model write functions or queries; keep what passes.

    Functions come with tests, questions with SQL. A function is kept if it passes its tests, if
    wrong programs fail them, if it does not hard-code the expected values, and if a second
    function, written only from the task, agrees. A query is kept if it returns other rows than
    queries that are wrong in one place. DIR/rows.parquet is for training, DIR/problems.jsonl for
    evaluation.
    """
    from dph.cli.grade import default_workers
    from dph_corpus.cookbook.writers import open_generator
    from dph_corpus.ingest.run import open_input
    from dph_corpus.synth.run import synthesise
    from dph_corpus.synth.seeds import seeds_of
    from dph_corpus.synth.writing import open_writer

    count = workers or default_workers()
    given = [f"--{name}" for name in ("input", "modules", "databases") if getattr(settings, name)]
    wanted = {DOCUMENTATION: "--modules", SQL: "--databases"}.get(settings.kind, "--input")
    if given != [wanted]:
        raise SettingsError(f"--kind {settings.kind} takes only {wanted} as its input")
    model = settings.model
    if bool(settings.generator) == bool(model) or (settings.server and not model):
        raise SettingsError(
            "name a writer: --model NAME, --server URL --model NAME, or --generator"
        )
    seeds = seeds_of(settings, lambda path: open_input(path, out, workers=count))
    generator = open_generator(settings)
    with (
        open_writer(settings, generator, workers=count) as write,
        open_progress().task("synth", len(seeds) * settings.samples, "answers") as advance,
    ):
        made = synthesise(
            settings, seeds, write, out, generator=generator.identity, on_progress=advance
        )
    print_corpus(made, as_json=as_json)
