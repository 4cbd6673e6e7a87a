"""A text-to-SQL world on SQLite files, of either edition, all of it drawn from one seed."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from dph.errors import SettingsError
from dph.files import make_directory, sha256, write_json, write_text
from dph.files.rows import read_rows
from dph.worlds.sql.annotators import Annotator
from dph.worlds.sql.arithmetic import Sum, all_sums
from dph.worlds.sql.databases import Database, draw_database
from dph.worlds.sql.domains import DOMAINS
from dph.worlds.sql.knowledge import DrawKnowledge, knowledge_by_side
from dph.worlds.sql.question_sets import draw_any_questions, draw_questions, gold_sql
from dph.worlds.sql.questions import Question
from dph.worlds.world import MANIFEST, PARTS, UNLABELLED, is_complete

DATABASES = "databases"
DOMAINS_PER_SIDE = 3
QUESTIONS_WITHOUT_ANSWERS = 600
"""For each of the two parts, in editions that have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSizes:
    """How many problems each set holds."""

    train: int = 600
    in_domain: int = 150
    cross_domain: int = 150
    arithmetic: int = 77
    unlabelled: int | None = None
    """Questions without answers in each part [default: as many as the edition has]."""

    def __post_init__(self) -> None:
        for name, size in asdict(self).items():
            if size is not None and size < 1:
                raise SettingsError(f"the set {name} needs at least 1 problem, got {size}")
        if self.arithmetic > len(all_sums()):
            raise SettingsError(
                f"there are {len(all_sums())} different sums, got arithmetic={self.arithmetic}"
            )


TINY = WorldSizes(train=48, in_domain=8, cross_domain=8, arithmetic=8, unlabelled=24)
TINY_STEPS = 140
"""A base model of as many steps is right in 38% of its answers (seed 0); one of 60 steps never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edition:
    """What differs between the editions of this world."""

    number: int
    schema: int
    """Of the manifest; the first edition's says neither its edition nor anything unlabelled."""
    draw_knowledge: DrawKnowledge
    sizes: WorldSizes
    unlabelled: int = 0
    """Questions without answers in each part, where the sizes do not say."""

    def manifest_head(self, seed: int, sizes: WorldSizes) -> dict[str, Any]:
        """What a world was made from.

        Raises:
            SettingsError: the sizes ask for a set that this edition does not have.
        """
        counts = asdict(sizes)
        if not self.unlabelled:
            if sizes.unlabelled is not None:
                raise SettingsError(
                    f"edition {self.number} of this world has no questions without answers, "
                    f"got unlabelled={sizes.unlabelled}"
                )
            del counts["unlabelled"]
            return {"schema": self.schema, "seed": seed, "sizes": counts}
        counts["unlabelled"] = sizes.unlabelled or self.unlabelled
        return {"schema": self.schema, "edition": self.number, "seed": seed, "sizes": counts}


FIRST = Edition(number=1, schema=2, draw_knowledge=knowledge_by_side, sizes=WorldSizes())


@dataclass(frozen=True)
class World:
    """Everything that a seed decides, before any question is drawn.

    ``in_domain`` databases are asked about in RL; ``cross_domain`` ones only in tests.
    """

    directory: Path
    seed: int
    in_domain: tuple[Database, ...]
    cross_domain: tuple[Database, ...]
    annotators: tuple[Annotator, ...]
    held_out_terms: frozenset[str]
    edition: int = 1

    @property
    def databases(self) -> tuple[Database, ...]:
        """Every database of the world; the base model learns them all."""
        return self.in_domain + self.cross_domain

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

    @property
    def fingerprint(self) -> str:
        """A hash over the whole world: that of the manifest, which holds all others."""
        return sha256(self.directory / MANIFEST)


def design_world(directory: Path, *, seed: int, edition: Edition = FIRST) -> World:
    """Draw domains, rows, annotators and held-out terms; touches no file."""
    rng = _stream(seed, "design")
    databases = [draw_database(d, rng) for d in rng.sample(DOMAINS, 2 * DOMAINS_PER_SIDE)]
    inside, outside = tuple(databases[:DOMAINS_PER_SIDE]), tuple(databases[DOMAINS_PER_SIDE:])
    knowledge = edition.draw_knowledge(inside, outside, rng)
    return World(
        directory=directory,
        seed=seed,
        in_domain=inside,
        cross_domain=outside,
        annotators=knowledge.annotators,
        held_out_terms=knowledge.held_out_terms,
        edition=edition.number,
    )


