"""``dph corpus synth``: rows that a model writes and that are kept because they were executed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.corpus.options import OutOption, named_values
from dph.cli.options import ROW_FILES, JsonOption, WorkersOption, one_of

if TYPE_CHECKING:
    from dph.corpus.instruct import InstructFile
    from dph.corpus.synth.generators import Generator
    from dph.corpus.synth.seeds import Seed


# ``dph corpus instruct``: the rows of one stage of fine-tuning.


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
    """Write DIR/rows.jsonl for `dph sft`: a number of rows of each part, no copies, none of a test.

    The rows are a uniform sample. A part that is too small leaves a shortfall, which is reported.
    """
    from dph.cli.display.output import json_text
    from dph.cli.display.progress import open_progress
    from dph.corpus.instruct import DEFAULT_CHECKS
    from dph.corpus.instruct import instruct as write_instruct

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
    from dph.corpus.instruct import STAGES
    from dph.errors import SettingsError

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


def _kind(name: str) -> str:
    from dph.corpus.synth.seeds import PROMPTS

    return one_of(name, PROMPTS)


KindOption = Annotated[
    str,
    typer.Option(
        "--kind",
        metavar="KIND",
        parser=_kind,
        help="functions or instructions (from --input), documentation (from --modules), sql (from "
        "--databases).",
    ),
]
SeedsOption = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="PATH",
        help="Documents to start from: code, or tasks to make harder; same forms as in other "
        "stages.",
    ),
]
ModulesOption = Annotated[
    str,
    typer.Option("--modules", metavar="A,B", help="Modules with the documented functions to use."),
]
DatabasesOption = Annotated[
    Path | None,
    typer.Option("--databases", metavar="DIR", help="Holds <name>/<name>.sqlite."),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Directory of a model or its name on the Hub; with --server, its name there.",
    ),
]
ServerOption = Annotated[
    str,
    typer.Option("--server", metavar="URL", help="A server that speaks OpenAI's protocol."),
]
GeneratorOption = Annotated[
    str,
    typer.Option(
        "--generator",
        metavar="MODULE:FUNCTION",
        help="Your own function: takes prompts and seeds, returns as many texts.",
    ),
]
KeyOption = Annotated[
    str,
    typer.Option("--key-env", metavar="NAME", help="Environment variable with the server's key."),
]
MostOption = Annotated[
    int | None,
    typer.Option("--most", min=1, metavar="N", help="Maximum number of seeds [default: all]."),
]
SamplesOption = Annotated[
    int, typer.Option("--samples", min=1, metavar="N", help="Number of answers per seed.")
]
TokensOption = Annotated[
    int, typer.Option("--max-tokens", min=1, metavar="N", help="Maximum tokens of an answer.")
]
TemperatureOption = Annotated[
    float, typer.Option("--temperature", metavar="T", help="Sampling temperature, above 0.")
]
SecondOption = Annotated[
    bool,
    typer.Option(
        "--second/--no-second",
        help="Write each function twice, the second time from the task alone; both must agree.",
    ),
]
SurvivorsOption = Annotated[
    float,
    typer.Option(
        "--survivors",
        min=0.0,
        max=1.0,
        metavar="S",
        help="Maximum share of programs with one injected error that may pass the tests.",
    ),
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", help="Seconds for one test or query.")
]


def synth(
    kind: KindOption,
    out: OutOption,
    source: SeedsOption = None,
    modules: ModulesOption = "",
    databases: DatabasesOption = None,
    model: ModelOption = "",
    server: ServerOption = "",
    generator: GeneratorOption = "",
    key_env: KeyOption = "",
    most: MostOption = None,
    samples: SamplesOption = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of all draws.")] = 0,
    max_tokens: TokensOption = 2048,
    temperature: TemperatureOption = 1.0,
    second: SecondOption = True,
    survivors: SurvivorsOption = 0.5,
    timeout: TimeoutOption = 5.0,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a model write functions with tests, or questions with SQL, and keep those that pass.

    A function is kept if it passes its tests, if wrong programs do not, if it does not know its
    tests by heart, and if a second one, written from the task alone, agrees. A query is kept if it
    returns rows that queries with one error do not. DIR/rows.parquet is for training,
    DIR/problems.jsonl for grading.
    """
    from dph.cli.corpus.options import print_corpus
    from dph.cli.display.progress import open_progress
    from dph.cli.grade_run import default_workers
    from dph.corpus.synth.run import synthesise
    from dph.corpus.synth.writing import open_writer

    count = workers or default_workers()
    seeds = _seeds(kind, source, modules, databases, out, count)[:most]
    writes = _generator(model, server, generator, key_env, max_tokens, temperature)
    settings: dict[str, Any] = {"second": second, "survivors": survivors, "timeout": timeout}
    total = len(seeds) * samples
    with (
        open_writer(kind, writes, databases=databases, workers=count, **settings) as write,
        open_progress().task("synth", total, "answers") as advance,
    ):
        made = synthesise(
            kind,
            seeds,
            write,
            out,
            samples=samples,
            seed=seed,
            identity={"generator": dict(writes.identity), **settings},
            on_progress=advance,
        )
    print_corpus(made, as_json=as_json)


def _seeds(
    kind: str,
    source: Path | None,
    modules: str,
    databases: Path | None,
    out: Path,
    workers: int,
) -> "list[Seed]":
    from dph.corpus.opening import open_input
    from dph.corpus.synth.seeds import (
        DOCUMENTATION,
        SQL,
        database_seeds,
        document_seeds,
        signature_seeds,
    )
    from dph.errors import SettingsError

    named = {"--input": source, "--modules": modules, "--databases": databases}
    wanted = {DOCUMENTATION: "--modules", SQL: "--databases"}.get(kind, "--input")
    if [flag for flag, value in named.items() if value] != [wanted]:
        raise SettingsError(f"--kind {kind} takes only {wanted} as its input")
    if kind == DOCUMENTATION:
        return signature_seeds([name.strip() for name in modules.split(",") if name.strip()])
    if databases is not None:
        return database_seeds(databases)
    assert source is not None
    return document_seeds(open_input(source, out, workers=workers))


def _generator(
    model: str, server: str, function: str, key_env: str, max_tokens: int, temperature: float
) -> "Generator":
    from dph.errors import SettingsError
    from dph.lab.cookbook.writers import open_generator

    if bool(function) == bool(model) or (server and not model):
        raise SettingsError(
            "name a writer: --model NAME, --server URL --model NAME, or --generator"
        )
    return open_generator(
        function=function,
        model=model,
        server=server,
        key_env=key_env,
        max_tokens=max_tokens,
        temperature=temperature,
    )
