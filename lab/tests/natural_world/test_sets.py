from collections import Counter

import pytest

pytest.importorskip("sqlglot", reason="needs sqlglot (lab/benchmarks/requirements.txt)")

from lab.benchmarks.natural_world.questions import Question
from lab.benchmarks.natural_world.sets import EVALUATED, OTHERS, TRAINED, draw_sets


def question(split, db_id, number, wording):
    query = f"select c{number} from t"
    name = f"{split}-{db_id}-{number}-{wording}"
    return Question(name, split, db_id, name, query, {"plain": query})


QUESTIONS = [
    question(split, f"{split}{db}", number, wording)
    for split, databases in (("train", 8), ("dev", 2))
    for db in range(databases)
    for number in range(25)
    for wording in "ab"
]


@pytest.fixture(scope="module")
def sets():
    return draw_sets(QUESTIONS, seed=1, largest=1000)


def test_a_query_is_in_one_set_with_all_its_questions(sets):
    homes = Counter(query for rows in sets.values() for query in {q.query for q in rows})
    assert set(homes.values()) == {1}
    assert sum(map(len, sets.values())) == len(QUESTIONS)


def test_reinforcement_learning_sees_no_database_of_the_others(sets):
    databases = {name: {q.db_id for q in rows} for name, rows in sets.items()}
    assert databases["train"] == databases["in_domain"]
    assert not databases["train"] & databases["cross_domain"]
    assert databases["base"] == databases["train"] | databases["cross_domain"]


def test_the_base_model_sees_no_database_of_spiders_dev_set(sets):
    assert {q.split for q in sets["unseen"]} == {"dev"}
    assert all(q.split == "train" for name in sets if name != "unseen" for q in sets[name])


def test_shares_are_kept_in_every_database(sets):
    for shares, database in ((TRAINED, "train"), (OTHERS, "cross_domain")):
        db_id = sets[database][0].db_id
        for name, share in shares.items():
            queries = {q.query for q in sets[name] if q.db_id == db_id}
            assert abs(len(queries) - 25 * share) <= 1


def test_evaluation_sets_are_cut_to_their_largest_size():
    small = draw_sets(QUESTIONS, seed=1, largest=5)
    assert [len(small[name]) for name in EVALUATED] == [5, 5, 5]


def test_the_same_seed_draws_the_same_sets(sets):
    assert draw_sets(QUESTIONS, seed=1, largest=1000) == sets
    assert draw_sets(QUESTIONS, seed=2, largest=1000) != sets
