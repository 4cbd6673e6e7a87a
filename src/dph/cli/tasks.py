"""``dph tasks``: public data sets as problems."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.options import JsonOption, OlderSetOption, renamed_set

if TYPE_CHECKING:
    from dph.tasks.sql.questions import SQLSplit

tasks_app = typer.Typer(
    name="tasks",
    help="Turn Spider, BIRD, math, HumanEval, MBPP, LiveCodeBench or reasoning-gym into problems.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DataOption = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="The data set's directory, as published.")
]
OutOption = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Problems, a .jsonl file.", show_default=False)
]
DatabasesOption = Annotated[
    Path | None,
    typer.Option("--databases", metavar="DIR", help="Databases [default: those in --data]."),
]
TablesOption = Annotated[
    Path | None,
    typer.Option("--tables", metavar="FILE", help="tables.json [default: the one in --data]."),
]
KeepOption = Annotated[
    bool, typer.Option("--keep-all", help="Do not run the gold queries; drop nothing.")
]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, metavar="N", help="Processes that run gold queries.")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", help="Seconds for one gold query.")
]


def _add_sql_command(name: str, *, title: str, splits: str, seconds: float) -> None:
    """Add ``dph tasks <name>``: text-to-SQL data sets differ in a loader and a default."""

    def command(
        data: DataOption,
        out: OutOption,
        split: Annotated[str, typer.Option("--split", help=f"{splits}.")] = "dev",
        databases: DatabasesOption = None,
        tables: TablesOption = None,
        keep_all: KeepOption = False,
        workers: WorkersOption = 2,
        timeout: TimeoutOption = seconds,
        as_json: JsonOption = False,
    ) -> None:
        source = _at(_sql_source(name, data, split), databases, tables)
        _write_sql(source, out, keep_all, workers, timeout, as_json)

    tasks_app.command(
        name,
        help=f"Write {title}'s questions as problems for the sql verifier, with the paper's prompt."
        "\n\nQuestions whose gold query has no rows, only NULL or 0, or does not run are left out.",
    )(command)


def _sql_source(name: str, data: Path, split: str) -> "SQLSplit":
    from dph.tasks.sql.bird import load_bird
    from dph.tasks.sql.spider import load_spider

    return {"spider": load_spider, "bird": load_bird}[name](data, split)


_add_sql_command("spider", title="Spider", splits="train or dev", seconds=5.0)
_add_sql_command("bird", title="BIRD", splits="train, dev or mini-dev", seconds=30.0)


@tasks_app.command("maths", hidden=True)  # its name before the subject had one word
@tasks_app.command("math")
def math(
    data: Annotated[
        Path,
        typer.Option("--data", metavar="PATH", help="Directory of the sets, or any file of yours."),
    ],
    out: OutOption,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="A known set, or a name for the file [default: its stem].",
        ),
    ] = None,
    older_set: OlderSetOption = None,
    integers: Annotated[
        bool, typer.Option("--integers", help="Only problems whose answer is a whole number.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write math problems for the math verifier, with the paper's prompt.

    Known sets are aime24, aime25, amc23, math500, olympiadbench, minerva, college_math, gsm8k and
    train. Any file of rows (.parquet, .jsonl, .csv, the last two also as .gz) with problem and
    answer will do.
    """
    from dph.cli.display.tasks import say_math
    from dph.errors import SettingsError
    from dph.tasks.math import MATH_SETS, load_math, load_math_set
    from dph.tasks.problems import save_problems

    if name is None and (renamed := renamed_set(older_set, None, now="--name")):
        name = renamed[-1]
    if data.is_dir() and name is None:
        raise SettingsError(f"choose a set of {data}: --name {', '.join(MATH_SETS)}")
    if data.is_dir():
        loaded = load_math_set(data, str(name), integers=integers)
    else:
        stem = Path(data.name.removesuffix(".gz")).stem
        loaded = load_math(data, name=name or stem, integers=integers)
    _require_place(out)
    save_problems(out, loaded.problems)
    typer.echo(say_math(loaded, MATH_SETS.get(name or ""), out, as_json=as_json))


def _add_code_command(name: str, *, title: str, fields: str) -> None:
    """Add ``dph tasks <name>``: data sets of programs differ in the shape of their rows."""

    def command(
        data: Annotated[
            Path, typer.Option("--data", metavar="FILE", help="The file, as published.")
        ],
        out: OutOption,
        keep_all: Annotated[
            bool, typer.Option("--keep-all", help="Do not run the solutions; drop nothing.")
        ] = False,
        workers: Annotated[
            int, typer.Option("--workers", min=1, metavar="N", help="Processes that run them.")
        ] = 2,
        timeout: Annotated[
            float, typer.Option("--timeout", metavar="S", help="Seconds for one test.")
        ] = 10.0,
        as_json: JsonOption = False,
    ) -> None:
        _write_code(name, data, out, keep_all, workers, timeout, as_json)

    tasks_app.command(
        name,
        help=f"Write {title} as problems for the code verifier, from rows with {fields}.\n\n"
        "Problems whose own solution fails their tests are left out.",
    )(command)


