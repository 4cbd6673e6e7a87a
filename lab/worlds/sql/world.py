"""A text-to-SQL world on SQLite files, all of it drawn from one seed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from dph._base.files import make_directory, sha256, write_json, write_json_lines
from dph._base.files.rows import read_rows
from lab.worlds.sql.annotators import Annotator, draw_knowledge, knowing_more, with_shared_gaps
from lab.worlds.sql.domains import DOMAINS, Database, draw_database
from lab.worlds.sql.kind import SQLWorldSizes
from lab.worlds.sql.question_sets import draw_any_questions, draw_questions, gold_sql
from lab.worlds.sql.questions import Question
from lab.worlds.sql.sums import Sum, all_sums
from lab.worlds.world import (
    MANIFEST,
    PARTS,
    UNLABELLED,
    NearDuplicates,
    is_complete,
)

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
UNTESTED = "untested"
"""The part of unlabelled prompts about databases that no test is about."""


@dataclass(frozen=True)
class SQLWorld:
    """Everything that a seed decides, before any question is drawn.

    ``in_domain`` databases are asked about in RL; ``cross_domain`` ones only in tests.
    """

    directory: Path
    seed: int
    in_domain: tuple[Database, ...]
    cross_domain: tuple[Database, ...]
    annotators: tuple[Annotator, ...]
    held_out_terms: frozenset[str]
    untested: tuple[Database, ...] = ()
    """Databases that no test is about, in hostile worlds."""
    unshared: tuple[Annotator, ...] = ()
    """In hostile worlds the annotators before any gap was shared."""

    @property
    def whose_mistakes_show(self) -> tuple[Annotator, ...]:
        """Those whose every wrong belief changes the answer to every question that is graded.

        In hostile worlds questions are the same however many gaps are shared.
        """
        return self.unshared or self.annotators

    @property
    def databases(self) -> tuple[Database, ...]:
        """Every database of the world; the base model learns them all."""
        return self.in_domain + self.cross_domain + self.untested

    @property
    def databases_directory(self) -> Path:
        """The folder that problems' ``database`` paths start from."""
        return self.directory / DATABASES

    def problems_path(self, name: str) -> Path:
        """The file of a set: train, in_domain, cross_domain, arithmetic or unlabelled."""
        return self.directory / f"{name}.jsonl"

    def prompts(self, name: str) -> list[str]:
        """The prompts of a problem set, read from its file."""
        return [row["prompt"] for _, row in read_rows(self.problems_path(name))]

    def near_duplicates(self, tests: Iterable[str]) -> NearDuplicates:
        """Those of ``tests``, which nothing else may hold in hostile worlds; in others, none."""
        return NearDuplicates(tests if self.untested else ())

    @property
    def fingerprint(self) -> str:
        """A hash over the whole world: that of the manifest, which holds all others."""
        return sha256(self.directory / MANIFEST)


def design_world(directory: Path, *, seed: int, correlation: float | None = None) -> SQLWorld:
    """Draw domains, rows, annotators and held-out terms; touches no file.

    ``correlation`` makes it hostile: how likely a gap is every annotator's.
    """
    rng = _stream(seed, "design")
    databases = [draw_database(d, rng) for d in rng.sample(DOMAINS, 2 * DOMAINS_PER_SIDE)]
    inside, outside = tuple(databases[:DOMAINS_PER_SIDE]), tuple(databases[DOMAINS_PER_SIDE:])
    knowledge = draw_knowledge(inside, outside, rng)
    world = SQLWorld(
        directory=directory,
        seed=seed,
        in_domain=inside,
        cross_domain=outside,
        annotators=knowledge.annotators,
        held_out_terms=knowledge.held_out_terms,
    )
    return world if correlation is None else _made_hostile(world, correlation)


def _made_hostile(world: SQLWorld, correlation: float) -> SQLWorld:
    """The same world with databases of no test, and with gaps that annotators share."""
    rng = _stream(world.seed, "databases of no test")
    left = [domain for domain in DOMAINS if domain not in [d.domain for d in world.databases]]
    untested = tuple(draw_database(domain, rng) for domain in rng.sample(left, DOMAINS_PER_SIDE))
    sides = (world.in_domain, world.cross_domain, untested)
    terms = [[c.term for database in side for c in database.domain.columns] for side in sides]
    held_out = [term for term in terms[0] if term in world.held_out_terms]
    trained = [term for term in terms[0] if term not in world.held_out_terms]
    unshared = knowing_more(world.annotators, untested, rng)
    annotators = with_shared_gaps(
        unshared,
        (trained, held_out, *terms[1:]),
        correlation=correlation,
        rng=_stream(world.seed, "shared gaps"),
    )
    return replace(world, annotators=annotators, untested=untested, unshared=unshared)


