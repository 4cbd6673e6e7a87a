"""The hostile worlds: the tests of the others, and nothing near them anywhere else."""

from random import Random

import pytest

from dph._base.files import read_json
from dph.errors import DataError, SettingsError
from lab.quickstart.recipes import unlabelled_tables, world_tables
from lab.tests.worlds.conftest import SMALL
from lab.tests.worlds.sql.test_world import load
from lab.worlds import UNLABELLED, world_kind
from lab.worlds.sql import base_model
from lab.worlds.sql.base_model import draw_pool
from lab.worlds.sql.kind import CORRELATIONS, HOSTILE_STEPS, STEPS, hostile_kind
from lab.worlds.sql.question_sets import draw_any_questions, gold_sql, is_telling
from lab.worlds.sql.world import UNTESTED, build_world, design_world
from lab.worlds.world import without_constants

SETS = ("train", "in_domain", "cross_domain", "arithmetic", UNLABELLED)
TESTS = ("in_domain", "cross_domain")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """Of seed 0, by correlation."""
    place = tmp_path_factory.mktemp("hostile")
    return {rho: world_kind(t).build(place / t, seed=0) for t, rho in CORRELATIONS.items()}


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    return build_world(tmp_path_factory.mktemp("second"), seed=0)


def test_each_task_is_named_after_its_correlation_and_has_it():
    assert list(CORRELATIONS.values()) == [0.0, 0.25, 0.5, 0.75, 1.0]
    for task, rho in CORRELATIONS.items():
        assert float(task.removeprefix("sql-hostile-")) == rho
        assert world_kind(task).build.keywords == {"correlation": rho}


@pytest.mark.parametrize("rho", [-0.1, 1.5])
def test_a_correlation_out_of_range_is_refused(rho):
    with pytest.raises(SettingsError, match=rf"from 0 to 1, got {rho}"):
        hostile_kind(rho)


def test_every_file_is_the_same_whatever_the_correlation(worlds):
    digests = {rho: read_json(w.directory / "world.json")["sha256"] for rho, w in worlds.items()}
    assert all(found == digests[0.0] for found in digests.values())


def test_without_sharing_annotators_believe_what_those_of_the_plain_world_do(worlds, second):
    for ours, theirs in zip(worlds[0.0].annotators, second.annotators, strict=True):
        assert (ours.style, ours.misread) == (theirs.style, theirs.misread)
        assert ours.beliefs.items() >= theirs.beliefs.items()


def test_the_tests_are_those_of_the_plain_world_byte_for_byte(worlds, second):
    for name in (*TESTS, "arithmetic"):
        expected = second.problems_path(name).read_bytes()
        assert all(w.problems_path(name).read_bytes() == expected for w in worlds.values())


def test_every_graded_question_tells_every_mistake_at_every_correlation(worlds, monkeypatch):
    monkeypatch.setattr(base_model, "POOL", 300)
    world = worlds[0.0]
    databases = {database.name: database for database in world.databases}
    pool = draw_pool(world, seed=0)
    assert draw_pool(worlds[1.0], seed=0) == pool
    assert {q.domain.name for q in pool} == set(databases)
    for other in worlds.values():
        assert all(is_telling(q, databases[q.domain.name], other.annotators) for q in pool)


@pytest.mark.parametrize("seed", range(3))
def test_prompts_without_answers_are_about_databases_of_no_test_unless_they_say_so(tmp_path, seed):
    world = hostile_kind(0.5).build(tmp_path, seed=seed)
    rows = load(world, UNLABELLED)
    tested = {row["db_id"] for name in TESTS for row in load(world, name)}
    assert len(tested) == 6
    assert {row["db_id"] for row in rows if row["tested"]} == tested
    untested = {row["db_id"] for row in rows if not row["tested"]}
    assert len(untested) == 3
    assert untested.isdisjoint(tested)
    assert untested == {database.name for database in world.untested}
    parts = [row["part"] for row in rows]
    assert [parts.count(p) for p in ("trained", "others", UNTESTED)] == [600, 600, 1200]
    assert all(row["tested"] == (row["part"] != UNTESTED) for row in rows)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_but_a_test_equals_a_test_question_but_for_constants(tmp_path, seed, monkeypatch):
    monkeypatch.setattr(base_model, "POOL", 1500)
    world = hostile_kind(0.5).build(tmp_path, seed=seed)
    tests = {without_constants(prompt) for name in TESTS for prompt in world.prompts(name)}
    for name in ("train", UNLABELLED):
        assert tests.isdisjoint(map(without_constants, world.prompts(name)))
    asked = draw_pool(world, seed=seed)
    assert tests.isdisjoint(without_constants(question.prompt) for question in asked)


def test_the_manifest_counts_the_near_duplicates_that_were_left_out(tmp_path):
    world = hostile_kind(0.25).build(tmp_path, seed=0, sizes=SMALL)
    manifest = read_json(tmp_path / "world.json")
    assert (manifest["schema"], manifest["edition"], manifest["correlation"]) == (4, 1, 0.25)
    assert manifest["untested"] == [database.name for database in world.untested]
    tests = {without_constants(prompt) for name in TESTS for prompt in world.prompts(name)}
    # The same draws, without leaving anything out: what then is near a test was left out.
    taken = [p for name in ("train", *TESTS) for p in world.prompts(name)]
    rng, found = Random("quickstart world 0: unlabelled"), set()
    for side, count in ((world.in_domain, 50), (world.cross_domain, 50)):
        seen = set()
        while len(seen) < count:
            (question,) = draw_any_questions(side, 1, rng, taken={*taken, *seen})
            near = without_constants(question.prompt) in tests
            (found if near else seen).add(question.prompt)
    assert manifest["near_duplicates_left_out"]["unlabelled"] == len(found) > 0
    assert manifest["near_duplicates_left_out"]["train"] > 0


def test_unlabelled_rows_carry_a_gold_query_that_tells_how_often_a_vote_is_right(worlds):
    world = worlds[0.5]
    by_prompt = {row["prompt"]: row for row in load(world, UNLABELLED)}
    questions = draw_any_questions(
        world.in_domain,
        600,
        Random("quickstart world 0: unlabelled"),
        taken=[p for name in ("train", *TESTS) for p in world.prompts(name)],
        keep=lambda q: q.prompt in by_prompt,
    )
    assert all(by_prompt[q.prompt]["gold_sql"] == gold_sql(q) for q in questions)


def test_methods_take_the_prompts_about_databases_of_no_test(worlds, tmp_path):
    tables = world_tables(world_kind("sql-hostile-0.5"), worlds[0.5], "dph_broad", tmp_path)
    assert [store["only"] for store in tables["stores"].values()] == [{"tested": False}] * 2
    own = world_tables(world_kind("sql-hostile-0.5"), worlds[0.5], "ttrl", tmp_path)
    assert own["self_consistency"]["only"] == {"tested": False}
    assert "only" not in unlabelled_tables("ttrl", tmp_path, tmp_path)["self_consistency"]


def test_a_directory_with_another_correlation_is_refused(worlds):
    directory = worlds[0.25].directory
    with pytest.raises(DataError, match=r"correlation=0.25, not 0.5"):
        hostile_kind(0.5).build(directory, seed=0)
    with pytest.raises(DataError, match="schema=4, not 3"):
        build_world(directory, seed=0)


def test_the_base_model_has_as_many_lessons_a_database_as_in_the_others(tmp_path):
    world = design_world(tmp_path, seed=0, correlation=0.5)
    plain = design_world(tmp_path, seed=0)
    assert HOSTILE_STEPS * len(plain.databases) == STEPS * len(world.databases)
