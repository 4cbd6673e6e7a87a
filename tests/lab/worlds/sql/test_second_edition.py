"""The second edition: what its files hold, and that the first one stays what it was."""

import hashlib
from dataclasses import replace
from random import Random

import pytest

from dph._base.files import read_json
from dph.errors import DataError, SettingsError
from dph.lab.worlds import PARTS, UNLABELLED, newest_edition, world_kind
from dph.lab.worlds.sql.base_model import draw_pool
from dph.lab.worlds.sql.first_edition import FIRST_EDITION
from dph.lab.worlds.sql.question_sets import NOTHING, draw_any_questions, gold_sql, is_telling
from dph.lab.worlds.sql.second_edition import SECOND_EDITION
from lab.worlds.conftest import SMALL
from lab.worlds.sql.test_world import contents, load

FEW = replace(SMALL, unlabelled=50)


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    return SECOND_EDITION.build(tmp_path_factory.mktemp("second"), seed=0, sizes=FEW)


def test_the_newest_text_to_sql_world_is_the_second_and_the_first_is_still_there():
    assert newest_edition("sql") == 2
    assert world_kind("sql") is SECOND_EDITION
    assert world_kind("sql", 1) is FIRST_EDITION


def test_the_first_edition_has_the_problems_that_it_always_had(tmp_path):
    world = FIRST_EDITION.build(tmp_path, seed=0)
    digest = hashlib.sha256()
    for name in ("train", "in_domain", "cross_domain", "arithmetic"):
        digest.update(world.problems_path(name).read_bytes())
    # Of the files that the first release of this world wrote for seed 0.
    assert digest.hexdigest() == "1d0d3aea6a949d3edd0d7f757fbc0d98fb8ee7558ffbe7664060e34865294dce"
    manifest = read_json(tmp_path / "world.json")
    assert list(manifest) == [
        "schema",
        "seed",
        "sizes",
        "in_domain",
        "cross_domain",
        "held_out_terms",
        "sha256",
    ]
    assert manifest["schema"] == 2
    assert manifest["sizes"] == {
        "train": 600,
        "in_domain": 150,
        "cross_domain": 150,
        "arithmetic": 77,
    }
    assert not world.problems_path(UNLABELLED).exists()


def test_the_second_edition_has_the_problems_and_the_lessons_that_it_always_had(tmp_path):
    world = SECOND_EDITION.build(tmp_path, seed=0)
    digest = hashlib.sha256()
    for name in ("train", "in_domain", "cross_domain", "arithmetic", UNLABELLED):
        digest.update(world.problems_path(name).read_bytes())
    # Of the files and of the base model's questions before there were hostile editions.
    assert digest.hexdigest() == "a173a4d138e0e08c7ce368245b859be81c6af216369108cfab26fedd3261d779"
    asked = "\n".join(question.prompt for question in draw_pool(world, seed=0))
    assert hashlib.sha256(asked.encode()).hexdigest().startswith("c522a7baccac913b")
    assert list(read_json(tmp_path / "world.json")) == [
        *("schema", "edition", "seed", "sizes", "in_domain", "cross_domain"),
        *("held_out_terms", "sha256"),
    ]


def test_the_same_seed_gives_the_same_bytes(second, tmp_path):
    SECOND_EDITION.build(tmp_path / "again", seed=0, sizes=FEW)
    assert contents(tmp_path / "again") == contents(second.directory)
    other = SECOND_EDITION.build(tmp_path / "other", seed=1, sizes=FEW)
    assert other.fingerprint != second.fingerprint


def test_the_manifest_says_its_edition_and_the_hash_of_every_set(second):
    manifest = read_json(second.directory / "world.json")
    assert (manifest["schema"], manifest["edition"], manifest["seed"]) == (3, 2, 0)
    assert manifest["sizes"]["unlabelled"] == 50
    assert "unlabelled.jsonl" in manifest["sha256"]
    assert manifest["held_out_terms"] == sorted(second.held_out_terms)
    assert second.edition == 2


def test_a_directory_with_the_other_edition_is_refused(second, tmp_path):
    with pytest.raises(DataError, match="holds a world with schema=3, not 2"):
        FIRST_EDITION.build(second.directory, seed=0, sizes=SMALL)
    FIRST_EDITION.build(tmp_path, seed=0, sizes=SMALL)
    with pytest.raises(DataError, match="holds a world with schema=2, not 3"):
        SECOND_EDITION.build(tmp_path, seed=0, sizes=SMALL)


def test_the_first_edition_refuses_to_be_asked_for_unlabelled_questions(tmp_path):
    with pytest.raises(SettingsError, match=r"edition 1 .* got unlabelled=50"):
        FIRST_EDITION.build(tmp_path, seed=0, sizes=FEW)


def test_the_sets_are_as_large_as_promised(tmp_path):
    world = SECOND_EDITION.build(tmp_path, seed=3)
    sizes = {name: len(load(world, name)) for name in ("train", "in_domain", "cross_domain")}
    assert sizes == {"train": 600, "in_domain": 300, "cross_domain": 300}
    parts = [row["part"] for row in load(world, UNLABELLED)]
    assert [parts.count(part) for part in PARTS] == [600, 600]
    trained = {term for row in load(world, "train") for term in row["terms"]}
    assert trained.isdisjoint(world.held_out_terms)
    asked = {term for row in load(world, "in_domain") for term in row["terms"]}
    assert world.held_out_terms < asked


def test_unlabelled_rows_hold_a_prompt_and_where_it_belongs_and_nothing_else(second):
    rows = load(second, UNLABELLED)
    assert len({row["problem_id"] for row in rows}) == 100
    inside = {database.name for database in second.in_domain}
    for row in rows:
        assert list(row) == ["problem_id", "prompt", "database", "db_id", "part"]
        assert row["part"] == ("trained" if row["db_id"] in inside else "others")
        assert (second.databases_directory / row["database"]).is_file()
    assert [row["part"] for row in rows] == ["trained"] * 50 + ["others"] * 50


@pytest.mark.parametrize("seed", range(3))
def test_no_unlabelled_prompt_is_one_of_a_test_or_of_rl(tmp_path, seed):
    world = SECOND_EDITION.build(tmp_path, seed=seed)
    prompts = world.prompts(UNLABELLED)
    assert len(set(prompts)) == 1200
    for name in ("train", "in_domain", "cross_domain", "arithmetic"):
        assert not set(prompts) & set(world.prompts(name))


def test_unlabelled_questions_are_asked_whoever_annotates_and_whatever_the_answer(tmp_path):
    world = SECOND_EDITION.build(tmp_path, seed=0)
    taken = [p for name in ("train", "in_domain", "cross_domain") for p in world.prompts(name)]
    rng = Random("quickstart world 0: unlabelled")
    sides = (world.in_domain, world.cross_domain)
    drawn = [draw_any_questions(side, 600, rng, taken=taken) for side in sides]
    assert [q.prompt for questions in drawn for q in questions] == world.prompts(UNLABELLED)
    databases = {database.name: database for database in world.databases}
    asked = [(q, databases[q.domain.name]) for questions in drawn for q in questions]
    # So it holds what the filters of the other sets would have left out.
    assert world.held_out_terms <= {term for question, _ in asked for term in question.terms}
    assert any(database.oracle(gold_sql(q)) in NOTHING for q, database in asked)
    telling = sum(is_telling(q, database, world.annotators) for q, database in asked)
    assert 0.3 * len(asked) < telling < 0.95 * len(asked)
