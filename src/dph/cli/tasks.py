"""``dph tasks`` and ``dph convert``: public data sets and others' files as problems, and back."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph._base.files import make_directory, require_other_file
from dph.cli.display.output import json_text, open_progress
from dph.cli.options import ROW_FILES, JsonOption, Verb, argument, group, option
from dph.errors import DataError, SettingsError

if TYPE_CHECKING:
    from dph.records import Problem
    from dph.tasks.problems import ProblemsOfFile
    from dph.tasks.sql.data_sets import SQLSplit


class Format(StrEnum):
    """Target format of a conversion."""

    VERL = "verl"
    DPH = "dph"
    INSPECT = "inspect"


def convert(
    to: Annotated[
        Format, option("--to", "verl: a .parquet file; dph: a .jsonl file; inspect: logs of a run.")
    ],
    run: Path | None = argument("RUN", "--to inspect: a run directory, evaluated.", None),
    source: Path | None = option("--input FILE", f"--to verl, dph: rows, {ROW_FILES}.", None),
    out: Path | None = option(
        "--out FILE", "File to write; --to inspect: a directory [default: RUN/inspect].", None
    ),
    data_source: str | None = option(
        "--data-source NAME",
        "--to verl: key that selects the reward function [default: the row's own, or dph].",
        None,
    ),
    ground_truth: str | None = option(
        "--ground-truth FIELD",
        "The problems' field with the gold answer "
        "[default: answer; --to verl: answer or gold_sql].",
        None,
    ),
    number: bool = option(
        "--number-rows", "--to dph: ids by position, not by extra_info.index.", False
    ),
    as_json: JsonOption = False,
) -> None:
    """Convert problems for verl, or evaluations for Inspect.

    Nothing is lost on the way to verl (data_source, prompt, reward_model, extra_info) and back: the
    other fields of a problem go into extra_info.answer_json, the other columns of verl's rows into
    the problems' field verl_row. For Inspect, each set has one log and its greedy answers another;
    open them with `inspect view --log-dir`.
    """
    from dph._base.files.rows import count_rows
    from dph.tasks.verl import problems_to_verl, verl_to_problems

    _require_options(to, data_source=data_source, number=number, ground_truth=ground_truth)
    if to is Format.INSPECT:
        _to_inspect(_required(run, "RUN", to), source, out, as_json=as_json)
        return
    if run is not None:
        raise typer.BadParameter(f"--to {to.value} takes --input FILE, not a run, got {run}")
    source, out = _required(source, "--input", to), _required(out, "--out", to)
    with open_progress().task("convert", count_rows(source), "rows") as advance:
        how: dict[str, Any] = {"on_progress": lambda rows: advance(rows, "")}
        if to is Format.VERL:
            how |= {"data_source": data_source, "ground_truth": ground_truth}
            done = problems_to_verl(source, out, **how)
        else:
            how |= {"ground_truth": ground_truth or "answer", "number": number}
            done = verl_to_problems(source, out, **how)
    document = {"schema": 1, "to": to.value, "input": str(source), "out": str(out), "rows": done}
    typer.echo(json_text(document) if as_json else f"{done} rows -> {out}")


def _to_inspect(run: Path, source: Path | None, out: Path | None, *, as_json: bool) -> None:
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
    lines = [f"{log['answers']} answers -> {log['log']}" for log in logs]
    text = "\n".join([*lines, f"inspect view --log-dir {directory}"])
    typer.echo(json_text(document | {"logs": logs, "notes": notes}) if as_json else text)


def _required(path: Path | None, name: str, to: Format) -> Path:
    if path is None:
        raise typer.BadParameter(f"--to {to.value} needs {name}")
    return path


def _require_options(
    to: Format, *, data_source: str | None, number: bool, ground_truth: str | None
) -> None:
    if to is not Format.VERL and data_source is not None:
        raise SettingsError("--data-source applies only to --to verl")
    if to is not Format.DPH and number:
        raise SettingsError("--number-rows applies only to --to dph: problems already have ids")
    if to is Format.INSPECT and ground_truth is not None:
        raise SettingsError("--ground-truth applies only to --to verl and --to dph")


tasks_app = group("tasks", "Turn published data sets into problems.")
OutOption = Annotated[Path, option("--out FILE", "Problems, a .jsonl file.")]
_EXAMPLES = 3


def _write(
    problems: Sequence["Problem"],
    out: Path,
    document: dict[str, Any],
    title: str,
    lines: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Write the problems, and print the report on them as a document or as lines below a title."""
    from dph.tasks.problems import save_problems

    save_problems(out, problems)
    text = "\n  ".join([f"{out}: {title}", *lines])
    typer.echo(json_text({"schema": 1, "out": str(out), **document}) if as_json else text)


def _require_place(out: Path, source: Path | None = None) -> None:
    if out.suffix != ".jsonl":
        raise DataError(f"problems are written to .jsonl, got {out}")
    if source is not None:
        require_other_file(out, source)
    make_directory(out.parent)


