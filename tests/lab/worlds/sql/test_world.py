"""A built world: the same bytes for the same seed, and sets that do not leak into each other."""

import json
import sqlite3
import time
from contextlib import closing
from random import Random

import pytest

from dph._base.files import read_json
from dph.errors import DataError
from dph.lab.worlds.sql.question_sets import draw_questions, gold_sql
from dph.lab.worlds.sql.questions import read_correctly
from dph.lab.worlds.sql.styles import STYLES, write_answer
from dph.lab.worlds.sql.world import build_world, design_world
from dph.records import Outcome, Problem
from dph.tasks.problems import load_problems
from dph.tasks.verifiers import make_verifier
from lab.worlds.conftest import SMALL

SETS = ("train", "in_domain", "cross_domain", "arithmetic")


def load(world, name):
    return [json.loads(line) for line in world.problems_path(name).read_text().splitlines()]


def contents(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_the_same_seed_gives_byte_identical_files(world, tmp_path):
    build_world(tmp_path / "again", seed=0, sizes=SMALL)
    assert contents(tmp_path / "again") == contents(world.directory)


def test_another_seed_gives_another_world(world, tmp_path):
    other = build_world(tmp_path, seed=1, sizes=SMALL)
    assert other.fingerprint != world.fingerprint
    assert load(other, "train") != load(world, "train")


def test_a_world_has_the_sizes_asked_for_and_unique_problem_ids(world):
    rows = {name: load(world, name) for name in SETS}
    assert {name: len(items) for name, items in rows.items()} == {
        "train": 40,
        "in_domain": 20,
        "cross_domain": 20,
        "arithmetic": 12,
    }
    ids = [row["problem_id"] for items in rows.values() for row in items]
    assert len(set(ids)) == len(ids)


def test_every_gold_query_runs_on_the_written_file_and_returns_rows(world):
    for name in ("train", "in_domain", "cross_domain"):
        for row in load(world, name):
            path = world.databases_directory / row["database"]
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute(row["gold_sql"]).fetchall()


def test_sets_do_not_overlap_and_cross_domain_databases_are_never_trained_on(world):
    prompts = {name: world.prompts(name) for name in SETS}
    everything = [prompt for items in prompts.values() for prompt in items]
    assert len(set(everything)) == len(everything)
    asked = {name: {row["db_id"] for row in load(world, name)} for name in SETS[:3]}
    assert asked["train"] | asked["in_domain"] <= {d.name for d in world.in_domain}
    assert asked["cross_domain"] <= {d.name for d in world.cross_domain}
    assert not {d.name for d in world.in_domain} & {d.name for d in world.cross_domain}


@pytest.mark.parametrize("seed", range(3))
def test_a_third_of_the_in_domain_terms_never_occurs_in_training(tmp_path, seed):
    world = build_world(tmp_path, seed=seed)
    terms = {column.term for database in world.in_domain for column in database.domain.columns}
    assert len(world.held_out_terms) == 7 == len(terms) // 3
    assert world.held_out_terms <= terms
    trained = {term for row in load(world, "train") for term in row["terms"]}
    asked = {term for row in load(world, "in_domain") for term in row["terms"]}
    assert trained == terms - world.held_out_terms
    assert len(asked & world.held_out_terms) >= 6
    assert all(
        world.held_out_terms.isdisjoint(row["prompt"].split("|")[1].split())
        for row in load(world, "train")
    )


def test_a_small_world_builds_in_under_two_seconds(tmp_path):
    start = time.perf_counter()
    build_world(tmp_path, seed=5, sizes=SMALL)
    assert time.perf_counter() - start < 2


def test_a_complete_world_is_kept_and_a_damaged_one_is_made_whole(tmp_path):
    world = build_world(tmp_path, seed=2, sizes=SMALL)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    build_world(tmp_path, seed=2, sizes=SMALL)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    intact = contents(tmp_path)
    world.problems_path("train").write_text("damaged")
    (tmp_path / "world.json").unlink()
    build_world(tmp_path, seed=2, sizes=SMALL)
    assert contents(tmp_path) == intact
    (world.databases_directory / world.databases[0].relative_path).unlink()
    build_world(tmp_path, seed=2, sizes=SMALL)
    assert contents(tmp_path) == intact


def test_a_directory_with_another_world_is_refused(world):
    with pytest.raises(DataError, match="holds a world with seed=0, not 1"):
        build_world(world.directory, seed=1, sizes=SMALL)
    with pytest.raises(DataError, match="sizes"):
        build_world(world.directory, seed=0)


def test_the_manifest_names_seed_databases_and_held_out_terms(world):
    manifest = read_json(world.directory / "world.json")
    assert manifest["seed"] == 0
    assert manifest["in_domain"] == [database.name for database in world.in_domain]
    assert manifest["held_out_terms"] == sorted(world.held_out_terms)
    assert len(manifest["sha256"]) == 6 + 4


def test_the_verifier_accepts_every_style_of_a_correct_answer_on_the_written_files(world):
    paths = {database.name: database.relative_path for database in world.databases}
    problems, responses = [], []
    for question in draw_questions(world.databases, world.annotators, 40, Random(9)):
        answer = {"gold_sql": gold_sql(question), "database": paths[question.domain.name]}
        for style in STYLES:
            problems.append(
                Problem(problem_id=f"{len(problems)}", prompt=question.prompt, answer=answer)
            )
            responses.append(write_answer(read_correctly(question), style))
    with closing(make_verifier("sql", databases=world.databases_directory)) as verifier:
        verdicts = verifier.grade(problems, responses)
    assert {verdict.outcome for verdict in verdicts} == {Outcome.CORRECT}


def test_problem_files_load_and_the_number_verifier_reads_the_answers_to_sums(world):
    assert len(load_problems(world.problems_path("train"))) == 40
    sums = load_problems(world.problems_path("arithmetic"))
    verifier = make_verifier("number")
    for form in ("calc:", "think: so"):
        right = verifier.grade(sums, [f"{form} {item.answer['answer']}" for item in sums])
        wrong = verifier.grade(sums, [f"{form} 18" for _ in sums])
        assert {verdict.outcome for verdict in right} == {Outcome.CORRECT}
        assert {verdict.outcome for verdict in wrong} == {Outcome.WRONG}


def test_designing_a_world_touches_no_file(tmp_path):
    world = design_world(tmp_path / "nowhere", seed=0)
    assert not world.directory.exists()
