"""A text-to-SQL world on SQLite files, all of it drawn from one seed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from dph._base.files import make_directory, sha256, write_json, write_json_lines
from dph._base.files.rows import read_rows
from lab.worlds.sql.annotators import Annotator, draw_knowledge
from lab.worlds.sql.domains import DOMAINS, Database, draw_database
from lab.worlds.sql.kind import SQLWorldSizes
from lab.worlds.sql.question_sets import draw_any_questions, draw_questions, gold_sql
from lab.worlds.sql.questions import Question
from lab.worlds.sql.sums import Sum, all_sums
from lab.worlds.world import MANIFEST, PARTS, UNLABELLED, PlacedWorld, is_complete

# The rows of a text-to-SQL world's files.


def sql_row(problem_id: str, question: Question, paths: Mapping[str, str]) -> dict[str, Any]:
    """A question with its answer; ``paths`` are those of the databases by name."""
    return {
        "problem_id": problem_id,
        "prompt": question.prompt,
        "gold_sql": gold_sql(question),
        "database": paths[question.domain.name],
        "db_id": question.domain.name,
        "kind": question.kind,
        "terms": list(question.terms),
    }


def unlabelled_row(
    problem_id: str, question: Question, paths: Mapping[str, str], *, part: str
) -> dict[str, Any]:
    """A question without its answer."""
    return {
        "problem_id": problem_id,
        "prompt": question.prompt,
        "database": paths[question.domain.name],
        "db_id": question.domain.name,
        "part": part,
    }


def sum_row(problem_id: str, item: Sum) -> dict[str, Any]:
    """A sum with its answer."""
    return {
        "problem_id": problem_id,
        "prompt": item.prompt,
        "answer": str(item.answer),
        "kind": "arithmetic",
    }


DATABASES = "databases"
DOMAINS_PER_SIDE = 3


@dataclass(frozen=True)
class SQLWorld(PlacedWorld):
    """Everything that a seed decides, before any question is drawn.

    ``in_domain`` databases are asked about in RL; ``cross_domain`` ones only in tests.
    """

    in_domain: tuple[Database, ...]
    cross_domain: tuple[Database, ...]
    annotators: tuple[Annotator, ...]
    held_out_terms: frozenset[str]

    @property
    def databases(self) -> tuple[Database, ...]:
        """Every database of the world; the base model learns them all."""
        return self.in_domain + self.cross_domain

    @property
    def databases_directory(self) -> Path:
        """The folder that problems' ``database`` paths start from."""
        return self.directory / DATABASES

    def prompts(self, name: str) -> list[str]:
        """The prompts of a problem set, read from its file."""
        return [row["prompt"] for _, row in read_rows(self.problems_path(name))]


def design_world(directory: Path, *, seed: int) -> SQLWorld:
    """Draw domains, rows, annotators and held-out terms; touches no file."""
    rng = _stream(seed, "design")
    databases = [draw_database(d, rng) for d in rng.sample(DOMAINS, 2 * DOMAINS_PER_SIDE)]
    inside, outside = tuple(databases[:DOMAINS_PER_SIDE]), tuple(databases[DOMAINS_PER_SIDE:])
    knowledge = draw_knowledge(inside, outside, rng)
    return SQLWorld(
        directory=directory,
        seed=seed,
        in_domain=inside,
        cross_domain=outside,
        annotators=knowledge.annotators,
        held_out_terms=knowledge.held_out_terms,
    )


def build_world(directory: Path, *, seed: int, sizes: SQLWorldSizes | None = None) -> SQLWorld:
    """Write the world into ``directory``; keep it if it is already there and whole.

    Leaves ``databases/<id>/<id>.sqlite``, the problem sets ``train.jsonl``, ``in_domain.jsonl``,
    ``cross_domain.jsonl``, ``arithmetic.jsonl`` and ``unlabelled.jsonl``, and ``world.json`` (seed,
    sizes, hashes), which is written last. The same seed, sizes and SQLite version give the same
    bytes.
    """
    sizes = sizes or SQLWorldSizes()
    made_from = {"schema": 3, "edition": 2, "seed": seed, "sizes": asdict(sizes)}
    world = design_world(directory, seed=seed)
    if is_complete(directory, made_from):
        return world
    make_directory(directory)
    files = [database.write(world.databases_directory) for database in world.databases]
    for name, problems in _draw_problems(world, asdict(sizes)).items():
        write_json_lines(world.problems_path(name), problems, ascii_only=False)
        files.append(world.problems_path(name))
    hashes = {path.relative_to(directory).as_posix(): sha256(path) for path in files}
    write_json(directory / MANIFEST, {**made_from, **_describe(world), "sha256": hashes})
    return world


def _stream(seed: int, purpose: str) -> Random:
    """A separate random stream for each purpose, so that sizes do not shift what is drawn."""
    return Random(f"quickstart world {seed}: {purpose}")


def _describe(world: SQLWorld) -> dict[str, Any]:
    return {
        "in_domain": [database.name for database in world.in_domain],
        "cross_domain": [database.name for database in world.cross_domain],
        "held_out_terms": sorted(world.held_out_terms),
    }


def _draw_problems(world: SQLWorld, sizes: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each set."""
    asked = {
        name: draw_questions(databases, world.annotators, sizes[name], _stream(world.seed, name))
        for name, databases in (
            ("in_domain", world.in_domain),
            ("cross_domain", world.cross_domain),
        )
    }
    asked["train"] = draw_questions(
        world.in_domain,
        world.annotators,
        sizes["train"],
        _stream(world.seed, "train"),
        taken=[question.prompt for question in asked["in_domain"]],
        forbidden_terms=world.held_out_terms,
    )
    sums = _stream(world.seed, "arithmetic").sample(all_sums(), sizes["arithmetic"])
    paths = {database.name: database.relative_path for database in world.databases}
    problems = {
        name: [sql_row(f"{name}-{i:04d}", q, paths) for i, q in enumerate(questions)]
        for name, questions in asked.items()
    }
    problems["arithmetic"] = [sum_row(f"arithmetic-{i:04d}", s) for i, s in enumerate(sums)]
    taken = [question.prompt for questions in asked.values() for question in questions]
    problems[UNLABELLED] = _unlabelled_rows(world, sizes[UNLABELLED], taken, paths)
    return problems


def _unlabelled_rows(
    world: SQLWorld, count: int, taken: Sequence[str], paths: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Questions of users: without any informed filter, only different prompts from those."""
    rng = _stream(world.seed, UNLABELLED)
    sides = zip(PARTS, (world.in_domain, world.cross_domain), strict=True)
    asked = [
        (part, question)
        for part, databases in sides
        for question in draw_any_questions(databases, count, rng, taken=taken)
    ]
    return [
        unlabelled_row(f"{UNLABELLED}-{i:04d}", question, paths, part=part)
        for i, (part, question) in enumerate(asked)
    ]