_add_code_command(
    "humaneval", title="HumanEval", fields="task_id, prompt, entry_point, test, canonical_solution"
)
_add_code_command("mbpp", title="MBPP", fields="task_id, text or prompt, code, test_list")
_add_code_command(
    "livecodebench",
    title="LiveCodeBench",
    fields="question_id, question_content, starter_code, public and private test cases",
)


def _write_code(
    name: str,
    data: Path,
    out: Path,
    keep_all: bool,
    workers: int,
    timeout: float,
    as_json: bool,
) -> None:
    from dph.cli.display.progress import open_progress
    from dph.cli.display.tasks import say_code
    from dph.tasks.code.problems import CodeProblems, load_code, solvable
    from dph.tasks.problems import save_problems
    from dph.tasks.verifiers.code.verifier import CodeVerifier

    _require_place(out)
    made = load_code(data, name)
    solutions = sum(each.solution is not None for each in made)
    checked = bool(solutions) and not keep_all
    if checked:
        with (
            CodeVerifier(workers=workers, timeout=timeout) as verifier,
            open_progress().task("solutions", len(made), "problems") as advance,
        ):
            loaded = solvable(made, verifier, on_done=lambda n: advance(n, ""))
    else:
        loaded = CodeProblems(problems=[each.problem for each in made], dropped=[])
    save_problems(out, loaded.problems)
    typer.echo(say_code(loaded, out, solutions=solutions, checked=checked, as_json=as_json))


@tasks_app.command("reasoning-gym")
def reasoning_gym(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A task of the package.", show_default=False)
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Problems, a .jsonl file.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", min=1, metavar="N", help="Problems to make.")
    ] = 500,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the dataset.")] = 0,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="A setting of the task; repeatable."),
    ] = None,
    names: Annotated[bool, typer.Option("--list", help="Print the names of all tasks.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a task of reasoning-gym as problems for the reasoning_gym verifier.

    The same seed, settings and version of the package give the same problems. Give another seed
    to each set, such as one to train on and one to test on.
    """
    from dph.cli.display.output import json_text
    from dph.cli.display.tasks import say_gym
    from dph.errors import SettingsError
    from dph.tasks.gym import GymMaker, gym_tasks, parse_config
    from dph.tasks.problems import save_problems

    if names:
        typer.echo(json_text(list(gym_tasks())) if as_json else "\n".join(gym_tasks()))
        return
    if not name or out is None:
        raise SettingsError("give the NAME of a task and --out FILE; --list names all tasks")
    _require_place(out)
    settings = parse_config(config or ())
    with GymMaker() as maker:
        problems = maker.problems(name, count=count, seed=seed, config=settings)
    save_problems(out, problems)
    typer.echo(say_gym(problems, name, out, count=count, as_json=as_json))


def _at(source: "SQLSplit", databases: Path | None, tables: Path | None) -> "SQLSplit":
    """The source with databases and schemas from where the user says."""
    from dataclasses import replace

    from dph.errors import DataError

    if databases is not None and not databases.is_dir():
        raise DataError(f"there is no directory of databases {databases}")
    return replace(source, databases=databases or source.databases, tables=tables or source.tables)


def _write_sql(
    source: "SQLSplit", out: Path, keep_all: bool, workers: int, timeout: float, as_json: bool
) -> None:
    from dph.cli.display.progress import open_progress
    from dph.cli.display.tasks import say_sql
    from dph.tasks.problems import save_problems
    from dph.tasks.sql.gold_check import GoldChecker
    from dph.tasks.sql.problems import sql_problems
    from dph.tasks.sql.prompt import SQLPrompts
    from dph.tasks.sql.schema_files import schemas_of

    _require_place(out)
    prompts = SQLPrompts(databases=source.databases, schemas=schemas_of(source.tables))
    checks = None
    progress = open_progress()
    total = len(source.questions)
    if source.databases is not None and not keep_all:
        with (
            GoldChecker(databases=source.databases, workers=workers, timeout=timeout) as checker,
            progress.task("gold queries", total, "queries") as advance,
        ):
            checks = checker.check(source.questions, on_done=lambda n: advance(n, ""))
    with progress.task("prompts", total, "questions") as advance:
        made = sql_problems(
            source.questions, prompts=prompts, checks=checks, on_done=lambda: advance(1, "")
        )
    save_problems(out, made.problems)
    typer.echo(say_sql(made, source, out, checked=checks is not None, as_json=as_json))


def _require_place(out: Path) -> None:
    from dph._base.files import make_directory
    from dph.errors import DataError

    if out.suffix != ".jsonl":
        raise DataError(f"problems are written to .jsonl, got {out}")
    make_directory(out.parent)
