"""The environment ``sql``: a policy that looks before it answers is right, a hostile one is not."""

import shutil

import pytest

from dph import DataError, Outcome, Problem, SettingsError, make_verifier
from dph.recipe import resolve_recipe
from dph.runs.answers import run_verifier
from dph.tasks.environments import EpisodeLimits
from dph.tasks.sql.environment import sql_environment
from dph.tasks.verifiers.base import verifier_identity
from dph.tasks.verifiers.sql.verifier import databases_fingerprint
from scripted_policy import START, byte_tokenizer, call, make_draw
from small_databases import make_shop


@pytest.fixture(scope="module")
def tokenizer():
    return byte_tokenizer()


@pytest.fixture(scope="module")
def databases(tmp_path_factory):
    directory = tmp_path_factory.mktemp("databases")
    make_shop(directory / "shop.sqlite")
    return directory


GOLD = "SELECT name FROM item WHERE price > 2 AND 'gold' = 'gold'"
PROBLEM = Problem(
    problem_id="shop",
    prompt="Which cost more?",
    answer={"database": "shop.sqlite", "gold_sql": GOLD},
)


def drawn(tokenizer, databases, problems, script, samples=1):
    with (
        sql_environment(databases, limits=EpisodeLimits(seconds=20.0)) as environment,
        make_verifier("sql", databases=databases, workers=2) as verifier,
    ):
        room = {"max_tokens": 10**6, "tokens": 10**7}
        draw = make_draw(tokenizer, environment, script, verifier=verifier, **room)
        return draw(problems, samples=samples, seed=0)


def test_the_tools_show_tables_columns_and_rows(databases):
    with sql_environment(databases) as environment, environment.begin(PROBLEM) as episode:
        assert environment.submits == "answer"
        assert list(environment.by_name) == ["answer", "columns", "query", "tables"]
        tables, columns, rows, many, none = episode.step(
            call("tables")
            + call("columns", table="ITEM")
            + call("query", sql="SELECT name, price, code FROM item ORDER BY price")
            + call("query", sql="SELECT a.price FROM item a, item b, item c, item d")
            + call("query", sql="SELECT 1 WHERE 0")
        )
        assert tables.text == "item"
        assert columns.text.startswith("CREATE TABLE item (\n    name TEXT")
        assert rows.text == "3 rows\npen | 1.5 | None\ninké | 2.5 | b'\\x00'\npad | 3.0 | None"
        assert many.text.startswith("81 rows, the first 20 of them\n")
        assert none.text == "0 rows"


HOSTILE = [
    "ATTACH 'other.sqlite' AS other",
    "PRAGMA database_list",
    "SELECT file FROM pragma_database_list()",
    *("DROP TABLE item", "CREATE TEMP TABLE more (x)", "VACUUM INTO 'copy.sqlite'"),
    *("SELECT 1; DROP TABLE item", "SELECT readfile('/etc/passwd')", "SELECT gold_sql FROM item"),
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    "SELECT zeroblob(2000000000)",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    *(".read /etc/passwd", "", "SELECT 1 -- \x00 DROP", "SELECT '\ud800'", "../../../etc/passwd"),
]
"""A few of each kind: tests/tasks/verifiers/sql/test_attacks.py has all."""


def test_hostile_trajectories_change_no_file_read_no_gold_and_earn_nothing(tokenizer, databases):
    def script(prompt, index):
        if f"{START}tool" not in prompt:
            tool, sql = ("query", "columns", "answer")[index % 3], HOSTILE[index // 3]
            return call(tool, **{"table" if tool == "columns" else "sql": sql})
        return "SELECT 'I saw it all'"

    before = databases_fingerprint(databases), sorted(databases.rglob("*"))
    rollout = drawn(tokenizer, databases, [PROBLEM], script, samples=3 * len(HOSTILE))
    assert (databases_fingerprint(databases), sorted(databases.rglob("*"))) == before
    (group,) = rollout.groups
    assert len(group) == 3 * len(HOSTILE)
    for graded in group:
        assert graded.verdict.reward == 0.0, graded
        assert graded.verdict.reason or graded.verdict.outcome is Outcome.WRONG
        assert "'gold' = 'gold'" not in graded.completion.text
        assert "root:" not in graded.completion.text
        assert str(databases) not in graded.completion.text


def test_a_missing_database_costs_the_trajectory_and_columns_that_are_set_twice_are_refused(
    databases,
):
    problem = Problem(problem_id="p", prompt="?", answer={"database": "none.sqlite"})
    with sql_environment(databases) as environment, environment.begin(problem) as episode:
        assert episode.ending.outcome is Outcome.CRASHED
        assert "there is no database" in episode.ending.reason
    problem = Problem(problem_id="p", prompt="?", answer={"databases": "elsewhere"})
    with (
        sql_environment(databases) as environment,
        pytest.raises(DataError, match="has the column 'databases', which the environment"),
    ):
        environment.begin(problem)


def sql_recipe(databases, **environment):
    return resolve_recipe(
        {
            "method": "grpo",
            "model": {"path": "m"},
            "data": {"train": "train.jsonl", "verifier": "sql", "databases": str(databases)},
            "environment": {"path": "sql", **environment},
        }
    )


def test_a_recipe_names_it_and_its_identity_does_not_depend_on_where_databases_lie(
    databases, tmp_path
):
    moved = tmp_path / "moved"
    shutil.copytree(databases, moved)
    identities = []
    for place in (databases, moved):
        with run_verifier(sql_recipe(place)) as verifier:
            identities.append(verifier_identity(verifier))
            with verifier.environment.begin(PROBLEM) as episode:
                assert episode.step(call("tables"))[0].text == "item"
    assert identities[0] == identities[1]
    with sql_environment(databases) as environment:
        assert environment.columns["databases"] == str(databases)


def test_what_a_recipe_of_it_lacks_or_sets_twice_is_named(databases):
    with pytest.raises(SettingsError, match="path='sql' sets submits itself, got 'query'"):
        sql_recipe(databases, submits="query")
    recipe = sql_recipe(databases)
    nowhere = recipe.model_copy(update={"data": recipe.data.model_copy(update={"databases": None})})
    with pytest.raises(SettingsError, match=r"needs data\.databases"):
        run_verifier(nowhere)