def build_world(
    directory: Path,
    *,
    seed: int,
    sizes: SQLWorldSizes | None = None,
    correlation: float | None = None,
) -> SQLWorld:
    """Write the world into ``directory``; keep it if it is already there and whole.

    Leaves ``databases/<id>/<id>.sqlite``, the problem sets ``train.jsonl``, ``in_domain.jsonl``,
    ``cross_domain.jsonl``, ``arithmetic.jsonl`` and ``unlabelled.jsonl``, and ``world.json`` (seed,
    sizes, hashes), which is written last. The same seed, sizes and SQLite version give the same
    bytes. ``correlation`` is as of ``design_world``.

    Raises:
        DataError: ``directory`` holds another world or cannot be written.
    """
    sizes = sizes or SQLWorldSizes()
    made_from = _made_from(seed, sizes, correlation)
    world = design_world(directory, seed=seed, correlation=correlation)
    if is_complete(directory, made_from):
        return world
    make_directory(directory)
    files = [database.write(world.databases_directory) for database in world.databases]
    sets, left_out = _draw_problems(world, asdict(sizes))
    for name, problems in sets.items():
        write_json_lines(world.problems_path(name), problems, ascii_only=False)
        files.append(world.problems_path(name))
    hashes = {path.relative_to(directory).as_posix(): sha256(path) for path in files}
    about = _describe(world, left_out)
    write_json(directory / MANIFEST, {**made_from, **about, "sha256": hashes})
    return world


def _made_from(seed: int, sizes: SQLWorldSizes, correlation: float | None) -> dict[str, Any]:
    """Settings that a world was made from, as its manifest begins."""
    counts = asdict(sizes)
    if correlation is None:
        return {"schema": 3, "edition": 2, "seed": seed, "sizes": counts}
    own = {"schema": 4, "edition": 1, "seed": seed, "sizes": counts}
    return {**own, "correlation": correlation}


def _stream(seed: int, purpose: str) -> Random:
    """A separate random stream for each purpose, so that sizes do not shift what is drawn."""
    return Random(f"quickstart world {seed}: {purpose}")


def _describe(world: SQLWorld, left_out: Mapping[str, int]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "in_domain": [database.name for database in world.in_domain],
        "cross_domain": [database.name for database in world.cross_domain],
        "held_out_terms": sorted(world.held_out_terms),
    }
    if world.untested:
        found["untested"] = [database.name for database in world.untested]
        found["near_duplicates_left_out"] = dict(left_out)
    return found


def _draw_problems(
    world: SQLWorld, sizes: Mapping[str, int]
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """The rows of each set, and how many near-duplicates of tests were left out of some."""
    asked = {
        name: draw_questions(
            databases, world.whose_mistakes_show, sizes[name], _stream(world.seed, name)
        )
        for name, databases in (
            ("in_domain", world.in_domain),
            ("cross_domain", world.cross_domain),
        )
    }
    tests = [question.prompt for questions in asked.values() for question in questions]
    near = {name: world.near_duplicates(tests) for name in ("train", UNLABELLED)}
    asked["train"] = draw_questions(
        world.in_domain,
        world.whose_mistakes_show,
        sizes["train"],
        _stream(world.seed, "train"),
        taken=[question.prompt for question in asked["in_domain"]],
        forbidden_terms=world.held_out_terms,
        near=near["train"],
    )
    sums = _stream(world.seed, "arithmetic").sample(all_sums(), sizes["arithmetic"])
    paths = {database.name: database.relative_path for database in world.databases}
    problems = {
        name: [sql_row(f"{name}-{i:04d}", q, paths) for i, q in enumerate(questions)]
        for name, questions in asked.items()
    }
    problems["arithmetic"] = [sum_row(f"arithmetic-{i:04d}", s) for i, s in enumerate(sums)]
    taken = [question.prompt for questions in asked.values() for question in questions]
    problems[UNLABELLED] = _unlabelled_rows(
        world, sizes[UNLABELLED], taken, near[UNLABELLED], paths
    )
    return problems, {name: len(found.left_out) for name, found in near.items()}


def _unlabelled_rows(
    world: SQLWorld,
    count: int,
    taken: Sequence[str],
    near: NearDuplicates,
    paths: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Questions of users: without any informed filter, only different prompts from those.

    With databases of no test, as many are about them as about all others.
    """
    rng = _stream(world.seed, UNLABELLED)
    sides = [(PARTS[0], world.in_domain, count), (PARTS[1], world.cross_domain, count)]
    if world.untested:
        sides.append((UNTESTED, world.untested, 2 * count))
    asked = [
        (part, question)
        for part, databases, wanted in sides
        for question in draw_any_questions(
            databases, wanted, rng, taken=taken, keep=lambda q: not near.leaves_out(q.prompt)
        )
    ]
    rows = [
        unlabelled_row(f"{UNLABELLED}-{i:04d}", question, paths, part=part)
        for i, (part, question) in enumerate(asked)
    ]
    if not world.untested:
        return rows
    return [
        {**row, "tested": part != UNTESTED, "gold_sql": gold_sql(question)}
        for row, (part, question) in zip(rows, asked, strict=True)
    ]