def _require_some(loaded: "ProblemsOfFile", data: Path) -> None:
    if not loaded.problems:
        why = f": {loaded.dropped[0][1]}" if loaded.dropped else ""
        raise DataError(f"{data} gives no problems{why}")


def _add_sql_command(name: str, *, title: str, splits: str, seconds: float) -> None:
    """Add ``dph tasks <name>``: text-to-SQL data sets differ in a loader and a default."""

    def command(
        data: Annotated[Path, option("--data DIR", "The data set's directory, as published.")],
        out: OutOption,
        split: str = option("--split NAME", f"{splits}.", "dev"),
        databases: Path | None = option(
            "--databases DIR", "Databases [default: those in --data].", None
        ),
        tables: Path | None = option(
            "--tables FILE", "tables.json [default: the one in --data].", None
        ),
        keep_all: bool = option(
            "--keep-all", "Skip the gold queries and keep every question.", False
        ),
        workers: int = option(
            "--workers N", "Number of processes that run gold queries.", 2, min=1
        ),
        timeout: float = option(
            "--timeout S", "Time limit of one gold query, in seconds.", seconds
        ),
        as_json: JsonOption = False,
    ) -> None:
        from dph.tasks.sql.data_sets import SQL_SETS

        found = SQL_SETS[name](data, split)
        if databases is not None and not databases.is_dir():
            raise DataError(f"the directory of databases {databases} does not exist")
        source = replace(
            found, databases=databases or found.databases, tables=tables or found.tables
        )
        _write_sql(source, out, keep_all, workers, timeout, as_json)

    tasks_app.command(
        name,
        cls=Verb,
        help=f"Write {title}'s questions as problems for the sql verifier.\n\n"
        "They have the paper's prompt. Questions whose gold query has no rows, only NULL or 0, or "
        "does not run are left out.",
    )(command)


def _write_sql(
    source: "SQLSplit", out: Path, keep_all: bool, workers: int, timeout: float, as_json: bool
) -> None:
    from dph.tasks.sql.data_sets import problems_of_split

    _require_place(out)
    made = problems_of_split(
        source, timeout=timeout, workers=workers, keep_all=keep_all, task=open_progress().task
    )
    place = None if source.databases is None else str(source.databases)
    document = {
        "databases": place,
        "questions": len(source.questions),
        "problems": len(made.problems),
        "checked": place is not None and not keep_all,
        "dropped": made.counts(),
        "dropped_problems": [
            {
                "problem_id": each.problem_id,
                "db_id": each.db_id,
                "why": each.state.value,
                "reason": each.reason,
            }
            for each in made.dropped
        ],
    }
    lines = []
    if place is None:
        lines.append("databases are missing: no gold query was run, and nothing can be graded yet")
    elif keep_all:
        lines.append("no gold query was run (--keep-all)")
    for why, count in made.counts().items():
        examples = [d.problem_id for d in made.dropped if d.state.value == why][:_EXAMPLES]
        more = ", ..." if count > len(examples) else ""
        lines.append(f"dropped {count}: gold {why} ({', '.join(examples)}{more})")
    if place is not None:
        lines.append(f'in a recipe: data.verifier = "sql", data.databases = "{place}"')
    title = f"{len(made.problems)} problems of {len(source.questions)} questions"
    _write(made.problems, out, document, title, lines, as_json=as_json)


_add_sql_command("spider", title="Spider", splits="train or dev", seconds=5.0)
_add_sql_command("bird", title="BIRD", splits="train, dev or mini-dev", seconds=30.0)


@tasks_app.command("math", cls=Verb)
def math(
    data: Annotated[Path, option("--data PATH", "Directory of the sets, or your own file.")],
    out: OutOption,
    name: str | None = option(
        "--name NAME", "A known set, or a name for the file [default: its stem].", None
    ),
    integers: bool = option(
        "--integers", "Keep only problems whose answer is a whole number.", False
    ),
    question: str | None = option("--question NAME", "Column of the problems.", None),
    answer: str | None = option("--answer NAME", "Column of the answers.", None),
    as_json: JsonOption = False,
) -> None:
    """Write math problems, with the paper's prompt.

    They are for the math verifier. Known sets are aime24, aime25, amc23, math500, olympiadbench,
    minerva, college_math, gsm8k and train. Any file of rows (.parquet, .jsonl, .csv, the last two
    also as .gz) will do: the columns of published data sets are found, others are named.
    """
    from dph.tasks.math import MATH_SETS, load_math, load_math_set

    if data.is_dir() and name is None:
        raise SettingsError(f"choose a set of {data}: --name {', '.join(MATH_SETS)}")
    _require_place(out, data)
    load = load_math_set if data.is_dir() else load_math
    stem = Path(data.name.removesuffix(".gz")).stem
    loaded = load(data, name=name or stem, integers=integers, question=question, answer=answer)
    _require_some(loaded, data)
    dropped = Counter(reason for _, reason in loaded.dropped)
    known = MATH_SETS.get(name or "")
    samples, ks = (known.samples, list(known.ks)) if known else (None, [])
    examples = {reason: place for place, reason in reversed(loaded.dropped)}
    lines = [
        f"dropped {count}: {reason} (for example {examples[reason]})"
        for reason, count in dropped.items()
    ]
    if samples is not None:
        lines.append(f"in a recipe: evaluate.samples = {samples}, evaluate.k = {ks}")
    count = len(loaded.problems)
    document = {"problems": count, "dropped": dict(dropped), "samples": samples, "k": ks}
    title = f"{count} problems of {count + len(loaded.dropped)} rows"
    _write(loaded.problems, out, document, title, lines, as_json=as_json)


