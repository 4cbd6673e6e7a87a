"""The files of the Spider world: questions below short schemas, no gold statement in two sets."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

from dph._base.files import make_directory, sha256, write_json, write_json_lines
from dph.errors import SettingsError
from dph.records import Problem
from dph.tasks.problems import save_problems
from dph.tasks.sql.data_sets import GoldChecker, GoldState, SQLQuestion, load_spider
from dph.tasks.sql.prompt import database_file
from dph.tasks.sql.schema import read_schema
from lab.worlds.spider.kind import DATABASES, SETS, TASK, SpiderSizes, require_spider
from lab.worlds.world import MANIFEST, PlacedWorld, is_complete, without_constants

SCHEMA = 2
SHARES = {"trained": 0.7, "across": 0.3}
"""Of the databases; the split is the same for every seed."""
FINE_TUNING = "fine_tuning"
FILES = [f"{name}.jsonl" for name in (FINE_TUNING, "train", *SETS)]
LONGEST_GOLD, LONGEST_PROMPT = 100, 400
"""Characters: what the model can be asked and can answer in the time of a step."""

_COMMA = re.compile(r"\bfrom\s+\w+(?:\s+as)?(?:\s+\w+)?\s*,")
_TABLE = re.compile(r'\b(?:from|join)\s+"?(\w+)')


def build_world(directory: Path, *, seed: int, sizes: SpiderSizes | None = None) -> PlacedWorld:
    """Write the world into ``directory``; keep it if it is already there and whole.

    Leaves a ``.jsonl`` file a set and ``world.json``, which is written last. Groups of databases
    and the rows of the fine-tuning are the same for every seed, so that all seeds have one base
    model; the seed draws the questions of the other sets.
    """
    sizes = sizes or SpiderSizes()
    world = PlacedWorld(directory, seed)
    made_from = {"task": TASK, "schema": SCHEMA, "seed": seed, "sizes": asdict(sizes)}
    if is_complete(directory, made_from):
        return world
    spider = require_spider()
    drawn = _draw_sets(short_problems(spider), seed, sizes)
    make_directory(directory)
    link = directory / DATABASES
    link.unlink(missing_ok=True)
    link.symlink_to(spider / DATABASES)
    _save(world, drawn)
    found = {
        "near_duplicates": _near_duplicates(drawn),
        "sha256": {name: sha256(directory / name) for name in sorted(FILES)},
    }
    write_json(directory / MANIFEST, {**made_from, **found})
    return world


def _save(world: PlacedWorld, drawn: Mapping[str, Sequence[Problem]]) -> None:
    rows = [
        {"prompt": problem.prompt, "response": f" {problem.answer['gold_sql']}"}
        for problem in drawn[FINE_TUNING]
    ]
    write_json_lines(world.problems_path(FINE_TUNING), rows, ascii_only=False)
    for name in ("train", *SETS):
        save_problems(world.problems_path(name), drawn[name])


def short_problems(spider: Path) -> dict[str, list[Problem]]:
    """Problems by database, in the order of Spider's training set.

    Of several questions with one gold statement the first is taken. A gold statement whose result
    is empty, or only NULL or 0, is left out: many wrong statements would match it.
    """
    asked, prompts, seen = [], [], set()
    tables: dict[str, dict[str, str]] = {}
    for question in load_spider(spider, "train").questions:
        gold = " ".join(question.gold_sql.split()).rstrip("; ")
        key = (question.db_id, gold.lower())
        if question.db_id not in tables:
            tables[question.db_id] = _tables(spider, question.db_id)
        prompt = _prompt(question, gold, tables[question.db_id])
        if prompt is not None and key not in seen:
            seen.add(key)
            asked.append(question)
            prompts.append((prompt, gold))
    with GoldChecker(databases=spider / DATABASES) as checker:
        checks = checker.check(asked)
    found: dict[str, list[Problem]] = {}
    for question, (prompt, gold), check in zip(asked, prompts, checks, strict=True):
        if check.state is GoldState.TELLING:
            database = database_file(question.db_id)
            answer = {"gold_sql": gold, "database": database, "db_id": question.db_id}
            problem = Problem(problem_id=question.question_id, prompt=prompt, answer=answer)
            found.setdefault(question.db_id, []).append(problem)
    return found


def _tables(spider: Path, db_id: str) -> dict[str, str]:
    """By name in lower case, each table as a prompt shows it; none where there is no database."""
    path = spider / DATABASES / database_file(db_id)
    if not path.is_file():
        return {}
    return {
        table.name.lower(): f"{table.name}({', '.join(column.name for column in table.columns)})"
        for table in read_schema(path).tables
    }


def _prompt(question: SQLQuestion, gold: str, tables: Mapping[str, str]) -> str | None:
    """The question below its tables and another one; None for a comma join and what is too long."""
    text = gold.lower()
    named = {*_TABLE.findall(text)}
    if _COMMA.search(text) or not named or not named <= tables.keys():
        return None
    others = [name for name in tables if name not in named]
    # The table after the last that is named: whether it is of use is for the model to see.
    shown = {*named, *others[:1]}
    schema = "\n".join(text for name, text in tables.items() if name in shown)
    prompt = f"Tables:\n{schema}\nQuestion: {' '.join(question.question.split())}\nSQL:"
    return prompt if len(gold) <= LONGEST_GOLD and len(prompt) <= LONGEST_PROMPT else None


def groups_of(databases: Sequence[str]) -> dict[str, list[str]]:
    """The databases of each group of ``SHARES``, whatever the seed."""
    names = sorted(databases)
    Random("databases of real-spider").shuffle(names)
    found, start, end = {}, 0, 0.0
    for group, share in SHARES.items():
        end += share * len(names)
        found[group] = names[start : round(end)]
        start = round(end)
    return found


def _draw_sets(
    problems: Mapping[str, Sequence[Problem]], seed: int, sizes: SpiderSizes
) -> dict[str, list[Problem]]:
    groups = groups_of(list(problems))
    trained = [p for name in groups["trained"] for p in problems[name]]
    Random("fine-tuning of real-spider").shuffle(trained)
    wanted = {
        FINE_TUNING: (trained[: sizes.fine_tuning], {FINE_TUNING: sizes.fine_tuning}),
        "trained": (
            trained[sizes.fine_tuning :],
            {"in_domain": sizes.in_domain, "train": sizes.train},
        ),
        "across": (
            [p for name in groups["across"] for p in problems[name]],
            {"cross_domain": sizes.cross_domain},
        ),
    }
    found: dict[str, list[Problem]] = {}
    for name, (source, counts) in wanted.items():
        if len(source) < sum(counts.values()):
            raise SettingsError(
                f"Spider has {len(source)} questions of the kind {name!r} here, "
                f"{sum(counts.values())} are needed: ask for fewer problems"
            )
        if name != FINE_TUNING:
            source = Random(f"{TASK} {seed}: {name}").sample(source, len(source))
        rest = iter(source)
        for of_set, count in counts.items():
            found[of_set] = [next(rest) for _ in range(count)]
    return found


def _near_duplicates(drawn: Mapping[str, Sequence[Problem]]) -> dict[str, int]:
    """The number of gold statements in each set that equal a test's but for constants."""
    tests = {_form(problem) for name in SETS for problem in drawn[name]}
    return {
        name: sum(_form(problem) in tests for problem in of_set)
        for name, of_set in drawn.items()
        if name not in SETS
    }


def _form(problem: Problem) -> str:
    gold = str(problem.answer["gold_sql"]).lower().replace('"', "'")
    return f"{problem.answer['database']} {without_constants(gold)}"
