import pytest

from lab.worlds.sql.question_sets import gold_sql
from lab.worlds.sql.sums import SLOPPINESS, Sum, all_sums
from lab.worlds.sql.world import sql_row, unlabelled_row


def test_there_are_77_sums_and_none_goes_below_zero():
    sums = all_sums()
    assert len(set(sums)) == 77 == 49 + 28
    assert {item.answer for item in sums} == set(range(13))


def test_annotators_are_sloppy_as_often_as_stated_and_stay_within_the_vocabulary():
    for item in all_sums():
        chances = item.chances()
        assert sum(chances.values()) == pytest.approx(1)
        assert next(iter(chances)) == item.answer
        assert chances.keys() <= set(range(19))
    assert Sum(4, "got", 3).chances() == {7: 1 - SLOPPINESS, 5: 0.1, 6: 0.1, 8: 0.1, 9: 0.1}
    # Nothing is below 0: two of the four slips end there.
    assert Sum(0, "lost", 0).chances() == {0: pytest.approx(0.8), 1: 0.1, 2: 0.1}


def test_a_question_without_its_answer_is_the_row_with_it_and_less(world, questions):
    paths = {database.name: database.relative_path for database in world.databases}
    for question in questions[:20]:
        row = sql_row("q-1", question, paths)
        bare = unlabelled_row("q-1", question, paths, part="others")
        assert row["gold_sql"] == gold_sql(question)
        assert bare.pop("part") == "others"
        assert bare == {key: row[key] for key in ("problem_id", "prompt", "database", "db_id")}
