"""``dph tasks``: public data sets as problems."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dph.cli.options import ROW_FILES, JsonOption, Verb, group

if TYPE_CHECKING:
    from dph.tasks.sql.data_sets import SQLSplit


class Format(StrEnum):
    """Target format of a conversion."""

    VERL = "verl"
    DPH = "dph"
    INSPECT = "inspect"


RunArgument = Annotated[
    Path | None,
    typer.Argument(metavar="RUN", help="--to inspect: a run directory, evaluated."),
]
InputOption = Annotated[
    Path | None,
    typer.Option("--input", metavar="FILE", help=f"--to verl, dph: rows, {ROW_FILES}."),
]
ConvertedOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="File to write; --to inspect: a directory [default: RUN/inspect].",
    ),
]


def convert(
    to: Annotated[
        Format,
        typer.Option(
            "--to", help="verl: a .parquet file; dph: a .jsonl file; inspect: logs of a run."
        ),
    ],
    run: RunArgument = None,
    source: InputOption = None,
    out: ConvertedOption = None,
    data_source: Annotated[
        str | None,
        typer.Option(
            "--data-source",
            metavar="NAME",
            help="--to verl: key that selects the reward function [default: the row's own, or "
            "dph].",
        ),
    ] = None,
    ground_truth: Annotated[
        str | None,
        typer.Option(
            "--ground-truth",
            metavar="FIELD",
            help="The problems' field with the gold answer "
            "[default: answer; --to verl: answer or gold_sql].",
        ),
    ] = None,
    number: Annotated[
        bool,
        typer.Option("--number-rows", help="--to dph: ids by position, not by extra_info.index."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Convert problems for verl, or evaluations for Inspect.

    Nothing is lost on the way to verl (data_source, prompt, reward_model, extra_info) and back: the
    other fields of a problem go into extra_info.answer_json, the other columns of verl's rows into
    the problems' field verl_row. For Inspect, each set has one log and its greedy answers another;
    open them with `inspect view --log-dir`.
    """
    from dph.cli.display.output import json_text

    _require_options(to, data_source=data_source, number=number, ground_truth=ground_truth)
    if to is Format.INSPECT:
        _to_inspect(_required(run, "RUN", to), source, out, as_json=as_json)
        return
    if run is not None:
        raise typer.BadParameter(f"--to {to.value} takes --input FILE, not a run, got {run}")
    source, out = _required(source, "--input", to), _required(out, "--out", to)
    done = _converted(
        to, source, out, data_source=data_source, ground_truth=ground_truth, number=number
    )
    document = {"schema": 1, "to": to.value, "input": str(source), "out": str(out), "rows": done}
    typer.echo(json_text(document) if as_json else f"{done} rows -> {out}")


def _converted(
    to: Format,
    source: Path,
    out: Path,
    *,
    data_source: str | None,
    ground_truth: str | None,
    number: bool,
) -> int:
    """Write the file and count its rows."""
    from dph._base.files.rows import count_rows
    from dph.cli.display.output import open_progress
    from dph.tasks.verl import problems_to_verl, verl_to_problems

    with open_progress().task("convert", count_rows(source), "rows") as advance:

        def progress(rows: int) -> None:
            advance(rows, "")

        if to is Format.VERL:
            return problems_to_verl(
                source,
                out,
                data_source=data_source,
                ground_truth=ground_truth,
                on_progress=progress,
            )
        return verl_to_problems(
            source,
            out,
            ground_truth=ground_truth or "answer",
            number=number,
            on_progress=progress,
        )


def _to_inspect(run: Path, source: Path | None, out: Path | None, *, as_json: bool) -> None:
    """Write the logs of a run and say where they are."""
    from dph.cli.display.output import json_text, open_progress
    from dph.cli.request import require_writable
    from dph.results.inspect import write_inspect_logs
    from dph.results.read.run_results import RunResults

    if source is not None:
        raise typer.BadParameter(f"--to inspect takes a run, not --input {source}")
    directory = out or run / "inspect"
    answers = RunResults(run).answers(texts=False).num_rows
    require_writable(directory)
    with open_progress().task("convert", answers, "answers") as advance:
        logs, notes = write_inspect_logs(run, directory, on_progress=lambda n: advance(n, ""))
    for note in notes:
        typer.echo(note, err=True)
    document = {"schema": 1, "to": "inspect", "run": str(run), "out": str(directory)}
    found = [{"set": log.set_name, "log": str(log.path), "answers": log.answers} for log in logs]
    if as_json:
        typer.echo(json_text(document | {"logs": found, "notes": notes}))
        return
    for log in logs:
        typer.echo(f"{log.answers} answers -> {log.path}")
    typer.echo(f"inspect view --log-dir {directory}")


