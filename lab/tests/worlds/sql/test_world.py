import hashlib
import json
from contextlib import closing
from random import Random

import pytest

from dph._base.files import read_json
from dph.errors import SettingsError
from dph.records import Outcome, Problem
from dph.tasks.problems import load_problems
from dph.tasks.verifiers import make_verifier
from lab.worlds import PARTS, UNLABELLED
from lab.worlds.sql.base_model import draw_pool
from lab.worlds.sql.kind import SQLWorldSizes
from lab.worlds.sql.question_sets import draw_questions, gold_sql
from lab.worlds.sql.questions import STYLES, read_correctly, write_answer
from lab.worlds.sql.world import build_world

SETS = ("train", "in_domain", "cross_domain", "arithmetic")


def load(world, name):
    return [json.loads(line) for line in world.problems_path(name).read_text().splitlines()]


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


def test_sets_do_not_overlap_and_cross_domain_databases_are_never_trained_on(world):
    prompts = {name: world.prompts(name) for name in SETS}
    everything = [prompt for items in prompts.values() for prompt in items]
    assert len(set(everything)) == len(everything)
    asked = {name: {row["db_id"] for row in load(world, name)} for name in SETS[:3]}
    assert asked["train"] | asked["in_domain"] <= {d.name for d in world.in_domain}
    assert asked["cross_domain"] <= {d.name for d in world.cross_domain}
    assert not {d.name for d in world.in_domain} & {d.name for d in world.cross_domain}


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


def test_the_world_has_the_problems_and_the_lessons_that_it_always_had(tmp_path):
    world = build_world(tmp_path, seed=0)
    digest = hashlib.sha256()
    for name in ("train", "in_domain", "cross_domain", "arithmetic", UNLABELLED):
        digest.update(world.problems_path(name).read_bytes())
    # Of the files and of the base model's questions before there were hostile worlds.
    assert digest.hexdigest() == "a173a4d138e0e08c7ce368245b859be81c6af216369108cfab26fedd3261d779"
    asked = "\n".join(question.prompt for question in draw_pool(world, seed=0))
    assert hashlib.sha256(asked.encode()).hexdigest().startswith("c522a7baccac913b")
    assert list(read_json(tmp_path / "world.json")) == [
        *("schema", "edition", "seed", "sizes", "in_domain", "cross_domain"),
        *("held_out_terms", "sha256"),
    ]


def test_the_manifest_says_its_edition_and_the_hash_of_every_set(world):
    manifest = read_json(world.directory / "world.json")
    assert (manifest["schema"], manifest["edition"], manifest["seed"]) == (3, 2, 0)
    assert manifest["sizes"]["unlabelled"] == 50
    assert manifest["in_domain"] == [database.name for database in world.in_domain]
    assert manifest["held_out_terms"] == sorted(world.held_out_terms)
    assert "unlabelled.jsonl" in manifest["sha256"]
    assert len(manifest["sha256"]) == 6 + 5


def test_whole_sets_are_as_large_as_promised_and_a_third_of_the_terms_is_never_trained(tmp_path):
    world = build_world(tmp_path, seed=3)
    rows = {name: load(world, name) for name in (*SETS, UNLABELLED)}
    sizes = {name: len(rows[name]) for name in ("train", "in_domain", "cross_domain")}
    assert sizes == {"train": 600, "in_domain": 300, "cross_domain": 300}
    parts = [row["part"] for row in rows[UNLABELLED]]
    assert [parts.count(part) for part in PARTS] == [600, 600]
    terms = {column.term for database in world.in_domain for column in database.domain.columns}
    held_out = world.held_out_terms
    assert len(held_out) == 7 == len(terms) // 3
    assert {term for row in rows["train"] for term in row["terms"]} == terms - held_out
    assert held_out < {term for row in rows["in_domain"] for term in row["terms"]}
    words = {word for row in rows["train"] for word in row["prompt"].split("|")[1].split()}
    assert held_out.isdisjoint(words)
    unlabelled = world.prompts(UNLABELLED)
    assert len(set(unlabelled)) == 1200
    for name in SETS:
        assert not set(unlabelled) & set(world.prompts(name))


def test_unlabelled_rows_hold_a_prompt_and_where_it_belongs_and_nothing_else(world):
    rows = load(world, UNLABELLED)
    assert len({row["problem_id"] for row in rows}) == 100
    inside = {database.name for database in world.in_domain}
    for row in rows:
        assert list(row) == ["problem_id", "prompt", "database", "db_id", "part"]
        assert row["part"] == ("trained" if row["db_id"] in inside else "others")
        assert (world.databases_directory / row["database"]).is_file()
    assert [row["part"] for row in rows] == ["trained"] * 50 + ["others"] * 50


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"train": 0}, "train needs at least 1"), ({"arithmetic": 78}, "there are 77")],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(SettingsError, match=message):
        SQLWorldSizes(**sizes)
