import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from dph.errors import SettingsError
from dph.tasks.problems import load_problems
from lab.worlds import world_kind
from lab.worlds.spider.kind import VARIABLE, SpiderSizes, require_spider
from lab.worlds.spider.world import groups_of, short_problems
from random_language_model import *  # noqa: F403
from shared_data import shared_data
from small_study import run_here

KIND = world_kind("real-spider")
DATABASES = [f"farm_{number:02d}" for number in range(10)]
SMALL = SpiderSizes(fine_tuning=6, train=12, in_domain=5, cross_domain=4)
SETS = ("train", "in_domain", "cross_domain")


def questions(database):
    table = f"{database}_animal"
    rows = [
        (
            f"Which is the animal after number {age}?",
            f"SELECT name FROM {table} WHERE id > {age} ORDER BY age LIMIT 1",
        )
        for age in range(8)
    ]
    rows += [
        ("Name animals by age.", f"SELECT name FROM {table} ORDER BY age"),
        ("What are the names by age?", f"select NAME  from {table} order by age;"),
        ("Name old ones.", f"SELECT name FROM {table} WHERE age > 99 ORDER BY age"),
        ("List the names of the animals.", f"SELECT name FROM {table}"),
        ("Name barns.", f"SELECT b.name FROM {table} AS a JOIN barn AS b WHERE a.age < 3"),
        (
            "Name the oldest.",
            f"SELECT name FROM {table} WHERE age = (SELECT max(age) FROM {table})",
        ),
        ("Name both.", f"SELECT a.name FROM {table} AS a, barn AS b ORDER BY a.name"),
        ("Name cows.", "SELECT name FROM cow ORDER BY name"),
        ("Which barn", f"SELECT name FROM barn WHERE name != '{'x' * 70}' ORDER BY name"),
    ]
    return [{"db_id": database, "question": asked, "query": gold} for asked, gold in rows]


@pytest.fixture(scope="module")
def spider(tmp_path_factory):
    directory = tmp_path_factory.mktemp("spider")
    for name in DATABASES:
        place = directory / "database" / name
        place.mkdir(parents=True)
        with closing(sqlite3.connect(place / f"{name}.sqlite")) as connection, connection:
            connection.execute(f"CREATE TABLE {name}_animal (id INTEGER, name TEXT, age INTEGER)")
            connection.execute("CREATE TABLE barn (name TEXT)")
            connection.execute("CREATE TABLE field (name TEXT)")
            connection.execute("INSERT INTO barn VALUES ('red')")
            rows = [(n, f"{name}-{n}", n) for n in range(10)]
            connection.executemany(f"INSERT INTO {name}_animal VALUES (?, ?, ?)", rows)
    asked = [row for name in DATABASES for row in questions(name)]
    (directory / "train_spider.json").write_text(json.dumps(asked))
    return directory


@pytest.fixture(autouse=True)
def _spider_is_found(spider, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(spider))


@pytest.fixture
def world(tmp_path):
    return KIND.build(tmp_path / "world", seed=3, sizes=SMALL)


def problems(world):
    return {name: load_problems(world.problems_path(name)) for name in SETS}


def manifest(world):
    return json.loads((world.directory / "world.json").read_text())


def test_questions_are_taken_once_if_their_result_can_tell_with_one_more_table(spider):
    found = short_problems(spider)
    assert sorted(found) == DATABASES
    for name, of_database in found.items():
        # Eight limits, an order, names, a join and a nested one; the second wording, the empty
        # result, a comma, a table that is not there and the long one are out.
        assert len(of_database) == 12
        join = of_database[10]
        assert join.answer["gold_sql"].startswith("SELECT b.name FROM")
        tables = f"{name}_animal(id, name, age)\nbarn(name)"
        assert join.prompt == f"Tables:\n{tables}\nfield(name)\nQuestion: Name barns.\nSQL:"
        assert of_database[-1].prompt.startswith(f"Tables:\n{tables}\nQuestion: Name the oldest.")


def test_no_gold_statement_is_in_two_sets_and_no_database_in_two_groups(world):
    found = problems(world)
    assert {name: len(of_set) for name, of_set in found.items()} == {
        "train": 12,
        "in_domain": 5,
        "cross_domain": 4,
    }
    rows = [
        json.loads(line) for line in world.problems_path("fine_tuning").read_text().splitlines()
    ]
    asked = [row["prompt"] for row in rows]
    assert all(row["response"].startswith(" SELECT ") for row in rows)
    ids = [p.problem_id for of_set in found.values() for p in of_set]
    assert len(ids) == len(set(ids)) == 12 + 5 + 4
    assert len(asked) == 6
    groups = groups_of(DATABASES)
    assert [len(names) for names in groups.values()] == [7, 3]
    for problem in found["train"] + found["in_domain"]:
        assert problem.answer["db_id"] in groups["trained"]
    for problem in found["cross_domain"]:
        assert problem.answer["db_id"] in groups["across"]


def test_the_seed_draws_the_sets_and_not_the_base_model(world, tmp_path):
    again = KIND.build(tmp_path / "again", seed=3, sizes=SMALL)
    other = KIND.build(tmp_path / "other", seed=4, sizes=SMALL)
    assert manifest(again) == manifest(world)
    digests = [manifest(w)["sha256"] for w in (world, other)]
    assert digests[0]["fine_tuning.jsonl"] == digests[1]["fine_tuning.jsonl"]
    assert all(digests[0][f"{name}.jsonl"] != digests[1][f"{name}.jsonl"] for name in SETS)


def test_what_is_missing_is_said_before_a_file_is_written(tmp_path, monkeypatch):
    sizes = replace(SMALL, train=74)
    with pytest.raises(SettingsError, match=r"has 78 questions of the kind 'trained' here, 79 are"):
        KIND.build(tmp_path / "world", seed=0, sizes=sizes)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(
        SettingsError, match=r"^the task 'real-spider' needs Spider.*set DPH_SPIDER"
    ):
        require_spider()
    assert not (tmp_path / "world").exists()


@pytest.mark.slow
def test_a_study_fine_tunes_once_and_trains_on_it(tmp_path, language_model):
    pytest.importorskip("trl", reason="needs dph-rl[sft]")
    sizes = {"fine_tuning": 8, "train": 16, "in_domain": 4, "cross_domain": 4}
    _, places, rows = run_here(tmp_path, "real-spider", sizes, seeds=(0, 1))
    assert {(row.method, row.seed) for row in rows.values()} == {
        (method, seed) for method in ("base", "grpo") for seed in (0, 1)
    }
    made = [path for path in language_model.parent.glob("spider-*") if path.is_dir()]
    assert len(made) == 1
    for seed in (0, 1):
        weights = places.work("real-spider", seed) / "base_model" / "model.safetensors"
        assert weights.samefile(made[0] / "spider" / "model" / "model.safetensors")


def test_the_published_set_has_questions_for_ten_worlds():
    spider = shared_data("spider")
    found = short_problems(spider)
    groups = groups_of(list(found))
    many = {name: sum(len(found[db]) for db in names) for name, names in groups.items()}
    sizes = SpiderSizes()
    assert many["trained"] >= sizes.fine_tuning + sizes.train + sizes.in_domain
    assert many["across"] >= sizes.cross_domain