def _required(path: Path | None, name: str, to: Format) -> Path:
    if path is None:
        raise typer.BadParameter(f"--to {to.value} needs {name}")
    return path


def _require_options(
    to: Format, *, data_source: str | None, number: bool, ground_truth: str | None
) -> None:
    from dph.errors import SettingsError

    if to is not Format.VERL and data_source is not None:
        raise SettingsError("--data-source applies only to --to verl")
    if to is not Format.DPH and number:
        raise SettingsError("--number-rows applies only to --to dph: problems already have ids")
    if to is Format.INSPECT and ground_truth is not None:
        raise SettingsError("--ground-truth applies only to --to verl and --to dph")


tasks_app = group("tasks", "Turn published data sets into problems.")

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
    bool, typer.Option("--keep-all", help="Skip the gold queries and keep every question.")
]
WorkersOption = Annotated[
    int,
    typer.Option(
        "--workers", min=1, metavar="N", help="Number of processes that run gold queries."
    ),
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", help="Time limit of one gold query, in seconds.")
]


def _add_sql_command(name: str, *, title: str, splits: str, seconds: float) -> None:
    """Add ``dph tasks <name>``: text-to-SQL data sets differ in a loader and a default."""

    def command(
        data: DataOption,
        out: OutOption,
        split: Annotated[str, typer.Option("--split", metavar="NAME", help=f"{splits}.")] = "dev",
        databases: DatabasesOption = None,
        tables: TablesOption = None,
        keep_all: KeepOption = False,
        workers: WorkersOption = 2,
        timeout: TimeoutOption = seconds,
        as_json: JsonOption = False,
    ) -> None:
        from dph.tasks.sql.data_sets import SQL_SETS

        source = _at(SQL_SETS[name](data, split), databases, tables)
        _write_sql(source, out, keep_all, workers, timeout, as_json)

    tasks_app.command(
        name,
        cls=Verb,
        help=f"Write {title}'s questions as problems for the sql verifier.\n\n"
        "They have the paper's prompt. Questions whose gold query has no rows, only NULL or 0, or "
        "does not run are left out.",
    )(command)


_add_sql_command("spider", title="Spider", splits="train or dev", seconds=5.0)
_add_sql_command("bird", title="BIRD", splits="train, dev or mini-dev", seconds=30.0)