def _add_code_command(name: str, *, title: str, fields: str) -> None:
    """Add ``dph tasks <name>``: data sets of programs differ in the shape of their rows."""

    def command(
        data: Annotated[Path, option("--data FILE", "The file, as published.")],
        out: OutOption,
        keep_all: bool = option("--keep-all", "Skip the solutions and keep every problem.", False),
        workers: int = option("--workers N", "Number of processes that run them.", 2, min=1),
        timeout: float = option("--timeout S", "Time limit of one test, in seconds.", 10.0),
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
    name: str, data: Path, out: Path, keep_all: bool, workers: int, timeout: float, as_json: bool
) -> None:
    from dph.tasks.code import load_code, solvable
    from dph.tasks.problems import ProblemsOfFile
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
        loaded = ProblemsOfFile(problems=[each.problem for each in made], dropped=[])
    _require_some(loaded, data)
    lines = []
    if not solutions:
        lines.append("they have no solutions: no test was run")
    elif not checked:
        lines.append("no solution was run (--keep-all)")
    lines += [f"dropped {problem_id}: {why}" for problem_id, why in loaded.dropped[:_EXAMPLES]]
    if (more := len(loaded.dropped) - _EXAMPLES) > 0:
        lines.append(f"dropped {more} more (--json names them)")
    lines.append('in a recipe: data.verifier = "code"')
    count = len(loaded.problems)
    document = {"problems": count, "solutions": solutions, "checked": checked}
    dropped = [{"problem_id": problem_id, "reason": why} for problem_id, why in loaded.dropped]
    _write(
        loaded.problems,
        out,
        document | {"dropped_problems": dropped},
        f"{count} problems of {count + len(loaded.dropped)} rows",
        lines,
        as_json=as_json,
    )


@tasks_app.command("reasoning-gym", cls=Verb)
def reasoning_gym(
    name: str = argument("NAME", "Task of reasoning-gym.", "", show_default=False),
    out: Path | None = option("--out FILE", "Problems, a .jsonl file.", None),
    count: int = option("--count N", "Number of problems to make.", 500, min=1),
    seed: int = option("--seed N", "Seed of the dataset.", 0),
    config: list[str] | None = option(
        "--config KEY=VALUE", "Setting of the task; may be repeated.", None
    ),
    names: bool = option("--list", "Print the names of all tasks.", False),
    as_json: JsonOption = False,
) -> None:
    """Write a task of reasoning-gym as problems.

    They are for the reasoning_gym verifier. The same seed, settings and version of the package give
    the same problems. Give another seed to each set, such as one to train on and one to test on.
    """
    from dph.tasks.verifiers.gym.verifier import GymMaker, gym_tasks, parse_config

    if names:
        typer.echo(json_text(list(gym_tasks())) if as_json else "\n".join(gym_tasks()))
        return
    if not name or out is None:
        raise SettingsError("give the NAME of a task and --out FILE; --list prints all tasks")
    _require_place(out)
    settings = parse_config(config or ())
    with GymMaker() as maker:
        problems = maker.problems(name, count=count, seed=seed, config=settings)
    lines = ['in a recipe: data.verifier = "reasoning_gym"']
    if len(problems) < count:
        lines.insert(0, f"{count - len(problems)} fewer than requested: its questions repeat")
    document = {"task": name, "problems": len(problems)}
    _write(problems, out, document, f"{len(problems)} problems of {name}", lines, as_json=as_json)


@tasks_app.command("verifiers", cls=Verb)
def verifiers(
    package: Annotated[str, argument("PACKAGE", "Installed package or module here.")],
    out: Annotated[Path, option("--out FILE", "Problems, a .jsonl file.")],
    count: int | None = option(
        "--count N", "Maximum number of problems [default: all].", None, min=1
    ),
    as_json: JsonOption = False,
) -> None:
    """Write a taskset of verifiers as problems.

    They are for environment.path = "verifiers:PACKAGE", which runs its tools and its rewards.
    """
    from dph.tasks.environments.tasksets import PREFIX, taskset_problems

    _require_place(out)
    package = package.replace("-", "_")  # as verifiers does, which a recipe names the module of
    problems = taskset_problems(package, count=count, directories=[Path.cwd()])
    document = {"taskset": package, "problems": len(problems)}
    lines = [f'in a recipe: environment.path = "{PREFIX}{package}"']
    _write(problems, out, document, f"{len(problems)} problems", lines, as_json=as_json)
