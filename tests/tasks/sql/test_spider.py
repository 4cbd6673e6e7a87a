import pytest

from dph.errors import SettingsError
from dph.tasks.sql.data_sets import load_spider
from shared_data import shared_data
from zoo import QUESTIONS, write_spider


def test_the_official_layout(tmp_path):
    source = load_spider(write_spider(tmp_path), "dev")
    assert [(q.question, q.gold_sql) for q in source.questions] == QUESTIONS
    assert source.questions[0].question_id == "spider-dev-0"
    assert (source.databases, source.tables) == (tmp_path / "database", tmp_path / "tables.json")


def test_the_other_training_questions_follow_those_of_spider(tmp_path):
    source = load_spider(write_spider(tmp_path), "train")
    assert [(q.question, q.gold_sql) for q in source.questions] == QUESTIONS
    assert source.questions[3].question_id == "spider-train-3"
    (tmp_path / "train_others.json").unlink()
    assert len(load_spider(tmp_path, "train").questions) == 3


def test_the_parquet_layout_keeps_the_original_positions():
    source = load_spider(shared_data("spider"), "train")
    assert len(source.questions) == 5477
    assert len({question.question_id for question in source.questions}) == 5477
    assert len(load_spider(shared_data("spider"), "dev").questions) == 1034


def test_there_is_no_other_split(tmp_path):
    with pytest.raises(SettingsError, match=r"train, dev, got 'test'"):
        load_spider(tmp_path, "test")