@tasks_app.command("math", cls=Verb)
def math(
    data: Annotated[
        Path,
        typer.Option("--data", metavar="PATH", help="Directory of the sets, or your own file."),
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
    integers: Annotated[
        bool, typer.Option("--integers", help="Keep only problems whose answer is a whole number.")
    ] = False,
    question: Annotated[
        str | None, typer.Option("--question", metavar="NAME", help="Column of the problems.")
    ] = None,
    answer: Annotated[
        str | None, typer.Option("--answer", metavar="NAME", help="Column of the answers.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write math problems, with the paper's prompt.

    They are for the math verifier. Known sets are aime24, aime25, amc23, math500, olympiadbench,
    minerva, college_math, gsm8k and train. Any file of rows (.parquet, .jsonl, .csv, the last two
    also as .gz) will do: the columns of published data sets are found, others are named.
    """
    from dph.cli.display.tasks import require_some, say_math
    from dph.errors import SettingsError
    from dph.tasks.math import MATH_SETS, load_math, load_math_set
    from dph.tasks.problems import save_problems

    if data.is_dir() and name is None:
        raise SettingsError(f"choose a set of {data}: --name {', '.join(MATH_SETS)}")
    _require_place(out, data)
    load = load_math_set if data.is_dir() else load_math
    stem = Path(data.name.removesuffix(".gz")).stem
    loaded = load(data, name=name or stem, integers=integers, question=question, answer=answer)
    require_some(loaded, data)
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
            bool, typer.Option("--keep-all", help="Skip the solutions and keep every problem.")
        ] = False,
        workers: Annotated[
            int,
            typer.Option(
                "--workers", min=1, metavar="N", help="Number of processes that run them."
            ),
        ] = 2,
        timeout: Annotated[
            float,
            typer.Option("--timeout", metavar="S", help="Time limit of one test, in seconds."),
        ] = 10.0,
        as_json: JsonOption = False,
    ) -> None:
        _write_code(name, data, out, keep_all, workers, timeout, as_json)

    tasks_app.command(
        name,
        cls=Verb,
        help=f"Write {title} as problems for the code verifier.\n\n"
        f"Its rows have {fields}. Problems whose own solution fails their tests are left out.",
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
    from dph.cli.display.output import open_progress
    from dph.cli.display.tasks import require_some, say_code
    from dph.tasks.code import CodeProblems, load_code, solvable
    from dph.tasks.problems import save_problems
    from dph.tasks.verifiers.code.verifier import CodeVerifier

    _require_place(out, data)
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
    require_some(loaded, data)
    save_problems(out, loaded.problems)
    typer.echo(say_code(loaded, out, solutions=solutions, checked=checked, as_json=as_json))


@tasks_app.command("reasoning-gym", cls=Verb)
def reasoning_gym(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Task of reasoning-gym.", show_default=False)
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Problems, a .jsonl file.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", min=1, metavar="N", help="Number of problems to make.")
    ] = 500,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of the dataset.")] = 0,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="Setting of the task; may be repeated."),
    ] = None,
    names: Annotated[bool, typer.Option("--list", help="Print the names of all tasks.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a task of reasoning-gym as problems.

    They are for the reasoning_gym verifier. The same seed, settings and version of the package give
    the same problems. Give another seed to each set, such as one to train on and one to test on.
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
        raise SettingsError("give the NAME of a task and --out FILE; --list prints all tasks")
    _require_place(out)
    settings = parse_config(config or ())
    with GymMaker() as maker:
        problems = maker.problems(name, count=count, seed=seed, config=settings)
    save_problems(out, problems)
    typer.echo(say_gym(problems, name, out, count=count, as_json=as_json))


@tasks_app.command("verifiers", cls=Verb)
def verifiers(
    package: Annotated[
        str,
        typer.Argument(metavar="PACKAGE", help="Installed package or module here."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Problems, a .jsonl file.")],
    count: Annotated[
        int | None,
        typer.Option(
            "--count", min=1, metavar="N", help="Maximum number of problems [default: all]."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a taskset of verifiers as problems.

    They are for environment.path = "verifiers:PACKAGE", which runs its tools and its rewards.
    """
    from dph.cli.display.output import json_text
    from dph.tasks.environments.tasksets import PREFIX, taskset_problems
    from dph.tasks.problems import save_problems

    _require_place(out)
    problems = taskset_problems(package, count=count, directories=[Path.cwd()])
    save_problems(out, problems)
    document = {"schema": 1, "out": str(out), "taskset": package, "problems": len(problems)}
    told = f'{out}: {len(problems)} problems\n  in a recipe: environment.path = "{PREFIX}{package}"'
    typer.echo(json_text(document) if as_json else told)


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
    from dph.cli.display.output import open_progress
    from dph.cli.display.tasks import say_sql
    from dph.tasks.problems import save_problems
    from dph.tasks.sql.problems import problems_of_split

    _require_place(out)
    made = problems_of_split(
        source, timeout=timeout, workers=workers, keep_all=keep_all, task=open_progress().task
    )
    save_problems(out, made.problems)
    checked = source.databases is not None and not keep_all
    typer.echo(say_sql(made, source, out, checked=checked, as_json=as_json))


def _require_place(out: Path, source: Path | None = None) -> None:
    from dph._base.files import make_directory, require_other_file
    from dph.errors import DataError

    if out.suffix != ".jsonl":
        raise DataError(f"problems are written to .jsonl, got {out}")
    if source is not None:
        require_other_file(out, source)
    make_directory(out.parent)