def build_world(
    directory: Path, *, seed: int, sizes: WorldSizes | None = None, edition: Edition = FIRST
) -> World:
    """Write the world into ``directory``; keep it if it is already there and whole.

    Leaves ``databases/<id>/<id>.sqlite``, the problem sets ``train.jsonl``,
    ``in_domain.jsonl``, ``cross_domain.jsonl`` and ``arithmetic.jsonl``, from the second edition
    on ``unlabelled.jsonl``, and ``world.json`` (seed, sizes, hashes), which is written last. The
    same seed, sizes and SQLite version give the same bytes.

    Raises:
        DataError: ``directory`` holds another world or cannot be written.
        SettingsError: the edition has no set of which ``sizes`` gives the number.
    """
    made_from = edition.manifest_head(seed, sizes or edition.sizes)
    world = design_world(directory, seed=seed, edition=edition)
    if is_complete(directory, made_from):
        return world
    make_directory(directory)
    files = [database.write(world.databases_directory) for database in world.databases]
    for name, problems in _draw_problems(world, made_from["sizes"]).items():
        write_text(world.problems_path(name), _json_lines(problems))
        files.append(world.problems_path(name))
    hashes = {path.relative_to(directory).as_posix(): sha256(path) for path in files}
    write_json(directory / MANIFEST, {**made_from, **_describe(world), "sha256": hashes})
    return world


def _stream(seed: int, purpose: str) -> Random:
    """A random stream of its own for each purpose, so that sizes do not shift what is drawn."""
    return Random(f"quickstart world {seed}: {purpose}")


def _describe(world: World) -> dict[str, Any]:
    return {
        "in_domain": [database.name for database in world.in_domain],
        "cross_domain": [database.name for database in world.cross_domain],
        "held_out_terms": sorted(world.held_out_terms),
    }


def _draw_problems(world: World, sizes: Mapping[str, int]) -> dict[str, list[dict[str, Any]]]:
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
        name: [_sql_problem(f"{name}-{i:04d}", q, paths) for i, q in enumerate(questions)]
        for name, questions in asked.items()
    }
    problems["arithmetic"] = [_sum_problem(f"arithmetic-{i:04d}", s) for i, s in enumerate(sums)]
    if UNLABELLED in sizes:
        taken = [question.prompt for questions in asked.values() for question in questions]
        problems[UNLABELLED] = _unlabelled_rows(world, sizes[UNLABELLED], taken, paths)
    return problems


def _unlabelled_rows(
    world: World, count: int, taken: Sequence[str], paths: Mapping[str, str]
) -> list[dict[str, Any]]:
    """What users ask: no answer, no filter that knows anything, only other prompts than those."""
    rng = _stream(world.seed, UNLABELLED)
    asked = [
        (part, question)
        for part, databases in zip(PARTS, (world.in_domain, world.cross_domain), strict=True)
        for question in draw_any_questions(databases, count, rng, taken=taken)
    ]
    return [
        {
            "problem_id": f"{UNLABELLED}-{i:04d}",
            "prompt": question.prompt,
            "database": paths[question.domain.name],
            "db_id": question.domain.name,
            "part": part,
        }
        for i, (part, question) in enumerate(asked)
    ]


def _sql_problem(problem_id: str, question: Question, paths: Mapping[str, str]) -> dict[str, Any]:
    return {
        "problem_id": problem_id,
        "prompt": question.prompt,
        "gold_sql": gold_sql(question),
        "database": paths[question.domain.name],
        "db_id": question.domain.name,
        "kind": question.kind,
        "terms": list(question.terms),
    }


def _sum_problem(problem_id: str, item: Sum) -> dict[str, Any]:
    return {
        "problem_id": problem_id,
        "prompt": item.prompt,
        "answer": str(item.answer),
        "kind": "arithmetic",
    }


def _json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
